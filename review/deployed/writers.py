"""Who else wrote fields of a stack's objects: `metadata.managedFields`, which the API server keeps for every field.

A refresh compares only the fields that Pulumi set. A variable added to a container, an annotation, or the mark of
`kubectl rollout restart` is another manager's field, and a refresh does not see it (pulumi-kubernetes#3697).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_CONTROLLERS = ("kube-controller-manager", "kube-scheduler", "kubelet", "kube-apiserver", "manager")
"""Managers whose fields are no drift. `manager`: programs of controller-runtime, such as the LeaderWorkerSet's."""
_PULUMI = "pulumi-kubernetes"


@dataclass(frozen=True, order=True)
class ForeignWrite:
    """Fields of one object that belong to another manager."""

    kind: str
    name: str
    manager: str
    """Such as `kubectl-edit` or `kubectl-set`."""
    time: str
    """When it last wrote, in RFC 3339."""
    paths: Sequence[str]
    """The fields, such as `spec.template.spec.containers[engine].env[A].value`."""


def foreign_writes(objects: Iterable[Mapping[str, Any]]) -> list[ForeignWrite]:
    """The fields of these objects that are neither Pulumi's nor a controller's, sorted."""
    return sorted(write for each in objects for write in _of_object(each))


def _of_object(thing: Mapping[str, Any]) -> Iterator[ForeignWrite]:
    metadata = thing["metadata"]
    for entry in metadata.get("managedFields") or ():
        manager = str(entry.get("manager", "unknown"))
        if entry.get("subresource") == "status" or manager in _CONTROLLERS or manager.startswith(_PULUMI):
            continue
        paths = tuple(sorted(_leaves(entry.get("fieldsV1") or {})))
        if paths:
            yield ForeignWrite(thing["kind"], metadata["name"], manager, str(entry.get("time", "")), paths)


def _leaves(fields: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """The paths of a FieldsV1: keys `f:name`, `k:{...}` for an item by its keys, `v:value` for one of a set."""
    inner = {key: value for key, value in fields.items() if key != "."}
    if not inner and path:
        yield path
    for key, value in inner.items():
        yield from _leaves(value or {}, path + _part(key, path))


def _part(key: str, path: str) -> str:
    form, _, rest = key.partition(":")
    if form == "k":
        item = json.loads(rest)
        return f"[{item.get('name', ','.join(map(str, item.values())))}]"
    if form in ("v", "i"):
        return f"[{rest}]"
    if "." in rest or "/" in rest:
        return f'["{rest}"]'
    return f".{rest}" if path else rest
