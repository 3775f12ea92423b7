"""The editor's schema: current, named by every stack file, and in agreement with what the program reads."""

import re
from pathlib import Path

import pytest
import yaml

from config.stack.file import read_stack_file
from config.stack.reference import reference
from config.stack.schema import REFERENCE_FILE, SCHEMA_FILE, schema_text, stack_file_schema
from config.stack.typed_sections import ARGUMENTS_FILE, arguments_text
from tests.program import PROGRAM

STACK_FILES = sorted(PROGRAM.glob("Pulumi.*.yaml"))


def test_the_committed_schema_is_what_the_models_say() -> None:
    assert SCHEMA_FILE.read_text() == schema_text(), "run `make schema`"


@pytest.mark.parametrize("path", STACK_FILES, ids=lambda path: path.name)
def test_every_stack_file_names_the_schema_and_reads_well(path: Path) -> None:
    first = path.read_text().splitlines()[0]
    named = re.fullmatch(r"# yaml-language-server: \$schema=(\S+)", first)
    assert named, f"the first line is {first!r}"
    assert (PROGRAM / named[1]) == SCHEMA_FILE
    read_stack_file(path)


@pytest.mark.parametrize("path", STACK_FILES, ids=lambda path: path.name)
def test_every_key_of_a_stack_file_is_one_that_the_editor_completes(path: Path) -> None:
    schema = stack_file_schema()
    keys = schema["properties"]["config"]["properties"]
    for name, value in yaml.safe_load(path.read_text())["config"].items():
        section = schema["$defs"][keys[name]["$ref"].rsplit("/", 1)[1]]
        assert set(value) <= set(section["properties"])
        assert section["additionalProperties"] is False


def test_the_committed_page_of_keys_is_what_the_models_say() -> None:
    assert REFERENCE_FILE.read_text() == reference(), "run `make schema`"


def test_the_committed_typed_sections_are_what_the_models_say() -> None:
    assert ARGUMENTS_FILE.read_text() == arguments_text(), "run `make schema`"


def test_every_key_has_a_description_to_hover_over() -> None:
    sections = {
        name: definition for name, definition in stack_file_schema()["$defs"].items() if "properties" in definition
    }
    missing = [
        f"{section}.{key}"
        for section, definition in sections.items()
        for key, value in definition["properties"].items()
        if not (value.get("description") or "$ref" in value or "anyOf" in value)
    ]
    assert len(sections) >= 8
    assert missing == []


def test_other_namespaces_are_let_through_and_unknown_keys_of_ours_are_not() -> None:
    config = stack_file_schema()["properties"]["config"]
    (pattern,) = config["patternProperties"]
    assert re.search(pattern, "aws:region")
    assert not re.search(pattern, "heavylift:modle")
    assert config["additionalProperties"] is False
