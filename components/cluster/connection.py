"""From a kubeconfig to a client of its cluster, with whatever credentials kubectl would find there.

The official client's own loader only logs that a credential plugin failed, and goes on as nobody. Here the plugin runs
first, and its token or certificate takes its place.
"""

import base64
from collections.abc import Mapping
from copy import deepcopy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import urllib3
from kubernetes import config
from kubernetes.client import ApiClient, Configuration
from kubernetes.config.exec_provider import ExecProvider
from kubernetes.config.kube_config import ConfigNode

_IDENTITIES = (
    "token",
    "tokenFile",
    "exec",
    "auth-provider",
    "username",
    "client-certificate",
    "client-certificate-data",
)


class NoConnection(Exception):
    """The kubeconfig leads nowhere; the text says why in one line."""


class Connection:
    """A client, and how long its credentials last."""

    def __init__(self, kubeconfig: Mapping[str, Any]) -> None:
        """Raises NoConnection, urllib3's HTTPError, and OSError."""
        self.expires: datetime | None = None
        document = deepcopy(dict(kubeconfig))
        try:
            context = _of(document, "context", document["current-context"])
            cluster, user = _of(document, "cluster", context["cluster"]), context.get("user")
            if user is not None:
                document["users"] = [{"name": user, "user": self._resolved(user, _of(document, "user", user), cluster)}]
            else:
                document["users"] = []
            self.client = _client(document)
        except ImportError as fault:  # a proxy of a kind that needs another library
            raise NoConnection(str(fault)) from None
        except (config.ConfigException, ValueError, TypeError, KeyError, AttributeError) as fault:
            raise NoConnection(f"its kubeconfig cannot be used: {' '.join(str(fault).split())}") from None

    def is_current(self) -> bool:
        """Whether its credentials still hold, as far as they say."""
        return self.expires is None or datetime.now(UTC) < self.expires

    def _resolved(self, name: str, user: Mapping[str, Any], cluster: Mapping[str, Any]) -> dict[str, Any]:
        """The user with the content of its token file, or what its plugin gave, in place of them."""
        plain = {key: value for key, value in user.items() if key not in ("exec", "tokenFile")}
        if "tokenFile" in user:
            return plain | {"token": Path(user["tokenFile"]).read_text().strip()}
        if "exec" not in user or "token" in user:
            return plain
        status = _run(name, user["exec"], cluster)
        if "expirationTimestamp" in status:
            self.expires = datetime.fromisoformat(status["expirationTimestamp"])
        given = {"token": status["token"]} if status.get("token") else {}
        for field, key in (("clientCertificateData", "client-certificate-data"), ("clientKeyData", "client-key-data")):
            if status.get(field):
                given[key] = base64.b64encode(status[field].encode()).decode()
        if not given.keys() & {"token", "client-certificate-data"}:
            raise NoConnection(f"the plugin of user '{name}' gave neither token nor certificate")
        return plain | given


def _of(document: Mapping[str, Any], kind: str, name: str) -> dict[str, Any]:
    """The `context`, `cluster` or `user` of that name. Raises KeyError."""
    found: dict[str, Any] = {entry["name"]: entry for entry in document[f"{kind}s"]}[name][kind]
    return found or {}


def _run(name: str, plugin: Mapping[str, Any], cluster: Mapping[str, Any]) -> Mapping[str, Any]:
    """The status of the credential that a plugin prints, as client.authentication.k8s.io describes it."""
    command = plugin.get("command")
    if plugin.get("interactiveMode") == "Always":
        raise NoConnection(f"the plugin {command} of user '{name}' asks questions, and nobody is there to answer")
    try:
        settings, about = ConfigNode("exec", dict(plugin)), ConfigNode("cluster", dict(cluster))  # type: ignore[no-untyped-call]
        status: Mapping[str, Any] = ExecProvider(settings, None, about).run()  # type: ignore[no-untyped-call]
    except FileNotFoundError:
        hint = " ".join(plugin.get("installHint", "").split())
        raise NoConnection(
            f"the plugin {command} of user '{name}' is not installed" + f"; {hint}" * bool(hint)
        ) from None
    except (config.ConfigException, OSError, ValueError, TypeError) as fault:
        raise NoConnection(f"the plugin {command} of user '{name}' failed: {' '.join(str(fault).split())}") from None
    return status


def _client(document: Mapping[str, Any]) -> ApiClient:
    settings = Configuration()
    config.load_kube_config_from_dict(document, client_configuration=settings)  # type: ignore[no-untyped-call]
    settings.retries = False
    user: dict[str, Any] = next((entry["user"] for entry in document["users"]), {})
    if any(user.get(key) for key in _IDENTITIES) and not (settings.api_key or settings.cert_file):
        [name] = [entry["name"] for entry in document["users"]]
        raise NoConnection(f"user '{name}' has credentials that are of no use any more; log in again")
    if not settings.verify_ssl:
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    client = ApiClient(settings)
    for header, key in (("Impersonate-User", "as"), ("Impersonate-Uid", "as-uid"), ("Impersonate-Group", "as-groups")):
        if value := user.get(key):
            client.default_headers[header] = value if isinstance(value, str) else value[0]
    return client
