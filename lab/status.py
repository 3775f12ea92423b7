"""The output of `python -m lab status`: addresses, nodes with their GPUs, and processes that ended."""

from typing import Any

from lab.cluster import client
from lab.site import Site


def describe(node: dict[str, Any]) -> str:
    """Returns one line: the node's name, kind, readiness and extended resources."""
    kind = "simulated" if node["metadata"]["labels"].get("type") == "kwok" else "real"
    state = "Ready" if client.is_ready(node) else "not Ready"
    if node["spec"].get("unschedulable"):
        state += ", drained"
    allocatable = node["status"].get("allocatable", {})
    extended = ", ".join(f"{name} {count}" for name, count in sorted(allocatable.items()) if "/" in name)
    return f"  {node['metadata']['name']:24} {kind:10} {state:18} {extended}".rstrip()


def deaths(site: Site) -> list[str]:
    """Returns the log lines about processes that ended."""
    log = (site.logs / "lab.log").read_text(errors="replace")
    return [line for line in log.splitlines() if " ended with status " in line]


def report(site: Site) -> str:
    """Returns the complete status."""
    nodes = client.nodes(client.core(site))
    lines = [
        f"up: process {site.pid}, directory {site.directory}",
        f"API server  {site.url('api', 'https')} (context lab of {site.kubeconfig})",
        f"hub         {site.url('hub')}",
        f"S3          {site.url('s3')}",
        "nodes" if nodes else "no nodes: python -m lab add-nodes 8xh200",
        *(describe(node) for node in nodes),
        *deaths(site),
    ]
    return "\n".join(lines)
