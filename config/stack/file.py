"""Reads `Pulumi.<stack>.yaml` without Pulumi, for the planner's command line, the schema and tests.

Ignores Pulumi's own keys and other namespaces. Secrets stay encrypted.
"""

import re
import shutil
from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Any

import yaml
from yaml.constructor import ConstructorError

from config.errors import StackError
from config.stack.sections import StackConfig
from config.stack.sections.promotion import STACK_NAME

NAMESPACE = "heavylift:"
_NAME = re.compile(STACK_NAME)
HUB_TOKEN = "hub_token"  # noqa: S105 - the name of the key, not a token
API_KEY = "api_key"
SECRETS = (HUB_TOKEN, API_KEY)
"""Keys of the stack whose values are secrets."""
_DEEPEST = 50
"""Levels of a stack file: several times as many as the schema has, and few enough for every recursion over values."""


def checked_stack_name(name: str) -> str:
    """The name. Raises StackError if a Service or claim cannot have this name."""
    if not _NAME.fullmatch(name):
        raise StackError(
            [
                f"stack name: '{name}' cannot name a Service: expected at most 40 lower-case letters, digits and inner "
                "hyphens, beginning with a letter"
            ]
        )
    return name


class _UniqueKeys(yaml.CSafeLoader):  # of libyaml: three times as fast
    """Refuses a key that stands twice in one object, as Pulumi does; YAML's own loader takes the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise ConstructorError(None, None, f"the key {key.value!r} is there twice", key.start_mark)
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


def stack_file(name: str, program: Path = Path()) -> Path:
    """The stack file of `name` in the program's directory. Raises StackError if no stack can have this name."""
    return program / f"Pulumi.{checked_stack_name(name)}.yaml"


def read_stack_file(path: Path) -> StackConfig:
    """The checked configuration of a stack file; environment overrides are not applied.

    Raises StackError if the file is unreadable or invalid.
    """
    return StackConfig.parse(read_sections(path))


def read_sections(path: Path) -> dict[str, Any]:
    """The `heavylift:` values of a stack file without their prefix and without the secret, unchecked."""
    return sections_of(read_text(path), path)


def read_text(path: Path) -> str:
    """The text of a stack file, with its own line ends. Raises StackError if it cannot be read."""
    try:
        return path.read_bytes().decode()
    except OSError as fault:
        raise StackError([f"{path}: cannot be read ({fault.strerror}); stacks are {_stacks(path.parent)}"]) from None
    except UnicodeDecodeError as fault:
        raise StackError([f"{path}: is not YAML: {fault}"]) from None


def replace_stack_file(path: Path, text: str) -> None:
    """Writes a stack file that is there already, as a whole or not at all. Raises StackError if this fails."""
    file = path.resolve()
    written = file.with_name(f"{file.name}.new")
    try:
        written.write_text(text, encoding="utf-8", newline="")
        shutil.copymode(file, written)
        written.replace(file)
    except OSError as fault:
        written.unlink(missing_ok=True)
        raise StackError([f"{path}: cannot be written ({fault.strerror})"]) from None


def sections_of(text: str, path: Path) -> dict[str, Any]:
    """The same as `read_sections`, of the text of the file at `path`."""
    try:
        document = yaml.load(text, _UniqueKeys)  # noqa: S506 - a safe loader
    except yaml.YAMLError as fault:
        raise StackError([f"{path}: is not YAML: {' '.join(str(fault).split())}"]) from None
    if _is_deeper(document, _DEEPEST):
        raise StackError([f"{path}: is not a stack file: its values are nested too deeply"])
    config = (document or {}).get("config") if isinstance(document or {}, dict) else None
    if not isinstance(config, dict):
        raise StackError([f"{path}: expected an object named config with heavylift: keys"])
    # Pulumi gives the program an empty text for a key without a value.
    values = {
        key.removeprefix(NAMESPACE): "" if value is None else value
        for key, value in config.items()
        if str(key).startswith(NAMESPACE)
    }
    if plain := [key for key in SECRETS if isinstance(values.pop(key, None), str)]:
        raise StackError(
            [f"{NAMESPACE}{key}: is in plain text: set it with `pulumi config set --secret`" for key in plain]
        )
    return values


def _is_deeper(value: Any, most: int) -> bool:
    """Whether a value has more than `most` levels. Looks once at what aliases repeat in one level."""
    level = [value]
    for _ in range(most):
        inner = (each for outer in level for each in _values(outer))
        level = list({id(each): each for each in inner}.values())
    return bool(level)


def _values(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _stacks(program: Path) -> str:
    names = sorted(file.name.split(".")[1] for file in program.glob("Pulumi.*.yaml"))
    return ", ".join(names) or "none here"
