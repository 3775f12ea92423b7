"""Compares the cost of a preview with the smallest useful Pulumi program in Python.

`make bench-preview`. Previews the stacks `h200` and `aws-h200`, a program with one ConfigMap and an empty one in turn
on the lab's cluster and its AWS, and compares medians of CPU time, which other programs on the machine affect least.
Fails if a stack takes more than its limit times the CPU time of the program with one ConfigMap, or if the policy pack
adds more than 0.4 s, at the speed at which an empty program takes 0.8 s. Without `heavylift:promotion`, for which a
preview runs `pulumi` twice more. A pack with one rule that finds nothing shows what Pulumi's own SDK takes of that.
"""

from __future__ import annotations

import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from lab import engine
from lab.aws.client import LabAWS
from lab.cluster.simulated import SimulatedNodes
from lab.lifecycle import Lab
from lab.project import Project
from lab.site import CHECKOUT, Site

WARM_UP, ROUNDS = 1, 7
LIMITS = {"h200": 1.5, "aws-h200": 2.5}
POLICY_SECONDS = 0.4
EMPTY_SECONDS = 0.8
"""CPU seconds of the empty program on two quiet cores (docs/benchmarks.md): a busy machine takes longer for all."""
PROFILE = "8xh200"
BLOCK = {"kind": "capacity-block", "id": "cr-0123456789abcdef0"}
REGION, ZONE = "us-east-2", "us-east-2a"  # use2-az1 in the lab's account

PROGRAMS = {
    "empty": "import pulumi\n",
    "one ConfigMap": (
        "from pulumi_kubernetes.core.v1 import ConfigMap\n\n"
        'ConfigMap("one", metadata={"namespace": "default"}, data={"key": "value"})\n'
    ),
}
ONE_RULE = (
    "from pulumi_policy import PolicyPack, StackValidationPolicy\n\n"
    'rule = StackValidationPolicy(name="one", description="one", validate=lambda args, report: None)\n'
    'PolicyPack(name="one", policies=[rule])\n'
)
POLICIES = "policies"
PACKS = ("one rule", POLICIES)
Previews = Mapping[str, tuple[Project, Sequence[str]]]
"""Programs by name, with options of `pulumi preview`."""


def main() -> int:
    """Returns 0, or 1 if a preview exceeds its limit."""
    with (
        Lab().borrowed() as site,
        SimulatedNodes(site).added(PROFILE),
        tempfile.TemporaryDirectory() as directory,
    ):
        # Lets Python store compiled modules. Otherwise each run compiles the program's modules again.
        compiled = {"PYTHONDONTWRITEBYTECODE": ""}
        found = projects(Path(directory), {**engine.settings(site), **compiled})
        found["aws-h200"] = aws_project(Path(directory), site, {**engine.aws_settings(site), **compiled})
        previews = with_policies(found, Path(directory))
        worked = measure(previews)
    medians = {name: statistics.median(seconds) for name, seconds in worked.items()}
    ratios = {stack: medians[stack] / medians["one ConfigMap"] for stack in LIMITS}
    for stack, limit in LIMITS.items():
        print(f"{stack} / one ConfigMap: {ratios[stack]:.2f}, limit {limit}")
        print(f"{stack} - empty: {medians[stack] - medians['empty']:.2f} s")
    added = {name: added_seconds(worked, name) for name in PACKS}
    for name, (measured, quiet) in added.items():
        print(f"{name} - h200: {measured:.2f} s; {quiet:.2f} s where the empty program takes {EMPTY_SECONDS} s")
    return any(ratios[stack] > limit for stack, limit in LIMITS.items()) or added[POLICIES][1] > POLICY_SECONDS


def added_seconds(worked: Mapping[str, Sequence[float]], name: str) -> tuple[float, float]:
    """Returns what a preview with a pack takes more than one without, as measured and at the speed of a quiet machine.

    Medians over the turns: the machine may be faster or slower from turn to turn.
    """
    added = [with_pack - without for with_pack, without in zip(worked[name], worked["h200"], strict=True)]
    shares = [seconds / empty for seconds, empty in zip(added, worked["empty"], strict=True)]
    return statistics.median(added), EMPTY_SECONDS * statistics.median(shares)


def with_policies(projects: Mapping[str, Project], directory: Path) -> Previews:
    """Returns the programs, and `h200` twice more: with a pack of one rule, and with `policy/`."""
    one = directory / "one-rule"
    one.mkdir()
    (one / "PulumiPolicy.yaml").write_text(
        f"runtime: {{name: python, options: {{virtualenv: '{sys.prefix}'}}}}\nversion: 0.1.0\n"
    )
    (one / "__main__.py").write_text(ONE_RULE)
    packs = dict(zip(PACKS, (one, CHECKOUT / "policy"), strict=True))
    return {
        **{name: (project, ()) for name, project in projects.items()},
        **{name: (projects["h200"], ("--policy-pack", str(pack))) for name, pack in packs.items()},
    }


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


def aws_project(directory: Path, site: Site, environment: Mapping[str, str]) -> Project:
    """Returns the stack `aws-h200` in an account with a Capacity Block and nothing else."""
    LabAWS(site.url("aws"), REGION).add_reservation(
        BLOCK["id"], "p5en.48xlarge", 1, ZONE, ReservationType="capacity-block"
    )
    project = Project.copy(CHECKOUT, directory / "aws", environment, "aws-h200")
    project.configure(aws={"public_access_cidrs": ["8.8.8.0/24"]}, nodes={"capacity": BLOCK})
    return project


def measure(programs: Previews) -> Mapping[str, Sequence[float]]:
    """Prints the table and returns the CPU seconds of each program's previews."""
    elapsed: dict[str, list[float]] = {name: [] for name in programs}
    worked: dict[str, list[float]] = {name: [] for name in programs}
    for turn in range(WARM_UP + ROUNDS):
        for name, (project, words) in programs.items():
            start, before = time.perf_counter(), processor_seconds()
            answer = project.preview(*words)
            if answer.status:
                raise SystemExit(f"bench-preview: {name}: {answer}")
            if turn >= WARM_UP:
                elapsed[name].append(time.perf_counter() - start)
                worked[name].append(processor_seconds() - before)
    print("program         processor s (median, least)  elapsed s (median, least)")
    for name in programs:
        row = [statistics.median(worked[name]), min(worked[name]), statistics.median(elapsed[name]), min(elapsed[name])]
        print(f"{name:14}  " + "  ".join(f"{seconds:.2f}" for seconds in row))
    return worked


def processor_seconds() -> float:
    """Returns the CPU seconds of all commands so far: engine, provider, language host and program."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
