"""Services of which a stack needs a few operations: Auto Scaling, IAM, Service Quotas, Systems Manager."""
