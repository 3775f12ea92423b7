"""The Job that makes room: after the server serves, for this stack's own revisions, without holding anybody up."""

from typing import Any

from components.arguments import Placement, WeightSource
from components.pods.jobs.stager_job import StagerJob
from components.pods.security import PodSecurity
from components.pods.weight_source import PlacedVolume
from components.weight_prune import WeightPrune, WeightPruneArgs
from config.stack.sections import Security
from tests.recording_engine import Recording, record
from tests.unit.components.samples import H200, KIMI, ON_H200, PODS_ON_H200, TWO_H200S, UNNAMED


def pruned(volume: WeightSource = ON_H200, placement: Placement = H200) -> Recording:
    args: WeightPruneArgs = {
        "namespace": "serving",
        "model": KIMI,
        "keep_newest": 2,
        "volume": volume,
        "placement": placement,
        "image": "python:3.12-slim",
        "program": "stage-program-0123abcd",
        "owner": "serving/h200",
    }
    return record(lambda: WeightPrune("prune", args), stack="h200")


def pod(recording: Recording) -> dict[str, Any]:
    spec: dict[str, Any] = recording.only(":Job").inputs["spec"]["template"]["spec"]
    return spec


def test_the_job_is_named_by_what_is_served_so_that_another_revision_makes_another() -> None:
    assert pruned().only(":Job").name == "prune-669cddc777e743fa-h200-0"


def test_each_volume_gets_a_job_on_its_own_node() -> None:
    jobs = pruned({"host_path": "/mnt/nvme"}, TWO_H200S).of_type(":Job")
    nodes = {job.name: job.inputs["spec"]["template"]["spec"]["nodeSelector"]["kubernetes.io/hostname"] for job in jobs}
    assert nodes == {f"prune-669cddc777e743fa-{name}": name for name in ("h200-0", "h200-1")}


def test_the_stager_is_told_whose_revisions_how_many_and_which_one_serves() -> None:
    (container,) = pod(pruned())["containers"]
    assert container["command"] == [
        *("python3", "/heavylift/stager/run_stager.py", "prune", "/weights"),
        *("--user=serving/h200", "--keep-newest=2", "--in-use=669cddc777e743fa"),
    ]


def test_it_needs_neither_requirements_nor_token_nor_the_cluster() -> None:
    spec = pod(pruned())
    (container,) = spec["containers"]
    assert "initContainers" not in spec
    assert "envFrom" not in container
    assert "HF_TOKEN" not in str(container["env"])
    assert spec["automountServiceAccountToken"] is False
    assert "PYTHONPATH" not in str(container["env"])


def test_it_has_place_security_and_mounts_of_the_stage_job() -> None:
    spec = pod(pruned())
    staging = StagerJob(
        "h200",
        "stage",
        "python:3.12-slim",
        PODS_ON_H200,
        "stage-program-0123abcd",
        PodSecurity.of_jobs(Security(), PlacedVolume(None, {})),
    )
    expected = staging.container("stage", [], resources={})
    (container,) = spec["containers"]
    assert spec["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    assert "nvidia.com/gpu" not in str(container["resources"])
    assert container["securityContext"]["capabilities"] == expected["security_context"]["capabilities"]
    assert [mount["mountPath"] for mount in container["volumeMounts"]] == ["/heavylift/stager", "/tmp", "/weights"]
    assert spec["volumes"] == [
        {"name": "program", "configMap": {"name": "stage-program-0123abcd"}},
        {"name": "tmp", "emptyDir": {}},
        {"name": "weights", "persistentVolumeClaim": {"claimName": "h200-weights-h200-0"}},
    ]


def test_a_group_of_nodes_is_pruned_on_as_many_nodes_as_it_counts_whatever_their_names() -> None:
    job = pruned(volume={"host_path": "/mnt/nvme"}, placement={**UNNAMED, "candidates": ["h200-0"]}).only(":Job")
    spec = job.inputs["spec"]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 2, 2)
    template = spec["template"]
    assert template["spec"]["nodeSelector"] == {"pool": "gpu"}
    assert "nodeAffinity" not in template["spec"]["affinity"]
    (apart,) = template["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert apart["topologyKey"] == "kubernetes.io/hostname"
    assert apart["labelSelector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
