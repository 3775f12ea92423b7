"""Values on their way between the engine and boto3."""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

from google.protobuf import json_format, struct_pb2

Properties = dict[str, Any]

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
"""What the engine writes for a value that is not known yet (UnknownStringValue in github.com/pulumi/pulumi,
sdk/go/common/resource/plugin)."""


def read(struct: Any) -> Properties:
    """Returns the properties of a message, with whole numbers as such and without what is null."""
    found = _plain(json_format.MessageToDict(struct))
    return {key: value for key, value in found.items() if key != "__defaults"}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def write(properties: Mapping[str, Any]) -> Any:
    """Returns properties as a message."""
    made = struct_pb2.Struct()
    made.update({key: value for key, value in properties.items() if value is not None})
    return made


def pascal(value: Any, renamed: Mapping[str, str], keep: Callable[[str], bool] = lambda _: False) -> Any:
    """Returns arguments with EC2's names, which start with capitals. `renamed`: those that differ otherwise.

    pulumi-aws has `"true"` and `"false"` where a boolean may be unset.
    """
    if isinstance(value, dict):
        return {
            renamed.get(key, key[0].upper() + key[1:]): inner if keep(key) else pascal(inner, renamed, keep)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [pascal(inner, renamed, keep) for inner in value]
    return value == "true" if value in ("true", "false") else value


def at(properties: Mapping[str, Any], path: str) -> Any:
    """Returns the value at a path such as `launchTemplate.id`. None: nothing there."""
    found: Any = properties
    for part in path.split("."):
        found = found.get(part) if isinstance(found, dict) else UNKNOWN if found == UNKNOWN else None
    return found


def with_value(properties: Mapping[str, Any], path: str, value: Any) -> Properties:
    """Returns a copy of the properties with a value at a path, whose parents exist or are made."""
    head, _, rest = path.partition(".")
    inner = properties.get(head)
    made = with_value(inner if isinstance(inner, dict) else {}, rest, value) if rest else value
    return {**properties, head: made}


def automatic_name(name: str, urn: str, seed: bytes, most: int) -> str:
    """Returns a resource's name with seven hexadecimal digits that differ in each stack."""
    suffix = hashlib.sha256(urn.encode() + seed).hexdigest()[:7]
    return f"{name[: most - len(suffix) - 1]}-{suffix}"
