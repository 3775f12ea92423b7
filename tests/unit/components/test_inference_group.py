"""Servers over several nodes: ranks from one template, and what keeps the members together, apart and awaited."""

from typing import Any

import pytest

from components.arguments import Placement, ServerEngine, ServerPods
from components.in_pod.packaging import verifier_texts
from components.inference_server import InferenceServer, InferenceServerArgs
from config.catalogue import engine_flags
from config.engine_name import EngineName
from config.stack import arguments
from config.stack.sections import FabricKind, PodNetwork
from tests.recording_engine import Recording, record
from tests.unit.components.samples import EIGHT_GPUS, H200, KIMI, LIMITS, VLLM

INFINIBAND: arguments.Fabric = {"kind": FabricKind.INFINIBAND, "resource": "rdma/ib", "count": 8}
TWO_NODES: Placement = {**H200, "nodes": 2, "hostnames": ["h100-1", "h100-0"], "fabric": INFINIBAND}


def served(
    nodes: int = 2,
    replicas: int = 1,
    *,
    placement: Placement = TWO_NODES,
    engine: ServerEngine = VLLM,
    pods: ServerPods = EIGHT_GPUS,
) -> Recording:
    args: InferenceServerArgs = {
        "namespace": "serving",
        "model": KIMI,
        "volume": {"host_path": "/mnt/nvme"},
        "placement": placement,
        "engine": engine,
        "pods": {**pods, "nodes_per_server": nodes, "replicas": replicas},
        "limits": LIMITS,
        "verifier_image": "python:3.12-slim",
        "kubeconfig": "{}",
    }
    return record(lambda: InferenceServer("server", args), stack="h100x16")


def with_fabric(**changes: Any) -> Placement:
    fabric: arguments.Fabric = {**INFINIBAND, **changes}  # type: ignore[typeddict-item]
    return {**TWO_NODES, "fabric": fabric}


def group(recording: Recording) -> dict[str, Any]:
    return dict(recording.only(":LeaderWorkerSet").inputs)


def pods(recording: Recording) -> tuple[dict[str, Any], dict[str, Any]]:
    """Leader and worker."""
    template = group(recording)["spec"]["leaderWorkerTemplate"]
    return template["leaderTemplate"]["spec"], template["workerTemplate"]["spec"]


def engine_of(pod: dict[str, Any]) -> dict[str, Any]:
    [container] = pod["containers"]
    return dict(container)


def test_every_pod_gets_its_rank_and_the_leaders_address_from_the_controller() -> None:
    leader, worker = pods(served())
    ranks = ["--nnodes", "2", "--node-rank", "$(LWS_WORKER_INDEX)", "--master-addr", "$(LWS_LEADER_ADDRESS)"]
    assert engine_of(leader)["args"][-6:] == ranks
    assert engine_of(worker)["args"][-7:] == [*ranks, "--headless"]


def test_leader_and_worker_differ_in_what_answers_and_in_nothing_else() -> None:
    leader, worker = pods(served())
    for key in ("ports", "startupProbe", "livenessProbe", "readinessProbe"):
        assert key in engine_of(leader)
        assert key not in engine_of(worker)
        leader["containers"][0].pop(key)
    worker["containers"][0]["args"].remove("--headless")
    assert leader["containers"][0].pop("lifecycle") != worker["containers"][0].pop("lifecycle")
    assert leader == worker


def test_every_flag_of_a_group_is_one_of_the_pinned_engine() -> None:
    _, worker = pods(served())
    flags = [argument for argument in engine_of(worker)["args"] if argument.startswith("--")]
    assert set(flags) <= set(engine_flags(EngineName.VLLM).flags)


def test_a_group_is_made_anew_as_a_whole_but_not_before_it_has_started() -> None:
    made = group(served())
    assert made["spec"]["leaderWorkerTemplate"]["restartPolicy"] == "RecreateGroupOnPodRestart"
    annotations = made["metadata"]["annotations"]
    assert annotations["leaderworkerset.sigs.k8s.io/experimental-recreate-group-after-start"] == "true"


def test_groups_are_replaced_for_another_size_or_topology_alone_and_the_old_ones_go_first() -> None:
    options = served().only(":LeaderWorkerSet").options
    assert options["replaceOnChanges"] == [
        "spec.leaderWorkerTemplate.size",
        'metadata.annotations["leaderworkerset.sigs.k8s.io/exclusive-topology"]',
    ]
    assert options["deleteBeforeReplace"] is True, "a second group would need the first one's GPUs"


def test_leader_and_workers_carry_one_digest_which_changes_with_either() -> None:
    def digests(recording: Recording) -> set[str]:
        template = group(recording)["spec"]["leaderWorkerTemplate"]
        both = (template["leaderTemplate"], template["workerTemplate"])
        return {each["metadata"]["annotations"]["server.heavylift/template"] for each in both}

    [before] = digests(served())
    assert digests(served(replicas=2)) == {before}, "more groups are made from the same template"
    assert digests(served(placement=with_fabric(attachments=["ib-0"]))) != {before}
    assert digests(served(pods={**EIGHT_GPUS, "cpus": 64})) != {before}


def test_no_two_pods_share_a_node_and_all_are_on_nodes_that_were_staged() -> None:
    leader, _ = pods(served())
    affinity = leader["affinity"]
    [apart] = affinity["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert apart["topologyKey"] == "kubernetes.io/hostname"
    assert apart["labelSelector"]["matchLabels"]["app.kubernetes.io/instance"] == "h100x16"
    required = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    [term] = required["nodeSelectorTerms"]
    assert term["matchExpressions"] == [
        {"key": "kubernetes.io/hostname", "operator": "In", "values": ["h100-0", "h100-1"]}
    ]


def test_the_service_leads_to_leaders_only() -> None:
    selector = served().only(":Service").inputs["spec"]["selector"]
    assert selector["leaderworkerset.sigs.k8s.io/worker-index"] == "0"


def test_a_drain_takes_one_group_at_a_time() -> None:
    budget = served().only(":PodDisruptionBudget").inputs["spec"]
    assert budget["maxUnavailable"] == 1
    assert "leaderworkerset.sigs.k8s.io/worker-index" not in budget["selector"]["matchLabels"]


def test_every_pod_asks_for_the_fabrics_devices_and_needs_no_capability() -> None:
    for pod in pods(served()):
        engine = engine_of(pod)
        assert engine["resources"]["limits"]["rdma/ib"] == "8"
        assert engine["resources"]["limits"]["nvidia.com/gpu"] == "8"
        assert engine["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert "/dev/infiniband" not in str(pod["volumes"]), "devices come from the plugin, never by host path"


def test_the_fabric_is_checked_first_and_as_the_engine_would_see_it() -> None:
    leader, _ = pods(served())
    check, verify = leader["initContainers"]
    engine = engine_of(leader)
    assert check["command"] == ["python3", "/heavylift/fabric_check.py", "--resource", "rdma/ib"]
    assert (check["image"], check["env"], check["securityContext"]) == (
        engine["image"],
        engine["env"],
        engine["securityContext"],
    )
    assert check["resources"]["limits"]["rdma/ib"] == "8"
    assert "nvidia.com/gpu" not in check["resources"]["limits"]
    assert verify["name"] == "verify"


def test_the_check_travels_with_the_verifier() -> None:
    assert set(served().only(":ConfigMap").inputs["data"]) == {"fabric_check.py", *verifier_texts()}


def test_without_a_fabric_nothing_is_checked_or_asked_for() -> None:
    leader, _ = pods(served(placement={**TWO_NODES, "fabric": None}))
    assert [container["name"] for container in leader["initContainers"]] == ["verify"]
    assert "rdma/ib" not in str(leader)


def test_every_rank_is_reached_at_its_pods_own_address() -> None:
    for pod in pods(served()):
        [own] = [each for each in engine_of(pod)["env"] if each["name"] == "VLLM_HOST_IP"]
        assert own["valueFrom"] == {"fieldRef": {"fieldPath": "status.podIP"}}


def test_the_ranks_meet_on_the_nodes_network_where_the_stack_says_so() -> None:
    leader, _ = pods(served(placement=with_fabric(network=PodNetwork.HOST, interface="bond0")))
    assert leader["hostNetwork"] is True
    assert leader["dnsPolicy"] == "ClusterFirstWithHostNet"


def test_secondary_networks_are_asked_for_in_the_pods_annotations() -> None:
    made = group(served(placement=with_fabric(attachments=["ib-0"])))
    template = made["spec"]["leaderWorkerTemplate"]["workerTemplate"]
    assert template["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"] == "ib-0"


def test_each_group_has_one_part_of_the_fabric_where_the_stack_names_its_label() -> None:
    made = group(served(placement=with_fabric(topology_label="example.com/leaf")))
    annotation = "leaderworkerset.sigs.k8s.io/exclusive-topology"
    assert made["metadata"]["annotations"][annotation] == "example.com/leaf"
    assert annotation not in group(served())["metadata"]["annotations"]


def test_resource_names_are_not_respelled() -> None:
    leader, _ = pods(served(placement=with_fabric(resource="rdma/hca_shared_devices_a")))
    assert engine_of(leader)["resources"]["limits"]["rdma/hca_shared_devices_a"] == "8"


def test_quantities_are_written_as_the_api_server_stores_them() -> None:
    """Else every preview shows a change: Pulumi compares a custom resource as text."""
    efa = with_fabric(kind=FabricKind.EFA, resource="vpc.amazonaws.com/efa", count=32)
    written: ServerPods = {**EIGHT_GPUS, "memory_request": "262144Mi", "memory_limit": "2048Gi"}
    leader, _ = pods(served(placement=efa, pods={**written, "shared_memory_bytes": 2**40}))
    resources = engine_of(leader)["resources"]
    assert resources["requests"]["memory"] == "256Gi"
    assert resources["limits"]["memory"] == "2Ti"
    assert resources["limits"]["hugepages-2Mi"] == "5Gi"
    assert [each["emptyDir"]["sizeLimit"] for each in leader["volumes"] if "sizeLimit" in each.get("emptyDir", {})] == [
        "1Ti"
    ]


def test_replicas_on_one_node_each_are_groups_of_one_without_ranks_or_fabric() -> None:
    recording = served(nodes=1, replicas=2)
    assert group(recording)["spec"]["leaderWorkerTemplate"]["size"] == 1
    leader, _ = pods(recording)
    assert "--nnodes" not in engine_of(leader)["args"]
    assert "rdma/ib" not in str(leader)
    assert "podAntiAffinity" in leader["affinity"]


@pytest.mark.parametrize("environment", [{"NCCL_DEBUG": "INFO"}, {"NCCL_IB_HCA": "mlx5_2"}])
def test_the_stacks_own_environment_wins_over_the_fabrics(environment: dict[str, str]) -> None:
    placement = with_fabric(devices=["mlx5_0"])
    leader, _ = pods(served(placement=placement, engine={**VLLM, "environment": environment}))
    values = {each["name"]: each.get("value") for each in engine_of(leader)["env"]}
    assert environment.items() <= values.items()


def test_the_pods_are_given_the_plans_time_to_end() -> None:
    assert [pod["terminationGracePeriodSeconds"] for pod in pods(served())] == [15 + 45 + 30] * 2
