"""A real Pulumi engine and a real Kubernetes on one small machine, for proving a Pulumi program without its hardware.

Control plane, LeaderWorkerSet, a node that runs containers, simulated GPU nodes, a model hub, a wheel index and an
S3 server, all in one set of Linux namespaces: ending the one process inside ends everything. Nothing of the host is
configured, installed or written to but the cache directory. `python -m lab --help` is the door, docs/lab.md the page.
"""
