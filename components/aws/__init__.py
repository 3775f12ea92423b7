"""AWS: network, EKS cluster, GPU nodes and mirror. Imported by stacks on AWS only, as pulumi_aws takes time to load."""
