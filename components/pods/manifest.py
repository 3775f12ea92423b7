"""Kubernetes objects in the API's spelling, for kinds that the SDK has no class for and so does not translate."""

from typing import Any

_KEYS_OF_THE_USER = {"annotations", "labels", "limits", "match_labels", "node_selector", "requests"}
"""Fields whose keys are data and stay as they are: `rdma/hca_shared_devices_a` is a resource's name."""


def manifest(value: Any) -> Any:
    """The value with every field name in the API's spelling: `host_path` becomes `hostPath`."""
    if isinstance(value, dict):
        return {_field(key): inner if key in _KEYS_OF_THE_USER else manifest(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [manifest(inner) for inner in value]
    return value


def _field(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.title() for word in others)
