"""Each rule of the policy pack: one stack that passes, one that violates it, and the shipped stacks."""

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from policy.resources import Resource
from policy.rules import RULES
from tests.program import PROGRAM

COMMIT, DIGEST = "4d01dfe0332d63057c186e0b262165819efb6611", f"sha256:{'0' * 64}"
Stack = dict[str, dict[str, Any]]

LABELS = {"app.kubernetes.io/name": "heavylift", "app.kubernetes.io/component": "server"}
CONTAINER = {
    "name": "engine",
    "image": f"vllm/vllm-openai@{DIGEST}",
    "args": ["--port", "8000"],
    "env": [{"name": "TOKENIZERS_PARALLELISM", "value": "false"}, {"name": "HF_HOME", "value": "/cache"}],
    "ports": [{"containerPort": 8000}],
    "startupProbe": {"failureThreshold": 60, "periodSeconds": 10},
    "resources": {"limits": {"nvidia.com/gpu": "8"}, "requests": {"cpu": "48"}},
    "securityContext": {"allowPrivilegeEscalation": False},
    "volumeMounts": [{"name": "weights", "mountPath": "/weights", "readOnly": True}],
}
VERIFY = {
    "name": "verify",
    "image": f"python@{DIGEST}",
    "command": ["python3", "/heavylift/stager/verify.py", "/weights/x", "--full"],
    "securityContext": {"allowPrivilegeEscalation": False},
}
STAGER: dict[str, Any] = {
    "name": "stage",
    "image": f"python@{DIGEST}",
    "command": ["python3", "run_stager.py", "stage", "--repository", "acme/model", "--revision", COMMIT],
    "env": [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "token", "key": "HF_TOKEN"}}}],
    "securityContext": {"allowPrivilegeEscalation": False},
}


def template(component: str, **spec: Any) -> dict[str, Any]:
    """A pod template as the components make it."""
    labels = {**LABELS, "app.kubernetes.io/component": component}
    return {"metadata": {"labels": labels}, "spec": {"automountServiceAccountToken": False, **spec}}


GOOD: Stack = {
    "heavylift:index:ServedModel": {
        "plan": {"verdict": "fits", "load_seconds": 530.0, "cost_per_hour_usd": 25.6},
        "release": {"lock_sha256": "0" * 64},
    },
    "kubernetes:apps/v1:Deployment": {
        "spec": {"template": template("server", containers=[CONTAINER], initContainers=[VERIFY])}
    },
    "kubernetes:batch/v1:Job": {"spec": {"template": template("stage", containers=[STAGER])}},
    "kubernetes:core/v1:Service": {"spec": {"type": "ClusterIP", "selector": LABELS}},
    "kubernetes:core/v1:PersistentVolume": {"spec": {"persistentVolumeReclaimPolicy": "Retain"}},
    "kubernetes:networking.k8s.io/v1:NetworkPolicy": {
        "spec": {"podSelector": {"matchLabels": LABELS}, "ingress": [{"from": [{"podSelector": {}}]}]}
    },
}
MODEL, SERVER, JOB, SERVICE, VOLUME, POLICY = GOOD
ENGINE = (SERVER, "spec", "template", "spec", "containers", 0)
POD = (SERVER, "spec", "template", "spec")
SETTINGS: Mapping[str, Mapping[str, Any]] = {"cost-ceiling": {"usd_per_hour": 25.6}}
REMOVED = object()

VIOLATIONS: Sequence[tuple[str, tuple[str | int, ...], Any, str]] = [
    ("plan-fits", (MODEL, "plan", "verdict"), "unknown", "is unknown"),
    ("plan-not-tight", (MODEL, "plan", "verdict"), "tight", "is tight"),
    (
        "startup-budget-covers-load",
        (*ENGINE, "startupProbe", "failureThreshold"),
        52,
        "allows 520 s, and the model loads",
    ),
    ("startup-budget-covers-load", (*ENGINE, "startupProbe"), REMOVED, "allows 0 s"),
    ("cost-ceiling", (MODEL, "plan", "cost_per_hour_usd"), 25.61, "costs 25.61 $ per hour"),
    ("cost-ceiling", (MODEL, "plan", "cost_per_hour_usd"), None, "State nodes.usd_per_gpu_hour"),
    ("weights-pinned-by-commit", (JOB, "spec", "template", "spec", "containers", 0, "command", 6), "main", "at 'main'"),
    ("weights-locked", (MODEL, "release", "lock_sha256"), REMOVED, "has no lock of its weights"),
    ("weights-mounted-read-only", (*ENGINE, "volumeMounts", 0, "readOnly"), REMOVED, "can write to the weights"),
    ("weights-retained", (VOLUME, "spec", "persistentVolumeReclaimPolicy"), "Delete", "deleted with its claim"),
    ("full-verification", (*POD, "initContainers", 0, "command", 3), REMOVED, "size and times only"),
    ("no-latest-image", (*ENGINE, "image"), "registry.example:5000/vllm", "names no version"),
    ("no-latest-image", (*ENGINE, "image"), "vllm/vllm-openai:latest", "names no version"),
    ("images-by-digest", (*ENGINE, "image"), "vllm/vllm-openai:v0.33.0", "names a tag"),
    ("hub-token-in-stager-only", (*ENGINE, "env", 0), STAGER["env"][0], "engine of server has HF_TOKEN"),
    (
        "no-secret-in-plain-text",
        (*ENGINE, "env", 0),
        {"name": "DB_PASSWORD", "value": "hidden"},
        "DB_PASSWORD of engine",
    ),
    (
        "gpu-requests-equal-limits",
        (*ENGINE, "resources", "requests", "nvidia.com/gpu"),
        "4",
        "requests 4 nvidia.com/gpu",
    ),
    ("no-public-server", (SERVICE, "spec", "type"), "LoadBalancer", "is LoadBalancer, and its server asks for no key"),
    ("network-policy", (POLICY, "spec", "podSelector", "matchLabels", "app"), "other", "No NetworkPolicy names"),
    ("network-policy", (POLICY, "spec", "ingress"), [{"ports": [{"port": 8000}]}], "heavylift:network.from"),
    ("pod-security", (*POD, "automountServiceAccountToken"), REMOVED, "token of the API server"),
    ("pod-security", (*POD, "hostPID"), True, "sees the processes"),
    (
        "pod-security",
        (*POD, "volumes"),
        [{"name": "socket", "hostPath": {"path": "/run"}}],
        "mounts the directory 'socket'",
    ),
    ("pod-security", (*ENGINE, "securityContext", "privileged"), True, "runs engine privileged"),
    ("pod-security", (*ENGINE, "securityContext"), REMOVED, "lets engine gain rights"),
]


def changed(stack: Stack, path: Sequence[str | int], value: Any) -> Stack:
    """The stack with another value at a path, or without the key."""
    result = deepcopy(stack)
    place: Any = result
    for key in path[:-1]:
        place = place[key]
    if value is REMOVED:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return result


def resources(stack: Stack) -> list[Resource]:
    model = Resource(MODEL, "model", stack[MODEL])
    others = [Resource(kind, "server", values, parent=model) for kind, values in stack.items() if kind != MODEL]
    return [model, *others]


def violated(given: Sequence[Resource]) -> dict[str, list[str]]:
    """The sentences of each rule that is violated."""
    found = {rule.name: rule.violations(given, SETTINGS.get(rule.name)) for rule in RULES}
    return {name: [each.sentence for each in violations] for name, violations in found.items() if violations}


def test_a_good_stack_violates_nothing() -> None:
    assert violated(resources(GOOD)) == {}


@pytest.mark.parametrize(("rule", "path", "value", "sentence"), VIOLATIONS)
def test_one_change_violates_one_rule(rule: str, path: Sequence[str | int], value: Any, sentence: str) -> None:
    found = violated(resources(changed(GOOD, path, value)))
    found.pop("images-by-digest" if rule == "no-latest-image" else "", None)  # which follows from it
    (sentences,) = found.values()
    assert list(found) == [rule]
    assert sentence in sentences[0]
    assert "hidden" not in sentences[0]


def test_every_rule_has_a_violating_example() -> None:
    assert {rule for rule, *_ in VIOLATIONS} == {rule.name for rule in RULES}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ((*ENGINE, "args"), ["--api-key", "$(KEY)"]),
        ((*ENGINE, "env", 0), {"name": "VLLM_API_KEY", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}),
    ],
)
def test_a_server_that_asks_for_a_key_may_be_public(path: Sequence[str | int], value: Any) -> None:
    public = changed(GOOD, (SERVICE, "spec", "type"), "LoadBalancer")
    assert violated(resources(changed(public, path, value))) == {}


def test_a_device_plugin_is_excepted_by_name_in_kube_system_only() -> None:
    spec = {"containers": [{"name": "plugin", "image": f"plugin@{DIGEST}", "securityContext": {"privileged": True}}]}

    def daemon(name: str, namespace: str) -> Resource:
        metadata = {"name": name, "namespace": namespace}
        return Resource(
            "kubernetes:apps/v1:DaemonSet", name, {"metadata": metadata, "spec": {"template": {"spec": spec}}}
        )

    assert violated([daemon("nvidia-device-plugin-daemonset", "kube-system")]) == {}
    assert "pod-security" in violated([daemon("nvidia-device-plugin-daemonset", "default")])
    assert "pod-security" in violated([daemon("other", "kube-system")])


def on_a_group(stack: Stack) -> list[Resource]:
    """The stack's resources, with the stager as an init container of a DaemonSet instead of a Job's container."""
    spec = stack[JOB]["spec"]["template"]["spec"]
    wait = {key: value for key, value in STAGER.items() if key in ("image", "securityContext")} | {"name": "wait"}
    resident = template("stage", initContainers=spec["containers"], containers=[wait])
    others = {name: properties for name, properties in stack.items() if name != JOB}
    return resources({**others, "kubernetes:apps/v1:DaemonSet": {"spec": {"template": resident}}})


def test_a_daemon_set_that_stages_is_judged_as_a_job_is() -> None:
    assert violated(on_a_group(GOOD)) == {}
    revision = (JOB, "spec", "template", "spec", "containers", 0, "command", STAGER["command"].index(COMMIT))
    assert set(violated(on_a_group(changed(GOOD, revision, "main")))) == {"weights-pinned-by-commit"}


def test_an_equal_fact_is_said_once() -> None:
    tagged = changed(GOOD, (*ENGINE, "image"), "vllm:v1")
    tagged = changed(tagged, (*POD, "initContainers", 0, "image"), "vllm:v1")
    assert len(violated(resources(tagged))["images-by-digest"]) == 1


def test_without_a_ceiling_the_cost_is_nobody_s_concern() -> None:
    (rule,) = (rule for rule in RULES if rule.name == "cost-ceiling")
    assert rule.violations(resources(changed(GOOD, (MODEL, "plan", "cost_per_hour_usd"), None))) == []


def test_the_documentation_lists_every_rule_with_its_level() -> None:
    page = (PROGRAM / "docs" / "review.md").read_text()
    level = {True: "mandatory", False: "advisory"}
    for rule in RULES:
        assert f"| `{rule.name}` | {level[rule.is_mandatory]} | {rule.description} |" in page


def test_production_names_rules_that_there_are() -> None:
    levels = json.loads((PROGRAM / "policy" / "production.json").read_text())
    assert levels.keys() <= {rule.name for rule in RULES}
    assert set(levels.values()) == {"mandatory"}


GOLDEN = sorted((PROGRAM / "tests" / "golden").glob("*.up.json"))
UNPINNED = {
    "aws-b200",
    "aws-l4",
    "b200",
    "dev",
    "glm-5",
    "llama-3-1-8b",
    "minimax-m2-5",
    "qwen3-235b",
    "qwen3-32b",
    "qwen3-5-35b",
    "qwen3-5-397b",
}
"""Shipped stacks of which no commit is known: their files say so."""


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda file: file.name.split(".")[0])
def test_a_shipped_stack_violates_only_what_its_file_says(golden: Path) -> None:
    recorded = json.loads(golden.read_text())
    model = Resource(MODEL, "model", recorded["exports"])
    given = [
        Resource(each["type"], each["name"], each["inputs"], parent=model)
        for each in recorded["resources"]
        if each["type"] != MODEL
    ]
    expected = {"weights-locked", "images-by-digest", "full-verification", "network-policy"}
    if golden.name.split(".")[0] in UNPINNED:
        expected.add("weights-pinned-by-commit")
    assert violated([model, *given]).keys() - {"cost-ceiling"} == expected
