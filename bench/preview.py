"""Compares the cost of a preview with the smallest useful Pulumi program in Python.

`make bench-preview`. Previews the stack `h200`, a program with one ConfigMap and an empty one in turn on the lab's
cluster, and compares medians of CPU time, which other programs on the machine affect least. Fails if `h200` takes more
than 1.5 times the CPU time of the program with one ConfigMap. Without `heavylift:promotion`, for which a preview runs
`pulumi` twice more.
"""

from __future__ import annotations

import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from lab import engine
from lab.cluster.simulated import SimulatedNodes
from lab.lifecycle import Lab
from lab.project import Project
from lab.site import CHECKOUT

WARM_UP, ROUNDS = 1, 7
LIMIT = 1.5
PROFILE = "8xh200"

PROGRAMS = {
    "empty": "import pulumi\n",
    "one ConfigMap": (
        "from pulumi_kubernetes.core.v1 import ConfigMap\n\n"
        'ConfigMap("one", metadata={"namespace": "default"}, data={"key": "value"})\n'
    ),
}


def main() -> int:
    """Returns 0, or 1 if the preview exceeds its limit."""
    with (
        Lab().borrowed() as site,
        SimulatedNodes(site).added(PROFILE),
        tempfile.TemporaryDirectory() as directory,
    ):
        # Lets Python store compiled modules. Otherwise each run compiles the program's modules again.
        environment = {**engine.settings(site), "PYTHONDONTWRITEBYTECODE": ""}
        medians = measure(projects(Path(directory), environment))
    ratio = medians["h200"] / medians["one ConfigMap"]
    print(f"h200 / one ConfigMap: {ratio:.2f}, limit {LIMIT}")
    print(f"h200 - empty: {medians['h200'] - medians['empty']:.2f} s")
    return ratio > LIMIT


def projects(directory: Path, environment: Mapping[str, str]) -> dict[str, Project]:
    """Returns the programs to preview, each in a copy."""
    found = {}
    for name, text in PROGRAMS.items():
        program = directory / name.replace(" ", "-")
        program.mkdir()
        (program / "Pulumi.yaml").write_text("name: beside\nruntime: python\n")
        (program / "__main__.py").write_text(text)
        found[name] = Project.copy(program, directory / f"{program.name}-copy", environment, "bench")
    found["h200"] = Project.copy(CHECKOUT, directory / "heavylift", environment, "h200")
    found["h200"].configure(promotion=None)
    return found


def measure(programs: Mapping[str, Project]) -> dict[str, float]:
    """Prints the table and returns the median CPU seconds of each program's preview."""
    elapsed: dict[str, list[float]] = {name: [] for name in programs}
    worked: dict[str, list[float]] = {name: [] for name in programs}
    for turn in range(WARM_UP + ROUNDS):
        for name, project in programs.items():
            start, before = time.perf_counter(), processor_seconds()
            answer = project.preview()
            if answer.status:
                raise SystemExit(f"bench-preview: {name}: {answer}")
            if turn >= WARM_UP:
                elapsed[name].append(time.perf_counter() - start)
                worked[name].append(processor_seconds() - before)
    print("program         processor s (median, least)  elapsed s (median, least)")
    for name in programs:
        row = [statistics.median(worked[name]), min(worked[name]), statistics.median(elapsed[name]), min(elapsed[name])]
        print(f"{name:14}  " + "  ".join(f"{seconds:.2f}" for seconds in row))
    return {name: statistics.median(seconds) for name, seconds in worked.items()}


def processor_seconds() -> float:
    """Returns the CPU seconds of all commands so far: engine, provider, language host and program."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
