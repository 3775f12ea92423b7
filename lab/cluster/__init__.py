"""The processes of the lab's cluster, its nodes, the hub and the S3 server."""
