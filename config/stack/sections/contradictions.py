"""Contradictions between keys of different sections."""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from config.stack.sections.aws import Aws
from config.stack.sections.aws_contradictions import (
    bare_metal_contradictions,
    cluster_contradictions,
    eks_contradictions,
    eks_weights_contradictions,
    group_contradictions,
    mirror_contradictions,
)
from config.stack.sections.engine import Engine
from config.stack.sections.fields import AnySection
from config.stack.sections.metrics import Metrics, metrics_contradictions
from config.stack.sections.nodes import Fabric, NodeKind, Nodes, PodNetwork
from config.stack.sections.pod import Security, SecurityProfile
from config.stack.sections.stage import Stage
from config.stack.sections.weights import Model, Weights, WeightsKind

_INSTEAD_OF_PLAIN_TEXT = {
    "HF_TOKEN": "`pulumi config set --secret heavylift:hub_token`",
    "AWS_SECRET_ACCESS_KEY": "a Secret that stage.secret names",
    "AWS_SESSION_TOKEN": "a Secret that stage.secret names",
}
"""Secrets that the stager reads from its environment, and where a stack keeps each."""


def contradictions(sections: Mapping[str, Any]) -> Iterator[str]:
    """Faults between keys of different objects, and with the catalogue: of every object without a fault of its own."""
    nodes = _sound(Nodes, sections.get("nodes", {}))
    weights = _sound(Weights, sections.get("weights"))
    stage = _sound(Stage, sections.get("stage"))
    security = _sound(Security, sections.get("security", {}))
    engine = _sound(Engine, sections.get("engine"))
    aws = _sound(Aws, sections.get("aws"))
    if security:
        yield from _security_contradictions(security, weights, nodes)
    if nodes:
        yield from _fabric_contradictions(nodes.fabric)
        yield from _place_contradictions(sections, nodes, aws)
    if aws and nodes and engine:
        yield from group_contradictions(aws, nodes, engine)
    if aws and stage:
        yield from mirror_contradictions(aws, stage)
    if nodes and weights:
        yield from _volume_contradictions(nodes, weights)
        if nodes.kind is NodeKind.EKS:
            yield from eks_weights_contradictions(weights, aws)
    yield from metrics_contradictions(_sound(Metrics, sections.get("metrics")), engine)
    model = _sound(Model, sections.get("model"))
    if stage:
        yield from _source_contradictions(stage)
        yield from _secrets_in_plain_text(stage)
    if model:
        yield from _draft_contradictions(model, stage, engine)
    if nodes and weights and stage:
        yield from _fan_out_contradictions(nodes, weights, stage)


def _place_contradictions(sections: Mapping[str, Any], nodes: Nodes, aws: Aws | None) -> Iterator[str]:
    """Faults of the nodes' kind with what is stated of AWS."""
    if nodes.kind is NodeKind.BARE_METAL:
        yield from bare_metal_contradictions(nodes, aws)
    elif "aws" not in sections or aws is not None:  # a fault of its own is reported already
        yield from eks_contradictions(sections["nodes"], nodes, aws)
    if aws is not None and isinstance(sections.get("cluster", {}), dict):
        yield from cluster_contradictions(aws, sections.get("cluster", {}))


def _fan_out_contradictions(nodes: Nodes, weights: Weights, stage: Stage) -> Iterator[str]:
    key = "heavylift:stage.fan_out: is true"
    if not stage.fan_out:
        if stage.node_bandwidth and (stage.fan_out is False or not may_fan_out(nodes, weights, stage)):
            yield (
                f"heavylift:stage.node_bandwidth: '{stage.node_bandwidth}' has no meaning where nodes do not share a "
                "download: expected it to be left out"
            )
        return
    if nodes.kind is NodeKind.EKS:
        yield f"{key}, and nodes of kind eks cannot share a download: expected it to be left out; use aws.mirror"
    elif len(nodes.names) < 2:
        yield f"{key} and nodes.names has {len(nodes.names)}: expected two or more, which share a download"
    if weights.kind is WeightsKind.CLAIM:
        yield f"{key} and weights.kind is claim: expected host-path, where each node has weights of its own"
    if stage.lock is None:
        yield f"{key} without stage.lock: expected a lock, by whose hashes the nodes judge what they get"


def _secrets_in_plain_text(stage: Stage) -> Iterator[str]:
    for name, place in _INSTEAD_OF_PLAIN_TEXT.items():
        if name in stage.environment:
            yield f"heavylift:stage.environment.{name}: is in plain text: expected {place}"


def may_fan_out(nodes: Nodes, weights: Weights, stage: Stage) -> bool:
    """Whether the nodes can share one download: several named nodes, each with weights of its own, and a lock."""
    return len(nodes.names) > 1 and weights.kind is not WeightsKind.CLAIM and stage.lock is not None


def _sound(section: type[AnySection], values: Any) -> AnySection | None:
    try:
        return section.model_validate(values)
    except ValidationError:
        return None


def _fabric_contradictions(fabric: Fabric | None) -> Iterator[str]:
    if fabric and fabric.network is PodNetwork.HOST and fabric.interface is None:
        yield (
            "heavylift:nodes.fabric.interface: is missing: network 'host' expects the name of the nodes' interface, "
            "such as bond0"
        )


def _volume_contradictions(nodes: Nodes, weights: Weights) -> Iterator[str]:
    kind = weights.kind
    if kind is WeightsKind.CLAIM and weights.path is not None:
        yield f"heavylift:weights.path: '{weights.path}' has no meaning for kind claim: expected it to be left out"
    if kind is not WeightsKind.CLAIM and not (weights.path or nodes.nvme_path):
        yield (
            f"heavylift:weights.path: is missing: kind {kind} expects a directory here or in heavylift:nodes.nvme_path"
        )
    if weights.cache and kind is WeightsKind.CLAIM and nodes.total > 1:
        yield (
            f"heavylift:weights.cache: is true, and the servers of {nodes.total} nodes would write to one claim: "
            "expected it to be left out, or kind local or host-path, where each node has a directory of its own"
        )
    if kind is WeightsKind.LOCAL and nodes.kind is NodeKind.BARE_METAL and not nodes.names:
        yield (
            "heavylift:weights.kind: 'local' without nodes.names: expected the names of the nodes, since each has a "
            "volume of its own, or kind host-path"
        )


def _security_contradictions(security: Security, weights: Weights | None, nodes: Nodes | None) -> Iterator[str]:
    yield from _profile_contradictions(security, weights, nodes)
    on_nodes = weights is not None and weights.kind is WeightsKind.HOST_PATH
    if on_nodes and security.group is not None and security.user is None:
        yield (
            f"heavylift:security.group: {security.group} has no meaning for kind host-path without a user: expected "
            "heavylift:security.user too, or neither"
        )


def _draft_contradictions(model: Model, stage: Stage | None, engine: Engine | None) -> Iterator[str]:
    draft = model.draft
    if draft is None:
        if stage and stage.draft_lock is not None:
            yield (
                f"heavylift:stage.draft_lock: '{stage.draft_lock}' has no meaning without heavylift:model.draft: "
                "expected both or neither"
            )
        return
    if engine and engine.speculative_tokens is None:
        yield (
            "heavylift:engine.speculative_tokens: is missing: heavylift:model.draft expects the number of tokens to "
            "draft at a time, such as 3"
        )
    if (draft.repository, draft.revision) == (model.repository, model.revision):
        yield f"heavylift:model.draft: '{draft.repository}' is the served model itself: expected a smaller model"


def _profile_contradictions(security: Security, weights: Weights | None, nodes: Nodes | None) -> Iterator[str]:
    """What a stated profile refuses. One that is left out allows each of these."""
    profile = security.profile
    key = f"heavylift:security.profile: '{profile}'"
    if profile is SecurityProfile.RESTRICTED and security.user == 0:
        yield f"{key} does not allow security.user 0: expected another user, or the profile to be left out"
    if profile not in (SecurityProfile.RESTRICTED, SecurityProfile.BASELINE):
        return
    if weights and weights.kind is WeightsKind.HOST_PATH:
        yield (
            f"{key} does not allow the hostPath volume of weights.kind host-path: expected local or claim, or the "
            "profile to be left out, by which the server has all of restricted but the volume"
        )
    if nodes and nodes.fabric and nodes.fabric.network is PodNetwork.HOST:
        yield f"{key} does not allow nodes.fabric.network 'host': expected 'pod', or the profile to be left out"


def _source_contradictions(stage: Stage) -> Iterator[str]:
    if stage.native_xet and stage.sources[0] != "hub":
        yield (
            f"heavylift:stage.native_xet: is true, and the first of stage.sources is {stage.sources[0]}: expected hub "
            "first, since its client takes every file that it can"
        )
