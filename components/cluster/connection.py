"""Makes a client from a kubeconfig, with the credentials that kubectl would use.

If a credential plugin fails, the official client's loader only logs the failure and continues without credentials. This
module runs the plugin first, and puts its token or certificate into the kubeconfig in place of the plugin.
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
    """The kubeconfig cannot be used. The message gives the reason in one line."""


class Connection:
    """A client, and the time at which its credentials expire."""

    def __init__(self, kubeconfig: Mapping[str, Any]) -> None:
        """Raises NoConnection, urllib3's HTTPError or OSError."""
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
        except ImportError as fault:  # a kind of proxy that needs another library
            raise NoConnection(str(fault)) from None
        except (config.ConfigException, ValueError, TypeError, KeyError, AttributeError) as fault:
            raise NoConnection(f"its kubeconfig cannot be used: {' '.join(str(fault).split())}") from None

    def is_current(self) -> bool:
        """Whether the credentials are still valid. Credentials without an expiry time always count as valid."""
        return self.expires is None or datetime.now(UTC) < self.expires

    def _resolved(self, name: str, user: Mapping[str, Any], cluster: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the user with its token file or plugin replaced by the credentials that they provide."""
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
    """Returns the `context`, `cluster` or `user` of this name. Raises KeyError."""
    found: dict[str, Any] = {entry["name"]: entry for entry in document[f"{kind}s"]}[name][kind]
    return found or {}


def _run(name: str, plugin: Mapping[str, Any], cluster: Mapping[str, Any]) -> Mapping[str, Any]:
    """Runs a plugin. Returns the status of the ExecCredential that it prints (client.authentication.k8s.io)."""
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
