"""The Pulumi components: GPU nodes, the volume under the weights, the Job that stages them, and the server."""
