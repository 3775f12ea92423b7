"""What a stack may say, and what it is told when it says something else."""

from copy import deepcopy
from typing import Any

import pytest

from config.errors import StackError
from config.stack.sections import StackConfig, Verification, WeightsKind

COMMIT = "4d01dfe0332d63057c186e0b262165819efb6611"
GOOD: dict[str, Any] = {
    "nodes": {"names": ["h200-0"], "gpu": "h200", "gpus_per_node": 8, "nvme_path": "/mnt/nvme"},
    "model": {"repository": "moonshotai/Kimi-K2.5", "revision": COMMIT},
    "weights": {"kind": "local"},
    "stage": {"image": "python:3.12-slim"},
    "engine": {"name": "vllm", "version": "0.33.0", "image": "vllm/vllm-openai:v0.33.0", "tensor_parallel": 8},
}


def changed(path: str, value: Any) -> dict[str, Any]:
    """The good stack with one value changed; `path` is section.key."""
    sections = deepcopy(GOOD)
    section, _, key = path.partition(".")
    sections.setdefault(section, {})[key] = value
    return sections


def faults(sections: dict[str, Any]) -> list[str]:
    with pytest.raises(StackError) as caught:
        StackConfig.parse(sections)
    return list(caught.value.faults)


def test_what_is_left_out_has_the_documented_defaults() -> None:
    stack = StackConfig.parse(GOOD)
    assert stack.cluster.namespace == "heavylift"
    assert (stack.weights.keep_revisions, stack.weights.retain, stack.weights.verify) == (2, True, Verification.QUICK)
    assert stack.stage.sources == ("hub",)
    assert stack.weights_path == "/mnt/nvme"


def test_a_checked_stack_cannot_be_changed() -> None:
    stack = StackConfig.parse(GOOD)
    with pytest.raises(ValueError, match="frozen"):
        stack.weights.kind = WeightsKind.CLAIM


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        (
            "stage.environment",
            {"HF_TOKEN": "hf_x"},
            "heavylift:stage.environment.HF_TOKEN: is in plain text: expected `pulumi config set --secret "
            "heavylift:hub_token`",
        ),
        (
            "stage.environment",
            {"AWS_SECRET_ACCESS_KEY": "x"},
            "heavylift:stage.environment.AWS_SECRET_ACCESS_KEY: is in plain text: expected a Secret that stage.secret "
            "names",
        ),
        (
            "model.revision",
            "main",
            "heavylift:model.revision: 'main' is not a full commit: expected 40 hex digits, or set "
            "allow_unpinned: true",
        ),
        (
            "model.repository",
            "Kimi-K2.5",
            "heavylift:model.repository: 'Kimi-K2.5' is not valid: expected owner/name, such as moonshotai/Kimi-K2.5",
        ),
        (
            "weights.size",
            "400 gigs",
            "heavylift:weights.size: '400 gigs' is not a size: expected a Kubernetes quantity such as 400Gi or 2Ti",
        ),
        (
            "weights.kind",
            "disk",
            "heavylift:weights.kind: 'disk' is not valid: expected 'local', 'host-path' or 'claim'",
        ),
        (
            "weights.keep_revisions",
            0,
            "heavylift:weights.keep_revisions: 0 is not valid: expected a number greater than 0",
        ),
        (
            "weights.keep_newest",
            2,
            "heavylift:weights.keep_newest: 2 leaves no room for the next revision with heavylift:weights."
            "keep_revisions 2: expected fewer; lower it, or raise keep_revisions to 3, for which the volume must be "
            "larger",
        ),
        (
            "weights.keep_newest",
            0,
            "heavylift:weights.keep_newest: 0 is not valid: expected a number greater than 0",
        ),
        (
            "weights.retain",
            False,
            "heavylift:weights.retain: false has no meaning for kind local: a node's files are never deleted; leave "
            "it out",
        ),
        (
            "weights.storage_class",
            "gp3",
            "heavylift:weights.storage_class: 'gp3' has no meaning for kind local: expected it with kind claim only",
        ),
        (
            "stage.bandwidth",
            "10",
            "heavylift:stage.bandwidth: '10' is not a bandwidth: expected a number and a unit, such as 10 Gbit/s "
            "or 250 MB/s",
        ),
        (
            "stage.sources",
            ["hub", "ftp://mirror"],
            "heavylift:stage.sources[1]: 'ftp://mirror' is not valid: expected hub, s3://bucket/prefix, "
            "https://host/path or /directory, without `.` or `..` as a part of the path",
        ),
        ("stage.sources", [], "heavylift:stage.sources: [] is not valid: expected at least one entry"),
        (
            "engine.version",
            0.33,
            "heavylift:engine.version: 0.33 is not valid: expected text (in quotes where YAML would read a number)",
        ),
        (
            "engine.extra_args",
            "--enforce-eager",
            "heavylift:engine.extra_args: '--enforce-eager' is not valid: expected a list",
        ),
        (
            "nodes.gpus_per_node",
            0,
            "heavylift:nodes.gpus_per_node: 0 is too few of nodes.gpu 'h200': expected the GPUs of each node to be "
            "taken, such as 8",
        ),
        (
            "nodes.gpus_per_node",
            "8",
            "heavylift:nodes.gpus_per_node: '8' is not valid: expected a whole number, without quotes",
        ),
        (
            "nodes.gpus_per_node",
            8.0,
            "heavylift:nodes.gpus_per_node: 8.0 is not valid: expected a whole number, without quotes",
        ),
        (
            "nodes.gpus_per_node",
            True,
            "heavylift:nodes.gpus_per_node: true is not valid: expected a whole number, without quotes",
        ),
        (
            "nodes.usd_per_gpu_hour",
            "2",
            "heavylift:nodes.usd_per_gpu_hour: '2' is not valid: expected a number, without quotes",
        ),
        (
            "nodes.usd_per_gpu_hour",
            float("inf"),
            "heavylift:nodes.usd_per_gpu_hour: inf is not valid: expected a finite number",
        ),
        (
            "model.allow_unpinned",
            "yes",
            "heavylift:model.allow_unpinned: 'yes' is not valid: expected true or false, without quotes",
        ),
        (
            "model.allow_unpinned",
            1,
            "heavylift:model.allow_unpinned: 1 is not valid: expected true or false, without quotes",
        ),
        (
            "weights.size",
            0,
            "heavylift:weights.size: 0 is not a size: expected a Kubernetes quantity such as 400Gi or 2Ti",
        ),
        (
            "weights.size",
            "0",
            "heavylift:weights.size: '0' is not a size: expected a Kubernetes quantity such as 400Gi or 2Ti",
        ),
        (
            "weights.size",
            400,
            "heavylift:weights.size: 400 is not a size: expected a Kubernetes quantity such as 400Gi or 2Ti",
        ),
        (
            "weights.size",
            True,
            "heavylift:weights.size: true is not a size: expected a Kubernetes quantity such as 400Gi or 2Ti",
        ),
        (
            "weights.keep_revisions",
            "2",
            "heavylift:weights.keep_revisions: '2' is not valid: expected a whole number, without quotes",
        ),
        (
            "stage.bandwidth",
            10,
            "heavylift:stage.bandwidth: 10 is not a bandwidth: expected a number and a unit, such as 10 Gbit/s "
            "or 250 MB/s",
        ),
        ("engine.block_size", 7, "heavylift:engine.block_size: 7 is not valid: expected a multiple of 16"),
        (
            "engine.gpu_memory_utilization",
            "0.9",
            "heavylift:engine.gpu_memory_utilization: '0.9' is not valid: expected a number, without quotes",
        ),
        (
            "nodes.names",
            ["H200_0"],
            "heavylift:nodes.names[0]: 'H200_0' is not valid: expected the node's name as `kubectl get nodes` "
            "prints it",
        ),
        (
            "nodes.nvme_path",
            "/mnt/../etc",
            "heavylift:nodes.nvme_path: '/mnt/../etc' is not valid: expected an absolute path such as /mnt/nvme, "
            "without `..`",
        ),
        (
            "stage.secret",
            "A_B",
            "heavylift:stage.secret: 'A_B' is not valid: expected a name of lower-case letters, digits, inner hyphens "
            "and inner dots",
        ),
        (
            "engine.host",
            "127.0.0.1",
            "heavylift:engine.host: '127.0.0.1' is not valid: expected 0.0.0.0, or :: in a cluster with IPv6",
        ),
        (
            "cluster.namespace",
            "Heavy Lift",
            "heavylift:cluster.namespace: 'Heavy Lift' is not valid: expected at most 63 lower-case letters, digits "
            "and inner hyphens",
        ),
        (
            "nodes.taints",
            [{"key": "gpu", "effect": "Never"}],
            "heavylift:nodes.taints[0].effect: 'Never' is not valid: expected 'NoSchedule', 'PreferNoSchedule' or "
            "'NoExecute'",
        ),
    ],
)
def test_a_bad_value_is_named_with_its_key_and_what_was_expected(path: str, value: Any, sentence: str) -> None:
    assert faults(changed(path, value)) == [sentence]


def test_a_branch_is_accepted_where_the_stack_allows_it() -> None:
    sections = changed("model.revision", "main")
    sections["model"]["allow_unpinned"] = True
    assert StackConfig.parse(sections).model.revision == "main"


def test_an_unknown_key_is_refused_and_the_nearest_one_offered() -> None:
    assert faults(changed("model.revison", COMMIT)) == [
        "heavylift:model.revison: is not a known key: expected revision"
    ]


def test_an_unknown_object_is_refused_with_those_that_are_known() -> None:
    assert faults(changed("gateway.port", 1)) == [
        "heavylift:gateway: is not a known key: expected one of cluster, aws, nodes, model, weights, stage, engine, "
        "security, network, pod, metrics, expose, promotion"
    ]


def test_a_group_without_a_user_is_refused_where_no_user_is_set_by_default() -> None:
    sections = GOOD | {"weights": {"kind": "host-path", "path": "/mnt/nvme"}, "security": {"group": 3000}}
    assert faults(sections) == [
        "heavylift:security.group: 3000 has no meaning for kind host-path without a user: expected "
        "heavylift:security.user too, or neither"
    ]
    assert StackConfig.parse(sections | {"security": {"user": 3000, "group": 3000}}).security.user == 3000


def test_missing_objects_and_keys_are_named_with_what_they_are_for() -> None:
    sections = {key: value for key, value in GOOD.items() if key != "stage"} | {"weights": {}}
    assert faults(sections) == [
        "heavylift:weights.kind: is missing: expected `local`: a PersistentVolume on each node's disk, for nodes with "
        "names. `host-path`: a directory of each node. `claim`: a PersistentVolumeClaim from a storage class",
        "heavylift:stage: is missing: expected the Job that downloads and verifies the weights",
    ]


def test_an_object_given_as_text_is_said_to_be_one() -> None:
    sections = GOOD | {"model": "moonshotai/Kimi-K2.5"}
    assert faults(sections) == [
        "heavylift:model: 'moonshotai/Kimi-K2.5' is not valid: expected an object, its keys indented below"
    ]


def test_all_faults_come_at_once() -> None:
    sections = changed("model.revision", "main")
    sections["weights"]["size"] = "big"
    sections["engine"]["name"] = "tgi"
    assert [fault.split(": ")[0] for fault in faults(sections)] == [
        "heavylift:model.revision",
        "heavylift:weights.size",
        "heavylift:engine.name",
    ]


def test_a_gpu_without_a_number_of_them_is_told_what_is_missing() -> None:
    sections = deepcopy(GOOD)
    del sections["nodes"]["gpus_per_node"]
    assert faults(sections) == [
        "heavylift:nodes.gpus_per_node: 0 is too few of nodes.gpu 'h200': expected the GPUs of each node to be taken, "
        "such as 8"
    ]


def test_a_number_of_gpus_without_their_kind_is_told_what_is_missing() -> None:
    sections = deepcopy(GOOD)
    del sections["nodes"]["gpu"]
    assert faults(sections) == [
        "heavylift:nodes.gpus_per_node: 8 has no meaning without nodes.gpu: expected their kind there, such as h200"
    ]


@pytest.mark.parametrize(("path", "value"), [("nodes.gpu", 200), ("model.allow_unpinned", "no")])
def test_a_fault_of_one_key_is_not_held_against_another(path: str, value: Any) -> None:
    sections = changed(path, value)
    sections["model"] |= {"revision": "main"} if path.startswith("model") else {}
    assert [fault.split(": ")[0] for fault in faults(sections)] == [f"heavylift:{path}"]


def test_contradictions_come_with_the_faults_of_other_objects() -> None:
    sections = changed("model.revision", "main")
    sections["nodes"] |= {"names": ["a", "b"], "gpu": "h2000"}
    sections["engine"]["tensor_parallel"] = 32
    del sections["nodes"]["nvme_path"], sections["stage"]
    assert [fault.split(": ")[0] for fault in faults(sections)] == [
        "heavylift:model.revision",
        "heavylift:stage",
        "heavylift:weights.path",
    ]


def test_no_contradiction_is_made_of_an_object_that_has_a_fault_itself() -> None:
    sections = changed("nodes.gpus_per_node", "8")
    sections["engine"]["tensor_parallel"] = 32
    assert [fault.split(": ")[0] for fault in faults(sections)] == ["heavylift:nodes.gpus_per_node"]


def test_a_long_value_is_cut_in_the_message() -> None:
    (fault,) = faults(changed("model.revision", "x" * 500))
    assert len(fault) < 250


@pytest.mark.parametrize(
    ("edits", "sentence"),
    [
        (
            {"stage": {"image": "python:3.11", "sources": ["s3://mirror/models", "hub"], "native_xet": True}},
            "heavylift:stage.native_xet: is true, and the first of stage.sources is s3://mirror/models: expected hub "
            "first, since its client takes every file that it can",
        ),
        (
            {"weights": {"kind": "claim", "path": "/mnt/nvme"}},
            "heavylift:weights.path: '/mnt/nvme' has no meaning for kind claim: expected it to be left out",
        ),
        (
            {"nodes": {"names": ["a"], "gpu": "h200", "gpus_per_node": 8}},
            "heavylift:weights.path: is missing: kind local expects a directory here or in heavylift:nodes.nvme_path",
        ),
        (
            {"nodes": {"gpu": "h200", "gpus_per_node": 8, "nvme_path": "/mnt/nvme"}},
            "heavylift:weights.kind: 'local' without nodes.names: expected the names of the nodes, since each has a "
            "volume of its own, or kind host-path",
        ),
        (
            {
                "nodes": {
                    **GOOD["nodes"],
                    "fabric": {"kind": "infiniband", "resource": "rdma/ib", "count": 8, "network": "host"},
                }
            },
            "heavylift:nodes.fabric.interface: is missing: network 'host' expects the name of the nodes' interface, "
            "such as bond0",
        ),
    ],
)
def test_keys_that_contradict_each_other_are_refused(edits: dict[str, Any], sentence: str) -> None:
    assert faults(GOOD | edits) == [sentence]
