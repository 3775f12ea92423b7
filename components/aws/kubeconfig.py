"""The kubeconfig of an EKS cluster, with a credential plugin: a token would expire after 15 minutes."""

import json
from collections.abc import Sequence

TOKEN_COMMAND = (".venv/bin/python", "-m", "components.aws.cluster_token")
"""The signer of this program, from its directory. Pulumi starts program and providers there, on every machine."""

_INSTALL_HINT = "run `make .venv/.ready` in the program's directory, and pulumi from there"


def kubeconfig(endpoint: str, certificate: str, cluster: str, region: str, command: Sequence[str]) -> str:
    """The kubeconfig as JSON. `command`: the plugin, which gets the names of region and cluster as arguments."""
    program, *arguments = command
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": program,
        "args": [*arguments, region, cluster],
        "installHint": _INSTALL_HINT,
        "interactiveMode": "Never",
        "provideClusterInfo": False,
    }
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": cluster,
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": cluster}}],
        "clusters": [
            {"name": cluster, "cluster": {"server": endpoint, "certificate-authority-data": certificate}},
        ],
        "users": [{"name": cluster, "user": {"exec": plugin}}],
    }
    return json.dumps(document)
