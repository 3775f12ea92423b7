"""What is decided before anything is created: the plan, the check of the cluster, and the components' arguments."""
