"""Reads stacks: the sections as frozen models, the secret, the lock file and the kubeconfig."""
