"""Runs the whole program against the recording engine and a described cluster."""

import json
import runpy
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from components.aws.account import preflight as aws_preflight
from components.aws.account.facts import AccountFacts
from components.cluster import facts as cluster_facts
from components.cluster.api import ClusterApi, ClusterUnreachable
from components.cluster.facts import ClusterFacts, NodeFacts
from components.metrics.selection import Monitoring
from components.network.exposure import Gateways
from components.pods.placement import HOSTNAME_LABEL
from components.rollout import daemon_set_watch, launch_watch, server_watch, stage_watch, staged_files
from config.catalogue import find_gpu
from config.stack.file import NAMESPACE, read_sections, stack_file
from config.stack.sections import StackConfig
from promotion import admission
from promotion.history import Update
from tests.recording_engine import Recording, record

CLUSTER_IDENTIFIER = "5f0c7a44-6a55-4d52-9f0d-8d2a6a1f0c11"
PROGRAM = Path(__file__).parent.parent
OVERRIDES = ("HEAVYLIFT_STAGE_IMAGE", "HEAVYLIFT_ENGINE_IMAGE", "HF_ENDPOINT")


def fit_cluster(stack: StackConfig) -> ClusterFacts:
    """Returns a cluster with exactly what a stack needs, with one node if the stack names none."""
    nodes = stack.nodes
    allocatable = {find_gpu(nodes.gpu).vendor.resource: str(nodes.gpus_per_node)} if nodes.gpu else {}
    if nodes.fabric:
        allocatable[nodes.fabric.resource] = str(nodes.fabric.count)
    return ClusterFacts(
        nodes=[
            NodeFacts(name, labels={HOSTNAME_LABEL: name}, allocatable=allocatable)
            for name in nodes.names or ["only-node"]
        ],
        leader_worker_sets=True,
        monitoring=Monitoring(has_api=True),
        gateways=Gateways(has_api=True, found=True),
        storage_classes={
            "standard": True,
            **({stack.weights.storage_class: False} if stack.weights.storage_class else {}),
        },
    )


FILES_SHA256 = "5" * 64
"""What the stager reports of its files, where no lock lists them."""


async def serves_at_once(*_: object) -> str:
    """Replaces the wait for a server."""
    return "yes"


async def done_at_once(*_: object) -> None:
    """Replaces the wait for Jobs, and the check that Jobs and server still exist."""


class NoStacks:
    """Replaces the engine's records: no stack was ever taken up."""

    def updates(self, _stack: str) -> Iterator[Update]:
        return iter(())

    def outputs(self, _stack: str) -> Mapping[str, Any]:
        return {}


def await_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treats Jobs and servers as complete when the program creates them."""
    monkeypatch.setattr(launch_watch, "wait_until_launched", done_at_once)
    monkeypatch.setattr(stage_watch, "wait_until_staged", done_at_once)
    monkeypatch.setattr(stage_watch, "warn_if_gone", done_at_once)
    monkeypatch.setattr(daemon_set_watch, "wait_until_staged", done_at_once)
    monkeypatch.setattr(daemon_set_watch, "warn_if_gone", done_at_once)
    monkeypatch.setattr(staged_files, "reported", lambda *_: FILES_SHA256)
    monkeypatch.setattr(server_watch, "wait_until_ready", serves_at_once)
    monkeypatch.setattr(server_watch, "warn_if_gone", done_at_once)


def run_program(
    monkeypatch: pytest.MonkeyPatch,
    stack: str,
    *,
    preview: bool = False,
    sections: Mapping[str, Any] | None = None,
    cluster: ClusterFacts | ClusterUnreachable | None = None,
    hub_token: str | None = None,
    api_key: str | None = None,
    secret: bool = True,
    account: AccountFacts | None = None,
    into: Recording | None = None,
) -> Recording:
    """Runs a preview or update of a stack, by default with its own file and on a cluster that fits."""
    sections = read_sections(stack_file(stack, PROGRAM)) if sections is None else sections
    values = {
        f"{NAMESPACE}{key}": value if isinstance(value, str) else json.dumps(value) for key, value in sections.items()
    }
    given = {f"{NAMESPACE}hub_token": hub_token, f"{NAMESPACE}api_key": api_key}
    secrets = {key: value for key, value in given.items() if value is not None}

    def described(*_: object, **__: object) -> ClusterFacts:
        if isinstance(cluster, ClusterUnreachable):
            raise cluster
        return cluster or fit_cluster(StackConfig.parse(sections))

    def identified(*_: object, **__: object) -> dict[str, Any]:
        if isinstance(cluster, ClusterUnreachable):
            raise cluster
        return {"metadata": {"uid": CLUSTER_IDENTIFIER}}

    monkeypatch.chdir(PROGRAM)
    monkeypatch.setattr(cluster_facts, "read_cluster", described)
    monkeypatch.setattr(ClusterApi, "read", identified)
    monkeypatch.setattr(aws_preflight, "checked_account", lambda *_: account or AccountFacts())
    await_nothing(monkeypatch)
    monkeypatch.setattr(admission, "EngineRecords", NoStacks)
    monkeypatch.setenv("HEAVYLIFT_KUBECONFIG", "tests/kubeconfig.yaml")
    monkeypatch.setenv("HEAVYLIFT_KUBE_CONTEXT", "test")
    for variable in OVERRIDES:
        monkeypatch.delenv(variable, raising=False)
    return record(
        lambda: runpy.run_path(str(PROGRAM / "__main__.py")),
        preview=preview,
        stack=stack,
        config=values | secrets,
        secret_keys=list(secrets) if secret else [],
        into=into,
    )
