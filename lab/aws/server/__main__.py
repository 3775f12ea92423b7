"""Serves AWS' APIs: `python -m lab.aws.server --port PORT [--kubeconfig FILE]`."""

import argparse
from pathlib import Path

from lab.aws.server.cluster import CLUSTER
from lab.aws.server.running import make


def main() -> None:
    """Serves until the process ends."""
    parser = argparse.ArgumentParser(prog="python -m lab.aws.server", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--kubeconfig", type=Path, help="the cluster that EKS answers with; without it, none")
    arguments = parser.parse_args()
    if arguments.kubeconfig:
        # Takes half a second to import.
        from lab.aws.server.kubernetes_nodes import KubernetesNodes

        CLUSTER.use(arguments.kubeconfig, KubernetesNodes(arguments.kubeconfig))
    make(arguments.host, arguments.port).serve_forever()


if __name__ == "__main__":
    main()
