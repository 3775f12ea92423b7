"""Generates docs/configuration.md, the reference of all keys, from the models of the stack file."""

from collections.abc import Iterator
from enum import StrEnum
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from config.stack.file import API_KEY, HUB_TOKEN, NAMESPACE
from config.stack.overrides import KEYS
from config.stack.sections import (
    AwsMirror,
    Capacity,
    EksChoice,
    Fabric,
    NewEksCluster,
    StackConfig,
    StagedRepository,
    Taint,
)
from config.stack.sections.fields import Section
from config.stack.sections.network import Caller

_OPENING = """# Configuration

Every key of a `Pulumi.<stack>.yaml` file. This page is made by `make schema` from `config/stack/`.
Unknown keys are refused, and all faults of a file come in one message, each with its key, its value and what was
expected. A `# yaml-language-server` line at the top of a stack file lets an editor complete and check the keys.
"""

_CLOSING = f"""## {NAMESPACE}{HUB_TOKEN}

Token of the model hub, for gated and private repositories: `pulumi config set --secret {NAMESPACE}{HUB_TOKEN}`.
It becomes a Kubernetes Secret that only the stager's container sees. In plain text it is refused.

## {NAMESPACE}{API_KEY}

API key that clients send as `Authorization: Bearer <key>`: at least 16 letters, digits or any of `._~+/=-`, such as
`openssl rand -hex 32 | pulumi config set --secret {NAMESPACE}{API_KEY}`. It becomes a Kubernetes Secret that only the
engine's container sees, and no argument of the pod. Another key restarts the server. llama.cpp asks for it at every
path but `/health`, SGLang at every path but those of health and metrics, vLLM below `/v1` only: the preview names the
paths that stay open.

## Environment variables

What differs from machine to machine may stand in the environment instead. A preview prints each one that is set.
kubectl's own `KUBECONFIG` and current context are never used.

| variable | overrides |
|---|---|
"""

_INNER: dict[str, type[Section]] = {
    "aws.cluster": EksChoice,
    "aws.cluster.create": NewEksCluster,
    "aws.mirror": AwsMirror,
    "model.draft": StagedRepository,
    "nodes.capacity": Capacity,
    "nodes.fabric": Fabric,
    "one of nodes.taints": Taint,
    "one of network.from": Caller,
}
"""Sections within a section, which have a table of their own."""

_NAMES: dict[Any, str] = {str: "text", int: "whole number", float: "number", bool: "`true`, `false`"}


def reference() -> str:
    """The whole page."""
    lines = [_OPENING, *_sections(), _CLOSING + "\n".join(_overrides()), ""]
    return "\n".join(lines)


def _sections() -> Iterator[str]:
    for name, field in StackConfig.model_fields.items():
        for section in _classes(field.annotation):
            yield f"## {NAMESPACE}{name}\n\n{one_line(section.__doc__)}\n"
            yield _table(section)
    for name, section in _INNER.items():
        yield f"### {name}\n\n{one_line(section.__doc__)}\n"
        yield _table(section)


def _classes(annotation: Any) -> Iterator[type[Section]]:
    """The sections that a key can have: one, which may be optional."""
    for each in (annotation, *get_args(annotation)):
        if isinstance(each, type) and issubclass(each, Section):
            yield each


def _table(section: type[Section]) -> str:
    rows = [
        f"| `{field.alias or name}` | {_type(field.annotation)} | {_default(field)} | {one_line(field.description)} |"
        for name, field in section.model_fields.items()
    ]
    return "\n".join(["| key | type | default | meaning |", "|---|---|---|---|", *rows, ""])


def _type(annotation: Any) -> str:
    if get_origin(annotation) in (UnionType, Union):
        return " or ".join(_type(each) for each in get_args(annotation) if each is not NoneType)
    arguments = get_args(annotation)
    if arguments and get_origin(annotation).__name__ == "Sequence":
        return f"list of {_type(arguments[0])}"
    if arguments and get_origin(annotation).__name__ == "Mapping":
        return "names and texts"
    if arguments:
        return _type(arguments[0])
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return ", ".join(f"`{choice}`" for choice in annotation)
    return _NAMES.get(annotation, "object")


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "**required**"
    default = field.default
    if default is None:
        return "unset"
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    if not default and not isinstance(default, int):
        return "none"
    return ", ".join(f"`{each}`" for each in default) if isinstance(default, tuple) else f"`{default}`"


def one_line(text: str | None) -> str:
    """A description on one line, as a cell of a Markdown table needs it. None: empty."""
    return " ".join((text or "").split()).replace("|", "\\|")


def _overrides() -> Iterator[str]:
    for variable, path in KEYS.items():
        yield f"| `{variable}` | `{NAMESPACE}{'.'.join(path)}` |"
