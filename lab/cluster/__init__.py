"""The processes of the lab's cluster, its nodes and the servers beside it."""
