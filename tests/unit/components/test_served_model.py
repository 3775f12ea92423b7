"""One component from the sections of a stack file to a server: what it refuses, names, and checks when it can."""

from collections.abc import Callable
from typing import Any, cast

import pulumi
import pytest
from pulumi.output import UNKNOWN

from components.cluster import facts as cluster_facts
from components.cluster.facts import ClusterFacts, NodeFacts
from components.served_model import ServedModel, ServedModelArgs
from config.engine_name import EngineName
from config.stack.sections import WeightsKind
from tests.recording_engine import Recording, record
from tests.unit.components.samples import GEMMA

KUBECONFIG = '{"current-context": "test", "contexts": [], "clusters": [], "users": []}'
ARGS: ServedModelArgs = {
    "model": GEMMA,
    "weights": {"kind": WeightsKind.CLAIM},
    "stage": {"image": "python:3.12-slim"},
    "engine": {
        "name": EngineName.LLAMA_CPP,
        "version": "b10920",
        "image": "ghcr.io/ggml-org/llama.cpp:server-b10920",
        "max_model_len": 4096,
    },
    "namespace": "models",
}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Callable[[ClusterFacts], None]:
    """Puts a described cluster in place of the one behind the kubeconfig."""

    def put(facts: ClusterFacts) -> None:
        monkeypatch.setattr(cluster_facts, "read_cluster", lambda *_, **__: facts)

    return put


FIT = ClusterFacts(nodes=[NodeFacts("only-node")], storage_classes={"standard": True})
UNFIT = ClusterFacts(nodes=[NodeFacts("only-node", cordoned=True)], storage_classes={"standard": True})


def served(name: str = "chat", *, preview: bool = False, into: Recording | None = None, **more: Any) -> Recording:
    def program() -> None:
        kubeconfig = more.pop("kubeconfig", None)
        args = {**ARGS, **more, "kubeconfig": kubeconfig() if callable(kubeconfig) else kubeconfig}
        ServedModel(name, args)  # type: ignore[arg-type]

    return record(program, stack="two", preview=preview, into=into)


def objects(recording: Recording) -> list[str]:
    return [each.type for each in recording.registrations if each.type.startswith("kubernetes:")]


def test_it_makes_everything_from_the_volume_to_the_service() -> None:
    recording = served()
    assert {each.name for each in recording.registrations if each.parent == "chat"} == {
        *("chat-nodes", "chat-weights", "chat-stage", "chat-server")
    }
    (outputs,) = recording.outputs_of("ServedModel")
    assert outputs["endpoint"] == "http://two-chat.models.svc:8080/v1"
    assert outputs["answered"].startswith("unknown: "), "without a kubeconfig nobody asks"
    assert outputs["plan"]["verdict"] == "fits"
    assert outputs["release"]["weights_digest"] == "0881a52b5b77b719"


def test_two_models_of_one_stack_share_no_object_and_no_owner() -> None:
    one, other = served("chat"), served("code")
    for recording in (one, other):
        assert len({each.urn for each in recording.registrations}) == len(recording.registrations)
    urns = [{each.urn for each in recording.registrations} for recording in (one, other)]
    assert urns[0].isdisjoint(urns[1])
    named = [
        {
            each.inputs["metadata"]["name"]
            for each in recording.registrations
            if "name" in each.inputs.get("metadata", {})
        }
        for recording in (one, other)
    ]
    assert named == [{"two-chat", "two-chat-weights"}, {"two-code", "two-code-weights"}]
    owners = [recording.outputs_of("WeightStage")[0]["owner"] for recording in (one, other)]
    assert owners == ["models/two-chat", "models/two-code"]


def test_a_plan_that_cannot_work_is_refused_before_anything_is_registered() -> None:
    recording = Recording()
    with pytest.raises(pulumi.RunError, match=r"(?s)^rejected: .*nothing was created.*disk_too_small"):
        served(into=recording, weights={"kind": WeightsKind.CLAIM, "size": "1Mi"})
    assert recording.registrations == []


def test_all_faults_of_its_arguments_come_at_once() -> None:
    with pytest.raises(pulumi.RunError) as refusal:
        served(weights={"kind": "disk"}, stage={"image": " "})
    lines = str(refusal.value).splitlines()
    assert lines[0] == "chat cannot be served, nothing was created:"
    assert [line.split(":")[1] for line in lines[1:]] == ["weights.kind", "stage.image"]


def test_a_cluster_that_is_not_fit_is_refused_before_anything_is_registered(
    cluster: Callable[[ClusterFacts], None],
) -> None:
    cluster(UNFIT)
    recording = Recording()
    with pytest.raises(pulumi.RunError, match="is cordoned"):
        served(into=recording, kubeconfig=KUBECONFIG)
    assert recording.registrations == []


def test_a_cluster_behind_an_output_is_checked_before_anything_is_made_in_it(
    cluster: Callable[[ClusterFacts], None],
) -> None:
    cluster(UNFIT)
    recording = Recording()
    with pytest.raises(pulumi.RunError, match="is cordoned"):
        served(into=recording, kubeconfig=lambda: pulumi.Output.secret(KUBECONFIG))
    assert objects(recording) == []


def test_a_preview_says_that_a_cluster_which_is_not_there_yet_was_not_checked(
    cluster: Callable[[ClusterFacts], None],
) -> None:
    def unknown() -> pulumi.Output[str]:
        return pulumi.Output.from_input(KUBECONFIG).apply(lambda _: cast(str, UNKNOWN))

    cluster(UNFIT)
    recording = served(preview=True, kubeconfig=unknown)
    assert [words for words in recording.warnings if words.startswith("the cluster was not checked: its kubeconfig")]
    assert "kubernetes:apps/v1:Deployment" in objects(recording), "the preview shows what would be made"
    assert recording.only(":PersistentVolumeClaim").inputs["metadata"]["namespace"] == "models"


def test_a_claim_that_an_earlier_stack_left_is_taken_over(cluster: Callable[[ClusterFacts], None]) -> None:
    left = cluster_facts.VolumeFacts(10 * 2**30, storage_class="standard")
    cluster(ClusterFacts(nodes=FIT.nodes, claims={"two-chat-weights": left}))
    recording = served(preview=True, kubeconfig=KUBECONFIG)
    assert recording.only(":PersistentVolumeClaim").options["importId"] == "models/two-chat-weights"


def test_the_namespace_is_made_only_where_it_is_asked_for(cluster: Callable[[ClusterFacts], None]) -> None:
    cluster(FIT)
    assert "kubernetes:core/v1:Namespace" not in objects(served(preview=True, kubeconfig=KUBECONFIG))
    made = served(preview=True, kubeconfig=KUBECONFIG, create_namespace=True).only(":Namespace")
    assert made.options["retainOnDelete"] is True
