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
from config.stack.sections.nodes import Fabric, NodeKind, Nodes, PodNetwork
from config.stack.sections.pod import Security
from config.stack.sections.stage import Stage
from config.stack.sections.weights import Weights, WeightsKind


def contradictions(sections: Mapping[str, Any]) -> Iterator[str]:
    """Faults between keys of different objects, and with the catalogue: of every object without a fault of its own."""
    nodes = _sound(Nodes, sections.get("nodes", {}))
    weights = _sound(Weights, sections.get("weights"))
    stage = _sound(Stage, sections.get("stage"))
    security = _sound(Security, sections.get("security", {}))
    engine = _sound(Engine, sections.get("engine"))
    aws = _sound(Aws, sections.get("aws"))
    if security and weights:
        yield from _security_contradictions(security, weights)
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
    if stage:
        yield from _source_contradictions(stage)
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
        yield f"{key} with {len(nodes.names)} names in nodes.names: expected two or more, which share a download"
    if weights.kind is WeightsKind.CLAIM:
        yield f"{key} and weights.kind is claim: expected host-path, where each node has weights of its own"
    if stage.lock is None:
        yield f"{key} without stage.lock: expected a lock, by whose hashes the nodes judge what they get"


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
    if kind is WeightsKind.LOCAL and nodes.kind is NodeKind.BARE_METAL and (nodes.total != 1 or not nodes.names):
        yield (
            f"heavylift:weights.kind: 'local' with {len(nodes.names)} nodes: expected one name in nodes.names, "
            "since its claim ties every pod to one node; use host-path for several"
        )


def _security_contradictions(security: Security, weights: Weights) -> Iterator[str]:
    if weights.kind is WeightsKind.HOST_PATH and security.group is not None and security.user is None:
        yield (
            f"heavylift:security.group: {security.group} has no meaning for kind host-path without a user: expected "
            "heavylift:security.user too, or neither"
        )


def _source_contradictions(stage: Stage) -> Iterator[str]:
    if stage.native_xet and stage.sources[0] != "hub":
        yield (
            f"heavylift:stage.native_xet: is true, and the first of stage.sources is {stage.sources[0]}: expected hub "
            "first, since its client takes every file that it can"
        )
