"""The two seams hold: no part of the program asks which engine it is, or spells what a GPU vendor calls its things."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from config.catalogue import gpus
from config.engine_name import EngineName
from engines.registry import engine_for, engine_of

_PROGRAM = Path(__file__).parents[3]
_ROOMS = ("components", "config", "engines", "planner")
_ENGINE_FOLDERS = ("engines/vllm/", "engines/sglang/", "engines/llama_cpp/")


def _source() -> Iterator[Path]:
    yield _PROGRAM / "__main__.py"
    for room in _ROOMS:
        yield from sorted((_PROGRAM / room).rglob("*.py"))


def _texts(file: Path) -> set[str]:
    """Every text that a file's code has; what stands by itself is documentation."""
    tree = ast.parse(file.read_text())
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation
    }


def _named_members(file: Path) -> set[str]:
    """Members of EngineName that a file mentions."""
    return {
        node.attr
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "EngineName"
    }


def _outside_the_folders() -> list[Path]:
    return [file for file in _source() if not str(file.relative_to(_PROGRAM)).startswith(_ENGINE_FOLDERS)]


def test_every_engine_is_found_by_its_own_name() -> None:
    assert [engine_of(name).name for name in EngineName] == list(EngineName)


@pytest.mark.parametrize(
    ("checkpoint_format", "engine"),
    [("bf16", EngineName.VLLM), ("nvfp4", EngineName.VLLM), ("gguf", EngineName.LLAMA_CPP)],
)
def test_the_default_engine_is_the_first_that_reads_the_format(checkpoint_format: str, engine: EngineName) -> None:
    assert engine_for(checkpoint_format) == engine


def test_no_code_outside_an_engines_folder_spells_an_engine() -> None:
    names = {str(name) for name in EngineName}
    spelled = {str(file.relative_to(_PROGRAM)) for file in _outside_the_folders() if names & _texts(file)}
    assert spelled == {"config/engine_name.py"}


def test_only_the_registry_and_the_default_of_a_request_name_a_single_engine() -> None:
    named = {str(file.relative_to(_PROGRAM)) for file in _outside_the_folders() if _named_members(file)}
    assert named == {
        "engines/registry.py",
        "engines/request.py",
    }


def test_no_code_outside_an_engines_folder_imports_from_one() -> None:
    folders = tuple(folder.strip("/").replace("/", ".") + "." for folder in _ENGINE_FOLDERS)
    importing = {
        str(file.relative_to(_PROGRAM))
        for file in _outside_the_folders()
        if any(module.startswith(folders) for module in _imported_modules(file))
    }
    assert importing == {"engines/registry.py"}


def test_no_code_spells_what_a_vendor_calls_its_gpus() -> None:
    vendors = {gpu.vendor for gpu in gpus()}
    words = {word for vendor in vendors for word in (vendor.resource, vendor.product_label, *vendor.driver_labels)}
    spelled = {file for file in _source() for text in _texts(file) if any(word in text for word in words)}
    assert spelled == set()


def _imported_modules(file: Path) -> list[str]:
    """Modules that a file imports."""
    return [
        node.module or "" if isinstance(node, ast.ImportFrom) else node.names[0].name
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]


def _imported_rooms(file: Path) -> set[str]:
    """Top-level packages of ours that a file imports."""
    return {module.split(".")[0] for module in _imported_modules(file)} & {*_ROOMS, "lab", "tests"}


@pytest.mark.parametrize(
    ("room", "below"),
    [
        ("config", {"config"}),
        ("engines", {"config", "engines"}),
        ("planner", {"config", "engines", "planner"}),
        ("components", {"config", "engines", "planner", "components"}),
    ],
)
def test_imports_go_down_only(room: str, below: set[str]) -> None:
    above = {
        str(file.relative_to(_PROGRAM)): found
        for file in sorted((_PROGRAM / room).rglob("*.py"))
        if (found := _imported_rooms(file) - below)
    }
    assert above == {}
