"""`python -m tests.prove [one-node | two-nodes]`: serves a model of random weights with real vLLM, through the whole
program, in a lab of its own, and prints what that proves. Without an argument both are served.

Writes what vLLM says of itself to `tests/data/vllm/<release>/`. Exits with 1 if a statement is false.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from lab.build.vllm_image import release
from lab.lifecycle import Lab
from lab.site import CHECKOUT
from tests.prove import statements
from tests.prove.server import Listening
from tests.prove.stacks import ONE_NODE, TWO_NODES, Scenario, Stack, running_lab, served_stack
from tests.prove.statements import Statements

SCENARIOS = {scenario.name: scenario for scenario in (ONE_NODE, TWO_NODES)}
RECORDED = CHECKOUT / "tests/data/vllm" / release()


def main(names: list[str]) -> int:
    """Proves the scenarios of these names, or all."""
    unknown = set(names) - set(SCENARIOS)
    if unknown:
        print(f"expected one of {', '.join(SCENARIOS)}, got {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    scenarios = [SCENARIOS[name] for name in names or SCENARIOS]
    said = Statements()
    with running_lab(max(len(scenario.nodes) for scenario in scenarios)) as lab:
        for scenario in scenarios:
            _prove(said, lab, scenario)
    print(f"{said.proven} proven, {len(said.unproven)} unproven, {len(said.false)} false, with vLLM {release()}")
    return 1 if said.false else 0


def _prove(said: Statements, lab: Lab, scenario: Scenario) -> None:
    """Proves one scenario, and records what vLLM says in it."""
    print(f"\n{scenario.name}: Pulumi.{scenario.stack}.yaml, TP2 on {', '.join(scenario.nodes)}, but for")
    print(json.dumps(scenario.sections(), indent=1), flush=True)
    with (
        tempfile.TemporaryDirectory(prefix="heavylift-prove-") as directory,
        served_stack(lab, scenario, Path(directory)) as stack,
    ):
        up = stack.project.up()
        said.prove("`pulumi up` succeeds", f"exit status {up.status}" if not up.status else up, holds=not up.status)
        if up.status:
            print(stack.log())
            return
        _prove_served(said, stack, up)


def _prove_served(said: Statements, stack: Stack, up: Any) -> None:
    leader, *workers = pods = stack.pods()
    found = [pod.run("read_processes.py") for pod in pods]
    heard = [Listening.of(each) for each in found]
    models = statements.prove_answers(said, stack, up, leader)
    for pod, each in zip(pods, found, strict=True):
        statements.prove_restricted(said, pod, each)
    statements.prove_ports(said, stack, pods, heard)
    sockets = dict(zip(("leader", "worker") if workers else ("alone",), (each.sockets for each in heard), strict=True))
    record(f"listening-{stack.scenario.name}.json", json.dumps(sockets, indent=1))
    if not workers:
        record("models.json", json.dumps(models, indent=1))
        record("flags.json", json.dumps(statements.prove_arguments(said, leader), indent=1))
        record("routes.json", json.dumps(statements.prove_open_paths(said, leader), indent=1))
        record("metrics.txt", statements.prove_metrics(said, leader))
    statements.prove_drain(said, leader, (workers or [leader])[-1])


def record(name: str, content: str) -> None:
    """Writes a file for the unit tests."""
    RECORDED.mkdir(parents=True, exist_ok=True)
    (RECORDED / name).write_text(content.rstrip() + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
