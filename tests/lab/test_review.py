"""`review preview` and `review drift` on one deployed stack, as committed, on a simulated node with eight H200.

`--regenerate-golden` writes the engine's events of each preview to tests/data/review, of which the golden comments are
made.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from lab.aws.client import LabAWS
from lab.aws.server.running import running_server
from lab.cluster.simulated import SimulatedNodes
from lab.engine import Engine
from lab.project import Answer, Project
from lab.site import CHECKOUT, Site
from review.deployed.events import read_events
from tests.lab.kubectl import Kubectl
from tests.lab.sharing import committed_stack, on_nodes_of
from tests.review_cases import BLOCK, DEPLOYED, EVENTS, LOCKS, PREVIEWS, reduced

pytestmark = on_nodes_of("8xh200")

NAMESPACE = "heavylift"
STREAMED = {"PULUMI_ENABLE_STREAMING_JSON_PREVIEW": "1"}


@pytest.fixture(scope="module")
def h200(
    site: Site, settings: dict[str, str], kubectl: Kubectl, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Project]:
    """The stack `h200` of the golden comments, taken up."""
    directory = tmp_path_factory.mktemp("review")
    with (
        SimulatedNodes(site).added("8xh200"),
        committed_stack("h200", NAMESPACE, directory, settings, kubectl) as project,
    ):
        project.configure(**DEPLOYED)
        for name, text in LOCKS.items():
            (project.directory / name).write_text(text)
        up = project.up()
        assert up.status == 0, up
        yield project


@pytest.fixture
def unreachable(h200: Project, tmp_path: Path) -> str:
    """A kubeconfig of the same cluster with an address that refuses connections, as a hosted runner has it."""
    file = tmp_path / "kubeconfig.yaml"
    kubeconfig = yaml.safe_load(Path(h200.environment["HEAVYLIFT_KUBECONFIG"]).read_text())
    for each in kubeconfig["clusters"]:
        each["cluster"]["server"] = "https://127.0.0.1:1"
    file.write_text(yaml.safe_dump(kubeconfig))
    return str(file)


@pytest.mark.parametrize("case", PREVIEWS)
def test_a_preview_has_the_events_that_the_golden_comment_is_made_of(
    case: str, h200: Project, unreachable: str, pytestconfig: pytest.Config
) -> None:
    preview = PREVIEWS[case]
    file = h200.directory / "Pulumi.h200.yaml"
    kept = file.read_text()
    try:
        h200.configure(**preview.sections)
        packs = ["--policy-pack", str(CHECKOUT / "policy")]
        config = ["--policy-pack-config", str(CHECKOUT / "policy" / "production.json")]
        answer = h200.preview(
            *packs, *(config if preview.production else []), "--json", HEAVYLIFT_KUBECONFIG=unreachable, **STREAMED
        )
    finally:
        file.write_text(kept)
    assert (answer.status != 0) == preview.fails, answer
    assert_recorded(case, answer, pytestconfig)


def assert_recorded(case: str, answer: Answer, pytestconfig: pytest.Config) -> None:
    """Asserts that a preview says what the recorded one said. Records it with `--regenerate-golden`."""
    events = reduced(json.loads(line) for line in answer.output.splitlines() if line.startswith('{"sequence"'))
    recorded = EVENTS / f"{case}.json"
    if pytestconfig.getoption("--regenerate-golden"):
        recorded.parent.mkdir(exist_ok=True)
        recorded.write_text(json.dumps(events, indent=1, ensure_ascii=False) + "\n")
    now, then = read_events(events), read_events(json.loads(recorded.read_text()))
    assert (now.steps, now.violations) == (then.steps, then.violations)
    assert bool(now.capacity) == bool(then.capacity)


def test_a_preview_of_a_capacity_block_has_the_events_that_the_golden_comment_is_made_of(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """No cluster is asked: the stack makes its own, in the lab's AWS."""
    with running_server() as url:
        aws = LabAWS(url, "us-east-2")
        zones = aws.api("ec2").describe_availability_zones()["AvailabilityZones"]
        [zone] = [each["ZoneName"] for each in zones if each["ZoneId"] == "use2-az1"]
        ends = (datetime.now(UTC) + timedelta(hours=6)).isoformat(timespec="seconds")
        block = "cr-0123456789abcdef1"
        aws.add_reservation(block, "p5en.48xlarge", 1, zone, ReservationType="capacity-block", EndDate=ends)
        engine = Engine(tmp_path)
        engine.install()
        project = Project.copy(CHECKOUT, tmp_path / "program", {**engine.settings, **aws.settings}, "aws-h200")
        project.configure(
            nodes={"capacity": {"kind": "capacity-block", "id": block}},
            aws={"public_access_cidrs": ["1.1.1.0/24"]},
        )
        answer = project.preview("--policy-pack", str(CHECKOUT / "policy"), "--json", **STREAMED)
    assert answer.status == 0, answer
    assert_recorded(BLOCK, answer, pytestconfig)


def test_review_preview_reports_a_deployed_stack(h200: Project) -> None:
    ended = review(h200, "preview", "--stack", "h200", "--format", "json")
    assert ended.returncode == 0, ended.stderr
    report = json.loads(ended.stdout)
    assert report["stacks"] == []
    expected = review(h200, "preview", "--stack", "h200", "--expect", report["fingerprint"])
    assert expected.returncode == 0, expected.stderr
    other = review(h200, "preview", "--stack", "h200", "--expect", "0123456789abcdef")
    assert other.returncode == 4
    assert f"the report has the fingerprint {report['fingerprint']}" in other.stderr


DRIFTS: Mapping[str, tuple[tuple[str, ...], str, str]] = {
    "scaled": (("scale", "DEPLOYMENT", "--replicas=0"), "steps", "spec.replicas"),
    "another image": (("set", "image", "DEPLOYMENT", "engine=other:1"), "steps", "image"),
    "a label removed": (("label", "DEPLOYMENT", "app.kubernetes.io/name-"), "steps", "metadata.labels"),
    "a variable added": (("set", "env", "DEPLOYMENT", "-c", "engine", "A=b"), "writes", "env[A]"),
    "an annotation": (("annotate", "DEPLOYMENT", "a=b"), "writes", "metadata.annotations.a"),
    "restarted": (("rollout", "restart", "DEPLOYMENT"), "writes", "restartedAt"),
}
"""What a person does to the server, where the report shows it, and a part of the path."""


def test_what_controllers_write_is_no_drift(h200: Project) -> None:
    ended = review(h200, "drift", "--stack", "h200")
    assert (ended.returncode, ended.stdout) == (0, "h200: no drift\n"), ended


def test_each_change_by_hand_is_drift_with_its_writer(h200: Project, kubectl: Kubectl) -> None:
    [deployment] = kubectl.get("deployments", "-n", NAMESPACE)["items"]
    name = deployment["metadata"]["name"]
    for what, (words, place, path) in DRIFTS.items():
        kubectl(*(word.replace("DEPLOYMENT", f"deployment/{name}") for word in words), "-n", NAMESPACE)
        ended = review(h200, "drift", "--stack", "h200", "--format", "json")
        managed = kubectl("get", "deployment", name, "-n", NAMESPACE, "-o", "yaml", "--show-managed-fields")
        assert ended.returncode == 1, (what, ended, managed)
        drift = json.loads(ended.stdout)
        assert path in json.dumps(drift[place]), (what, drift)
        if place == "writes":
            assert all(write["manager"].startswith("kubectl") and write["time"] for write in drift["writes"])
    maps = [each["metadata"]["name"] for each in kubectl.get("configmaps", "-n", NAMESPACE)["items"]]
    [verifier] = [each for each in maps if each.startswith("server-verifier")]
    kubectl("patch", "configmap", verifier, "-n", NAMESPACE, "--type=merge", "--patch", '{"data": {"added": "b"}}')
    kubectl("delete", "jobs", "--all", "-n", NAMESPACE)
    shown = review(h200, "drift", "--stack", "h200")
    assert shown.returncode == 1
    assert f"ConfigMap {verifier}: kubectl-patch wrote data.added" in shown.stdout
    assert "is gone" in shown.stdout


def test_a_cluster_that_cannot_be_reached_is_not_reported_as_drift(h200: Project, unreachable: str) -> None:
    ended = review(h200, "drift", "--stack", "h200", HEAVYLIFT_KUBECONFIG=unreachable)
    assert (ended.returncode, ended.stdout) == (2, ""), ended
    assert "the cluster cannot be reached" in ended.stderr


def review(project: Project, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs `python -m review` in the stack's program, which is a git checkout of its own."""
    if not (project.directory / ".git").exists():
        for command in (("init", "--quiet"), ("add", "."), ("commit", "--quiet", "--message", "all")):
            identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
            subprocess.run(["git", *identity, *command], cwd=project.directory, check=True)
    return subprocess.run(
        [sys.executable, "-m", "review", *words],
        cwd=project.directory,
        env={**project.environment, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
