"""What `heavylift:metrics` adds to a stack, word for word: PodMonitor, alerts and dashboard of each engine.

After a wanted change: `pytest tests/golden -k metrics --regenerate-golden`, and read what changed.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from config.stack.file import read_sections, stack_file
from tests.program import PROGRAM, run_program

FOLDER = Path(__file__).parent / "metrics"
METRICS = {"kind": "pod-monitor", "labels": {"release": "kube-prometheus-stack"}}


@pytest.mark.parametrize("stack", ["h100x16", "h200-gguf"])
def test_a_stack_with_metrics_makes_what_was_reviewed(
    stack: str, monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config
) -> None:
    sections = read_sections(stack_file(stack, PROGRAM)) | {"metrics": METRICS}
    recording = run_program(monkeypatch, stack, sections=sections)
    made = {each.name: _read(each.inputs) for each in recording.registrations if each.parent == "metrics"}
    rendered = json.dumps(made, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    golden = FOLDER / f"{stack}.json"
    if pytestconfig.getoption("--regenerate-golden"):
        golden.write_text(rendered)
    assert rendered == golden.read_text(), f"stack {stack} changed: review it with --regenerate-golden"


def _read(inputs: Any) -> Any:
    """The object, with the JSON in a ConfigMap as it is."""
    data = {name: json.loads(text) for name, text in inputs.get("data", {}).items()}
    return {**inputs, "data": data} if data else inputs
