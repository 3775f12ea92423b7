"""Writes docs/components.md from the schema that Pulumi infers: `python -m components.package.reference`."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from pulumi.provider.experimental.analyzer import Analyzer, AnalyzeResult, PropertyDefinition

from components.package import COMPONENTS, PACKAGE
from config.stack.reference import one_line

REFERENCE_FILE = Path(__file__).resolve().parents[2] / "docs/components.md"
OPENING_FILE = Path(__file__).parent / "opening.md"
"""The handwritten part of the page."""


def reference() -> str:
    """Returns the whole page."""
    schema = Analyzer(PACKAGE).analyze(list(COMPONENTS))
    return "\n".join([OPENING_FILE.read_text(), *_components(schema), *_types(schema)])


def _components(schema: AnalyzeResult) -> Iterator[str]:
    for name, component in schema["component_definitions"].items():
        yield f"## {name}\n\n{one_line(component.description)}\n"
        yield from _table("argument", component.inputs)
        yield from _table("output", component.outputs)


def _types(schema: AnalyzeResult) -> Iterator[str]:
    yield "## Types of arguments and outputs\n"
    for name, definition in sorted(schema["type_definitions"].items()):
        yield f"### {name}\n\n{one_line(definition.description)}\n"
        if definition.enum:
            yield f"One of {', '.join(f'`{member.value}`' for member in definition.enum)}.\n"
        else:
            yield from _table("key", definition.properties)


def _table(heading: str, properties: Mapping[str, PropertyDefinition]) -> Iterator[str]:
    yield f"| {heading} | type | meaning |\n|---|---|---|"
    for name, definition in properties.items():
        required = " **(required)**" if heading != "output" and not definition.optional else ""
        yield f"| `{name}` | {_type(definition)}{required} | {one_line(definition.description)} |"
    yield ""


def _type(definition: PropertyDefinition) -> str:
    if definition.items:
        return f"list of {_type(definition.items)}"
    if definition.additional_properties:
        return f"map of {_type(definition.additional_properties)}"
    if definition.ref:
        name = definition.ref.rsplit(":", 1)[-1]
        return "anything" if name.endswith("/Any") else f"[{name}](#{name.lower()})"
    return definition.type.value if definition.type else "anything"


if __name__ == "__main__":
    REFERENCE_FILE.write_text(reference())
    print(f"wrote {REFERENCE_FILE}")
