"""Everything that each stack file makes, word for word: the diff that a reviewer without a cluster reads.

After a wanted change: `pytest tests/golden --regenerate-golden`, and read what changed.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from config.stack.file import read_sections
from tests.program import PROGRAM, run_program
from tests.recording_engine import Recording

STACK_FILES = {
    file.name.split(".")[1]: file
    for folder in (PROGRAM, PROGRAM / "examples")
    for file in sorted(folder.glob("Pulumi.*.yaml"))
}
FOLDER = Path(__file__).parent


@pytest.mark.parametrize("mode", ["up", "preview"])
@pytest.mark.parametrize("stack", STACK_FILES)
def test_the_program_registers_what_was_reviewed(
    stack: str, mode: str, monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config
) -> None:
    sections = read_sections(STACK_FILES[stack])
    rendered = _text(run_program(monkeypatch, stack, preview=mode == "preview", sections=sections))
    if pytestconfig.getoption("--regenerate-golden"):
        _store(stack, mode, rendered)
    golden = _golden(stack, mode)
    assert golden.exists(), f"no golden file for stack {stack}: run with --regenerate-golden and review it"
    assert rendered == golden.read_text(), f"stack {stack} changed: review it with --regenerate-golden"


def test_no_golden_file_is_left_of_a_stack_that_is_gone() -> None:
    assert {file.name.split(".")[0] for file in FOLDER.glob("*.json")} == set(STACK_FILES)


def test_a_preview_that_equals_the_update_is_not_stored() -> None:
    for preview in FOLDER.glob("*.preview.json"):
        assert preview.read_text() != _golden(preview.name.split(".")[0], "up").read_text(), f"delete {preview.name}"


def _golden(stack: str, mode: str) -> Path:
    """What a run must equal: a preview has a file of its own only where it differs from the update."""
    own = FOLDER / f"{stack}.{mode}.json"
    return own if own.exists() else FOLDER / f"{stack}.up.json"


def _store(stack: str, mode: str, rendered: str) -> None:
    own = FOLDER / f"{stack}.{mode}.json"
    if mode == "preview" and rendered == _golden(stack, "up").read_text():
        own.unlink(missing_ok=True)
    else:
        own.write_text(rendered)


def _text(recording: Recording) -> str:
    exports = next(outputs for urn, outputs in recording.outputs.items() if "pulumi:pulumi:Stack::" in urn)
    document = {
        "infos": [line for info in recording.infos for line in info.splitlines()],
        "warnings": recording.warnings,
        "exports": exports,
        "resources": [
            {
                "name": registration.name,
                "type": registration.type,
                "parent": registration.parent,
                "inputs": _without_texts(registration.inputs),
                "options": {
                    key: value for key, value in registration.options.items() if key not in ("aliases", "provider")
                },
                "depends_on": sorted(urn.rsplit("::", 1)[-1] for urn in registration.depends_on),
            }
            for registration in sorted(recording.registrations, key=lambda registration: registration.urn)
        ],
    }
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _without_texts(inputs: Any) -> Any:
    """A ConfigMap's files by name only: the stager's code has tests of its own. A foreign schema is left out."""
    if inputs.get("kind") == "CustomResourceDefinition":
        return {**inputs, "spec": "as its project publishes it"}
    if inputs.get("kind") != "ConfigMap":
        return inputs
    names = {key: sorted(inputs[key]) for key in ("data", "binaryData") if key in inputs}
    return {**inputs, **names}
