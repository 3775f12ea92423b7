"""What a stack file may say, and how it is read: the sections as frozen models, secrets, lock file, kubeconfig."""
