"""Reads the stack's kubeconfig: one file and one context, both named by the stack.

`KUBECONFIG` and `current-context` are ignored, so that a stack never goes to the cluster that kubectl used last. Other
contexts and their credentials are removed, and never reach the stack's state.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from config.errors import StackError
from config.stack.sections import Cluster

_FILES = ("certificate-authority", "client-certificate", "client-key", "tokenFile")

_PROXIES = ("http", "https", "socks5")
"""Of a cluster, as kubectl knows them (k8s.io/client-go, `net/http.Transport`)."""

_KINDS = ("contexts", "clusters", "users")


def read_kubeconfig(cluster: Cluster) -> dict[str, Any]:
    """The kubeconfig with only the stack's context and with absolute paths.

    Raises StackError when the stack names no file or no context, or either is not there.
    """
    missing = [
        f"heavylift:cluster.{key}: is missing: expected {meaning}, here or in {variable}; kubectl's choice is not used"
        for key, meaning, variable in (
            ("kubeconfig", "the path of a kubeconfig file", "HEAVYLIFT_KUBECONFIG"),
            ("context", "the name of a context of that file", "HEAVYLIFT_KUBE_CONTEXT"),
        )
        if getattr(cluster, key) is None
    ]
    if cluster.kubeconfig is None or cluster.context is None:
        raise StackError(missing)
    path = Path(cluster.kubeconfig).expanduser()
    return _only(cluster.context, _load(path), path)


def _load(path: Path) -> dict[str, Any]:
    if os.pathsep in str(path) and not path.exists():
        raise StackError([f"heavylift:cluster.kubeconfig: '{path}' is a list of paths: expected the one to use"])
    try:
        document = next(yaml.safe_load_all(path.read_text()), None)
    except OSError as fault:
        raise StackError([f"heavylift:cluster.kubeconfig: '{path}' cannot be read ({fault.strerror})"]) from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise StackError([f"heavylift:cluster.kubeconfig: '{path}' is not YAML"]) from None
    if not isinstance(document, dict) or not all(_is_list_of_named(document.get(kind)) for kind in _KINDS):
        raise StackError([f"heavylift:cluster.kubeconfig: '{path}' is not a kubeconfig file"])
    plain: dict[str, Any] = json.loads(json.dumps(document, default=str))  # YAML has times, and JSON has none
    return plain


def _is_list_of_named(entries: object) -> bool:
    """Whether this is what `contexts`, `clusters` and `users` are: a list of objects with a name each, or nothing."""
    return entries is None or (
        isinstance(entries, list) and all(isinstance(entry, dict) and "name" in entry for entry in entries)
    )


def _only(context: str, document: dict[str, Any], path: Path) -> dict[str, Any]:
    contexts = {entry["name"]: entry for entry in document.get("contexts") or []}
    if context not in contexts:
        known = ", ".join(sorted(contexts)) or "none"
        raise StackError([f"heavylift:cluster.context: '{context}' is not in '{path}': expected one of {known}"])
    chosen = contexts[context]
    parts = chosen.get("context")
    if not isinstance(parts, dict):
        raise StackError([f"heavylift:cluster.context: '{context}' of '{path}' names no cluster"])
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": context,
        "contexts": [chosen],
        "clusters": _named(document, "clusters", parts.get("cluster"), path),
        "users": _named(document, "users", parts.get("user"), path),
    }
    if faults := [*_cluster_faults(kubeconfig), *_user_faults(kubeconfig)]:
        raise StackError([f"heavylift:cluster.context: '{context}' of '{path}': {fault}" for fault in faults])
    return kubeconfig


def _cluster_faults(kubeconfig: Mapping[str, Any]) -> Iterator[str]:
    for entry in kubeconfig["clusters"]:
        server, proxy = str(entry["cluster"].get("server", "")), entry["cluster"].get("proxy-url")
        if not re.match(r"https?://[^/]", server):
            yield f"cluster '{entry['name']}' has the server '{server}': expected an address such as https://host:6443"
        if proxy and urlsplit(proxy).scheme not in _PROXIES:
            yield (
                f"cluster '{entry['name']}' has the proxy-url '{_without_password(proxy)}': expected one that begins "
                f"with {', '.join(f'{kind}://' for kind in _PROXIES)}"
            )


def _user_faults(kubeconfig: Mapping[str, Any]) -> Iterator[str]:
    for entry in kubeconfig["users"]:
        name, user = entry["name"], entry["user"]
        provider = (user.get("auth-provider") or {}).get("name")
        if provider and provider != "oidc":
            yield (
                f"user '{name}' has the auth-provider '{provider}', which kubectl no longer has since 1.26: expected a "
                "credential plugin in its place (user.exec)"
            )
        if len(user.get("as-groups") or []) > 1 or user.get("as-user-extra"):
            yield f"user '{name}' acts for several groups or with extra fields: expected `as` and one of `as-groups`"
        key = user.get("client-key")
        if key and Path(key).is_file() and "ENCRYPTED" in Path(key).read_text(errors="replace"):
            yield f"user '{name}' has a key with a password ('{key}'): expected one without, as kubectl does"


def _without_password(address: str) -> str:
    return re.sub(r"//[^@/]*@", "//", address)


def _named(document: dict[str, Any], kind: str, name: str | None, path: Path) -> list[dict[str, Any]]:
    key = kind.removesuffix("s")
    found = [
        entry | {key: _absolute(entry.get(key) or {}, path)}
        for entry in document.get(kind) or []
        if entry["name"] == name
    ]
    if name is not None and not found:
        raise StackError([f"heavylift:cluster.context: its {key} '{name}' is not in '{path}'"])
    return found


def _absolute(values: dict[str, Any], path: Path) -> dict[str, Any]:
    """The values with their paths made absolute: those of files, and of a plugin that is not looked for on PATH."""
    folder = path.absolute().parent
    absolute = {key: str(folder / value) if key in _FILES and value else value for key, value in values.items()}
    plugin = absolute.get("exec")
    if isinstance(plugin, dict) and "/" in str(plugin.get("command", "")):
        absolute["exec"] = plugin | {"command": str(folder / plugin["command"])}
    return absolute
