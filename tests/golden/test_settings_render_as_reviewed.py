"""What a setting that no committed stack has changes in one: each new resource, and each value that differs.

After a wanted change: `pytest tests/golden -k settings --regenerate-golden`, and read what changed.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from config.stack.file import read_sections, stack_file
from tests.program import PROGRAM, run_program

FOLDER = Path(__file__).parent / "settings"
SETTINGS: dict[str, tuple[str, dict[str, dict[str, Any]]]] = {
    "cache-of-a-group": ("h100x16", {"weights": {"cache": True}}),
    "cache-on-host-path": ("aws-h200", {"weights": {"cache": True}}),
    "expose": ("h200", {"expose": {"gateway": "infra/public", "hostname": "kimi.example.com"}}),
}
"""The stack and the keys that are set in it, by the name of the golden file."""


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_changes_what_was_reviewed(
    name: str, monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config
) -> None:
    stack, keys = SETTINGS[name]
    committed = read_sections(stack_file(stack, PROGRAM))
    changed = committed | {section: committed.get(section, {}) | values for section, values in keys.items()}
    before, after = (_registered(monkeypatch, stack, sections) for sections in (committed, changed))
    assert not before.keys() - after.keys(), "a setting removes nothing"
    differing = {
        resource: dict(_differences(before[resource], inputs)) if resource in before else {"new": inputs}
        for resource, inputs in after.items()
        if inputs != before.get(resource)
    }
    rendered = json.dumps(differing, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    golden = FOLDER / f"{name}.json"
    if pytestconfig.getoption("--regenerate-golden"):
        FOLDER.mkdir(exist_ok=True)
        golden.write_text(rendered)
    assert rendered == golden.read_text(), f"{name} changed: review it with --regenerate-golden"


def test_no_golden_file_is_left_of_a_setting_that_is_gone() -> None:
    assert {file.stem for file in FOLDER.glob("*.json")} == set(SETTINGS)


def _registered(monkeypatch: pytest.MonkeyPatch, stack: str, sections: dict[str, Any]) -> dict[str, Any]:
    """Returns the inputs of each resource, by kind and name."""
    recording = run_program(monkeypatch, stack, sections=sections)
    return {f"{each.type} {each.name}": each.inputs for each in recording.registrations}


def _differences(before: Any, after: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Yields each place with a difference, as path, value before and value after. None: there is none."""
    before, after = _named(before), _named(after)
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            yield from _differences(before.get(key), after.get(key), f"{place}.{key}" if place else key)
    elif before != after:
        yield place, {"before": before, "after": after}


def _named(values: Any) -> Any:
    """Returns a list of objects with names as an object, so that a new entry does not move the others."""
    if not isinstance(values, list) or not all(isinstance(value, dict) and "name" in value for value in values):
        return values
    entries = {value.get("mountPath", value["name"]): value for value in values}
    return entries if len(entries) == len(values) else values
