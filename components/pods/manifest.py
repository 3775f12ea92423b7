"""Writes objects as the API does, for kinds without a class in Pulumi's SDK: field names and quantities."""

from typing import Any

from config.quantity import canonical

_KEYS_OF_THE_USER = {"annotations", "labels", "limits", "match_labels", "node_selector", "requests"}
"""Fields whose keys are data and stay unchanged, such as the resource name `rdma/hca_shared_devices_a`."""

_QUANTITIES = ("limits", "requests")
"""Fields whose values are quantities."""


def manifest(value: Any) -> Any:
    """Translates every field name of a value: `host_path` becomes `hostPath`."""
    if isinstance(value, dict):
        return {_field(key): inner if key in _KEYS_OF_THE_USER else manifest(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [manifest(inner) for inner in value]
    return value


def with_canonical_quantities(value: Any) -> Any:
    """Writes every quantity of a pod template as the API server stores it.

    Pulumi compares a custom resource as text: `5120Mi` would differ from the stored `5Gi` in every preview.
    """
    if isinstance(value, list):
        return [with_canonical_quantities(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    return {key: _quantities(key, inner) for key, inner in value.items()}


def _quantities(key: str, value: Any) -> Any:
    if key in _QUANTITIES and isinstance(value, dict):
        return {name: canonical(each) if isinstance(each, str) else each for name, each in value.items()}
    if key == "sizeLimit" and isinstance(value, str):
        return canonical(value)
    return with_canonical_quantities(value)


def _field(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.title() for word in others)
