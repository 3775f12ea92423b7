"""Enforces NetworkPolicies on a real node: kube-network-policies, which judges the first packet of each connection.

Run as `python -m lab.cluster.network_policies DIRECTORY INDEX` in the node's namespaces. It runs as long as the lab.
"""

import csv
import os
import subprocess
import sys
from pathlib import Path

from lab.build.cache import ensure
from lab.build.pieces import NETWORK_POLICIES_PIECE
from lab.cluster.certificates import Certificates
from lab.processes import run
from lab.site import Site, load

_QUEUE = "100"
_CREDENTIALS = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a program in a pod finds its credentials, and this one expects them. The node's own `/run` has the folder."""


def queue_connections() -> None:
    """Sends the first packet of each connection to the enforcer. Its own rules need NFT_QUEUE, which some kernels lack.

    Connections of the node itself, such as the kubelet's probes, are not forwarded and so get through.
    """
    for protocol in ("tcp", "udp"):
        match = ("-p", protocol, "-m", "conntrack", "--ctstate", "NEW")
        run("iptables", "-t", "mangle", "-I", "FORWARD", *match, "-j", "NFQUEUE", "--queue-num", _QUEUE)


def write_credentials(site: Site) -> None:
    """Writes the administrator's token and the cluster's authority."""
    with (site.directory / "tokens.csv").open() as tokens:
        token = next(token for token, user, *_ in csv.reader(tokens) if user == "admin")
    _CREDENTIALS.mkdir(parents=True, exist_ok=True)
    (_CREDENTIALS / "token").write_text(token)
    (_CREDENTIALS / "ca.crt").write_bytes(Certificates(site).authority.read_bytes())


def main() -> None:
    """Starts the enforcer on one node, unless it runs there."""
    directory, index = sys.argv[1:]
    site = load(Path(directory))
    if site is None:
        raise SystemExit(f"{directory} holds no lab")
    if _CREDENTIALS.exists():
        return
    write_credentials(site)
    flags = ("--disable-nri", f"--hostname-override=real-{index}", f"--nfqueue-id={_QUEUE}")
    with (site.logs / f"real-{index}-network-policies.log").open("ab") as log:
        subprocess.Popen(
            [ensure(NETWORK_POLICIES_PIECE) / "kube-network-policies", *flags, "--metrics-bind-address=127.0.0.1:9080"],
            env={
                **os.environ,
                "KUBERNETES_SERVICE_HOST": site.address,
                "KUBERNETES_SERVICE_PORT": str(site.ports["api"]),
            },
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    queue_connections()


if __name__ == "__main__":
    main()
