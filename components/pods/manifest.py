"""Translates field names to the API's spelling, for kinds without a class in Pulumi's SDK."""

from typing import Any

_KEYS_OF_THE_USER = {"annotations", "labels", "limits", "match_labels", "node_selector", "requests"}
"""Fields whose keys are data and stay unchanged, such as the resource name `rdma/hca_shared_devices_a`."""


def manifest(value: Any) -> Any:
    """Translates every field name of a value: `host_path` becomes `hostPath`."""
    if isinstance(value, dict):
        return {_field(key): inner if key in _KEYS_OF_THE_USER else manifest(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [manifest(inner) for inner in value]
    return value


def _field(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.title() for word in others)
