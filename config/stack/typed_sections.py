"""Writes the sections of a stack file as TypedDicts, for components that take them as plain arguments.

`make schema` writes config/stack/arguments.py from the models, so that a key is declared once. Pulumi infers a
component's schema from annotations and from the docstrings in the source, and understands no pydantic model.
"""

import textwrap
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from config.stack.sections import Promotion, StackConfig
from config.stack.sections.fields import Section

ARGUMENTS_FILE = Path(__file__).parent / "arguments.py"

_LINE_LENGTH = 120
_OF_THE_PROGRAM = Promotion
"""The section that no component takes: it is about the stack as a whole."""

_OPENING = '''"""The sections of a stack file as plain values.

Written by `make schema` from config/stack/sections/: do not edit.
"""
'''


def arguments_text() -> str:
    """The content of config/stack/arguments.py."""
    sections: list[type[Section]] = [*_sections(StackConfig), StackConfig]
    enums = {enum for section in sections for enum in _enums(section)}
    return "\n".join(
        [
            _OPENING,
            "from collections.abc import Mapping, Sequence",
            "from typing import Any, NotRequired, TypedDict",
            "",
            *_import_lines(enums),
            *(line for section in sections for line in _class_lines(section)),
            "",
        ]
    )


def _sections(section: type[Section]) -> Iterator[type[Section]]:
    """The sections within one, each after those that it is made of; not the section itself."""
    seen: set[type[Section]] = set()
    for field in section.model_fields.values():
        for inner in _parts(field.annotation):
            if inner is _OF_THE_PROGRAM:
                continue
            if isinstance(inner, type) and issubclass(inner, Section) and inner not in seen:
                deeper = [each for each in _sections(inner) if each not in seen]
                seen |= {inner, *deeper}
                yield from (*deeper, inner)


def _enums(section: type[Section]) -> Iterator[type[StrEnum]]:
    for field in section.model_fields.values():
        for inner in _parts(field.annotation):
            if isinstance(inner, type) and issubclass(inner, StrEnum):
                yield inner


def _parts(annotation: Any) -> Iterator[Any]:
    yield annotation
    for argument in get_args(annotation):
        yield from _parts(argument)


def _import_lines(enums: set[type[StrEnum]]) -> Iterator[str]:
    for module in sorted({enum.__module__ for enum in enums}):
        names = sorted(enum.__name__ for enum in enums if enum.__module__ == module)
        line = f"from {module} import {', '.join(names)}"
        if len(line) <= _LINE_LENGTH:
            yield line
        else:
            yield from (f"from {module} import (", *(f"    {name}," for name in names), ")")


def _class_lines(section: type[Section]) -> Iterator[str]:
    yield from ("", "", f"class {section.__name__}(TypedDict):", *_docstring(section.__doc__), "")
    for name, field in section.model_fields.items():
        if field.annotation is _OF_THE_PROGRAM:
            continue
        plain = _type(field.annotation)
        yield f"    {name}: {plain if field.is_required() else f'NotRequired[{plain}]'}"
        yield from _docstring(field.description)


def _type(annotation: Any) -> str:
    arguments = [each for each in get_args(annotation) if each is not NoneType]
    origin = get_origin(annotation)
    if origin in (UnionType, Union):
        (only,) = arguments
        return _type(only)
    if origin is None:
        return str(annotation.__name__)
    if origin.__name__ in ("Sequence", "Mapping"):
        return f"{origin.__name__}[{', '.join(map(_type, arguments))}]"
    return _type(arguments[0])  # Annotated: the constraints are checked when the section is read


def _docstring(text: str | None) -> list[str]:
    lines = textwrap.wrap(f'"""{" ".join((text or "").split())}"""', _LINE_LENGTH - 4, break_long_words=False)
    return [f"    {line}" for line in lines]
