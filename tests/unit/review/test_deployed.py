"""What a change does to clients of a deployed server, who wrote fields of its objects, and how both are shown."""

from typing import Any

import pytest

from review.change import Deployment, Report, StackChange
from review.checkout import StackAt
from review.deployed import drift_report
from review.deployed.drift import Drift
from review.deployed.events import EngineRun, Step, Violation, read_events
from review.deployed.interruption import interruption
from review.deployed.writers import ForeignWrite, foreign_writes
from review.markdown import LIMIT, markdown
from review.terminal import terminal
from tests.unit.review.test_text import rendered

SERVER = "InferenceServer"
PLAN = {"verdict": "fits", "load_seconds": 540, "download_seconds": 480, "weights_bytes": 595_200_000_000}
TEMPLATE = "spec.template.spec.containers[0].args[9]"


def stack(**sections: Any) -> StackAt:
    base: dict[str, Any] = {
        "nodes": {"names": ["h200-0"]},
        "weights": {"kind": "local"},
        "engine": {},
        "model": {"revision": "a"},
    }
    return StackAt({**base, **sections}, PLAN)


def step(operation: str, kind: str = "Deployment", *paths: str, component: str = SERVER) -> Step:
    return Step(operation, kind, "server", paths, component)


OTHER_NODES = stack(nodes={"names": ["h100-0", "h100-1"]})
REPLICAS = stack(engine={"replicas": 2})
CLAIM = stack(weights={"kind": "claim", "retain": False})


@pytest.mark.parametrize(
    ("steps", "before", "after", "headline", "back"),
    [
        ([], stack(), stack(), "serving does not stop", "nothing is downloaded"),
        ([step("update", "ConfigMap", "data.a")], stack(), stack(), "serving does not stop", "nothing is downloaded"),
        ([step("update", "Deployment", "spec.replicas")], stack(), stack(), "does not stop", "nothing is downloaded"),
        ([step("update", "Deployment", TEMPLATE)], stack(), stack(), "serving stops for about 9 min", "the same stop"),
        ([step("replace", "Deployment")], stack(), stack(), "serving stops for about 9 min", "nothing is downloaded"),
        ([step("update", "LeaderWorkerSet", "spec.leaderWorkerTemplate.size")], stack(), stack(), "stops for", "same"),
        (
            [step("update", "LeaderWorkerSet", "spec.leaderWorkerTemplate.size")],
            REPLICAS,
            REPLICAS,
            "one replica of 2 at a time stops for about 9 min",
            "nothing is downloaded",
        ),
        (
            [step("create", "LeaderWorkerSet"), step("delete")],
            stack(),
            OTHER_NODES,
            "serving does not stop",
            "nothing is downloaded",
        ),
        ([step("create", "LeaderWorkerSet"), step("delete")], stack(), stack(), "is not known", "nothing"),
        ([step("delete")], stack(), stack(), "serving ends", "nothing is downloaded"),
        ([step("create")], None, stack(), "first answer in about 17 min", "pulumi destroy"),
        ([step("replace", "Service")], stack(), stack(), "clients lose the Service", "nothing is downloaded"),
        (
            [step("update", "Deployment", TEMPLATE)],
            stack(),
            stack(model={"revision": "b"}, weights={"kind": "local", "keep_newest": 1}),
            "serving stops",
            "595.2 GB are downloaded again, since weights.keep_newest is 1",
        ),
        (
            [step("update", "Deployment", TEMPLATE)],
            stack(model={"revision": "a", "draft": {"revision": "a"}}),
            stack(model={"revision": "a", "draft": {"revision": "b"}}, weights={"kind": "local", "keep_newest": 1}),
            "serving stops",
            "the draft model is downloaded again, since weights.keep_newest is 1",
        ),
        (
            [
                step("update", "Deployment", TEMPLATE),
                step("replace", "PersistentVolumeClaim", component="WeightVolume"),
            ],
            CLAIM,
            CLAIM,
            "serving stops",
            "595.2 GB are downloaded again, since the volume is deleted",
        ),
        (
            [step("update", "Deployment", TEMPLATE), step("delete", "NodeGroup", component="EksGpuNodes")],
            stack(),
            stack(),
            "serving stops",
            "595.2 GB are downloaded again, since the old nodes' disks are deleted with them",
        ),
    ],
)
def test_interruption_and_way_back(
    steps: list[Step], before: StackAt | None, after: StackAt, headline: str, back: str
) -> None:
    told = interruption(steps, before, after)
    assert headline in told.headline
    assert back in told.back


@pytest.mark.parametrize("kind", ["Job", "DaemonSet"])
def test_weights_that_are_staged_first_are_said(kind: str) -> None:
    steps = [step("create", kind, component="WeightStage"), step("update", "Deployment", TEMPLATE)]
    assert interruption(steps, stack(), stack()).then.startswith("First the weights (595.2 GB) are staged and verified")


def test_a_deployment_that_is_not_the_servers_stops_nothing() -> None:
    other = step("update", "Deployment", TEMPLATE, component="Other")
    assert interruption([other], stack(), stack()).headline == "serving does not stop"


def managed(manager: str, fields: dict[str, Any], **entry: str) -> dict[str, Any]:
    return {"manager": manager, "time": "2026-12-01T16:26:00Z", "fieldsV1": fields, **entry}


def test_fields_of_others_are_named_and_those_of_controllers_are_not() -> None:
    image: dict[str, Any] = {"f:spec": {"f:containers": {'k:{"name":"engine"}': {".": {}, "f:image": {}}}}}
    annotation: dict[str, Any] = {"f:metadata": {"f:annotations": {".": {}, "f:acme.com/a": {}}}}
    thing = {
        "kind": "Deployment",
        "metadata": {
            "name": "server",
            "managedFields": [
                managed("pulumi-kubernetes-0a1b", image),
                managed("kube-controller-manager", annotation),
                managed("kubectl-edit", {"f:status": {}}, subresource="status"),
                managed("kubectl", {"f:spec": {"f:replicas": {}}}, subresource="scale"),
                managed("kubectl-set", {**image, **annotation}),
            ],
        },
    }
    assert foreign_writes([thing]) == [
        ForeignWrite("Deployment", "server", "kubectl", "2026-12-01T16:26:00Z", ("spec.replicas",)),
        ForeignWrite(
            "Deployment",
            "server",
            "kubectl-set",
            "2026-12-01T16:26:00Z",
            ('metadata.annotations["acme.com/a"]', "spec.containers[engine].image"),
        ),
    ]


HOSTILE = "x`|<img src=x>@team\n# #1 \x1b[2J"


def previewed(run: EngineRun) -> Report:
    change = StackChange(
        "Pulumi.h200.yaml", stack(), stack(), Deployment(run, interruption(run.steps, stack(), stack()))
    )
    return Report(base="", head="f3c1a90", stacks=[change])


def test_hostile_names_of_resources_and_messages_stay_text() -> None:
    steps = (Step("update", HOSTILE, HOSTILE, (HOSTILE,), HOSTILE),)
    run = EngineRun(
        steps, (Violation(HOSTILE, HOSTILE, True), Violation(HOSTILE, HOSTILE, False)), (HOSTILE,), (), True
    )
    text = markdown(previewed(run))
    assert "is refused" in text
    assert "<img" not in rendered(text)
    assert "\x1b" not in text + terminal(previewed(run))
    drift = Drift(HOSTILE, steps, [ForeignWrite(HOSTILE, HOSTILE, HOSTILE, HOSTILE, (HOSTILE,))])
    assert "\x1b" not in drift_report.markdown(drift) + drift_report.terminal(drift)


def test_a_preview_of_any_size_has_its_verdict_and_keeps_to_the_limit() -> None:
    steps = tuple(Step("create", "ConfigMap", f"{number:0200}") for number in range(5000))
    told = Violation("rule", "word " * 20_000, False)
    text = markdown(previewed(EngineRun(steps, (told,))))
    assert len(text) <= LIMIT
    assert text.splitlines()[1].startswith("### ✅ `h200` fits · serving does not stop")


def test_events_are_read_without_inputs_and_noise() -> None:
    urn = "urn:pulumi:h200::heavylift::heavylift:index:InferenceServer$kubernetes:apps/v1:Deployment::server"
    resource = {
        "op": "update",
        "urn": urn,
        "type": "kubernetes:apps/v1:Deployment",
        "detailedDiff": {"spec.replicas": {}},
    }
    component = {
        "op": "create",
        "urn": "urn:pulumi:a::b::heavylift:index:ServedModel::model",
        "type": "heavylift:index:X",
    }
    run = read_events(
        [
            {"resourcePreEvent": {"metadata": {**resource, "new": {"inputs": {"password": "hunter2"}}}}},
            {"resourcePreEvent": {"metadata": {**resource, "op": "same"}}},
            {"resourcePreEvent": {"metadata": {**resource, "op": "create-replacement"}}},
            {"resourcePreEvent": {"metadata": component}},
            {"diagnosticEvent": {"severity": "error", "message": "preview failed\n"}},
            {"diagnosticEvent": {"severity": "error", "message": "rejected: too large\n"}},
            {"diagnosticEvent": {"severity": "debug", "message": "registering"}},
        ],
        failed=True,
    )
    assert run == EngineRun(
        (Step("update", "Deployment", "server", ("spec.replicas",), "InferenceServer"),),
        (),
        ("rejected: too large",),
        (),
        True,
    )
    assert "hunter2" not in repr(run)


def test_another_change_has_another_fingerprint() -> None:
    one, same = (previewed(EngineRun((step("update", "Deployment", TEMPLATE),))) for _ in range(2))
    other = previewed(EngineRun((step("replace", "Deployment", TEMPLATE),)))
    assert one.fingerprint == same.fingerprint != other.fingerprint
