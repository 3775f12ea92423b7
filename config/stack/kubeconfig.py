"""The stack's way to its cluster: one context of one kubeconfig file, both named by the stack.

kubectl's own choice (`KUBECONFIG`, `current-context`) is never used: a stack must not go to whatever cluster somebody
looked at last. Other contexts of the file and their credentials stay out of the stack's state.
"""

from pathlib import Path
from typing import Any

import yaml

from config.errors import StackError
from config.stack.sections import Cluster

_FILES = ("certificate-authority", "client-certificate", "client-key", "tokenFile")

_KINDS = ("contexts", "clusters", "users")


def read_kubeconfig(cluster: Cluster) -> dict[str, Any]:
    """A kubeconfig with the stack's context alone, paths made absolute.

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
    try:
        document = yaml.safe_load(path.read_text())
    except OSError as fault:
        raise StackError([f"heavylift:cluster.kubeconfig: '{path}' cannot be read ({fault.strerror})"]) from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise StackError([f"heavylift:cluster.kubeconfig: '{path}' is not YAML"]) from None
    if not isinstance(document, dict) or not all(_is_list_of_named(document.get(kind)) for kind in _KINDS):
        raise StackError([f"heavylift:cluster.kubeconfig: '{path}' is not a kubeconfig file"])
    return document


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
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": context,
        "contexts": [chosen],
        "clusters": _named(document, "clusters", parts.get("cluster"), path),
        "users": _named(document, "users", parts.get("user"), path),
    }


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
    return {key: str(path.absolute().parent / value) if key in _FILES else value for key, value in values.items()}
