"""The `heavylift:` keys of a stack file as frozen models.

Every value is validated first. Unknown keys are refused. All errors are reported at once, each with key, value and what
was expected. Does not import Pulumi, so that the planner and the JSON schema can use it.
"""

from collections.abc import Mapping
from typing import Any, Self

from pydantic import ValidationError

from config.errors import StackError, sentences
from config.stack.sections.aws import Aws, AwsMirror, EksChoice, NewEksCluster
from config.stack.sections.contradictions import contradictions, may_fan_out
from config.stack.sections.eks_nodes import Capacity
from config.stack.sections.engine import EncoderMode, Engine
from config.stack.sections.fields import Section
from config.stack.sections.metrics import Metrics, MetricsKind
from config.stack.sections.network import Expose, Network
from config.stack.sections.nodes import (
    Cluster,
    Fabric,
    FabricKind,
    GpuDirect,
    Installation,
    NodeKind,
    Nodes,
    PodNetwork,
    Taint,
    TaintEffect,
)
from config.stack.sections.pod import Pod, PodSettings, Security, SecurityProfile
from config.stack.sections.promotion import Promotion
from config.stack.sections.stage import Stage
from config.stack.sections.weights import Model, StagedRepository, Verification, Weights, WeightsKind

__all__ = [
    "Aws",
    "AwsMirror",
    "Capacity",
    "Cluster",
    "EksChoice",
    "EncoderMode",
    "Engine",
    "Expose",
    "Fabric",
    "FabricKind",
    "GpuDirect",
    "Installation",
    "Metrics",
    "MetricsKind",
    "Model",
    "Network",
    "NewEksCluster",
    "NodeKind",
    "Nodes",
    "Pod",
    "PodNetwork",
    "PodSettings",
    "Promotion",
    "Section",
    "Security",
    "SecurityProfile",
    "StackConfig",
    "Stage",
    "StagedRepository",
    "Taint",
    "TaintEffect",
    "Verification",
    "Weights",
    "WeightsKind",
]


MIRROR_ACCOUNT = "heavylift-stager"
"""Service account that may read the mirror in S3."""


class StackConfig(Section):
    """All `heavylift:` keys of one stack, but for the secrets `hub_token` and `api_key`."""

    cluster: Cluster = Cluster()
    """The Kubernetes cluster."""
    aws: Aws | None = None
    """The part of AWS with the nodes; unset: the nodes are not in AWS."""
    nodes: Nodes = Nodes()
    """The nodes that stage and serve."""
    model: Model
    """The weights."""
    weights: Weights
    """The volume of the weights."""
    stage: Stage
    """The Job that downloads and verifies the weights."""
    engine: Engine
    """The inference server."""
    security: Security = Security()
    """The user and rights of all pods."""
    network: Network = Network()
    """Who may call the server, and what its pods may reach."""
    pod: Pod = Pod()
    """Additions to the pods."""
    metrics: Metrics | None = None
    """Prometheus metrics, alerts and a dashboard; unset: nothing is made for them."""
    expose: Expose | None = None
    """The paths that a Gateway of the cluster forwards to the server; unset: none."""
    promotion: Promotion = Promotion()
    """The stack that runs a release before this one."""

    @classmethod
    def parse(cls, sections: Mapping[str, Any]) -> Self:
        """The checked configuration from plain values, as a stack file has them, without the `heavylift:` prefix.

        Raises StackError with every fault.
        """
        faults: list[str] = []
        try:
            stack = cls.model_validate(sections)
        except ValidationError as error:
            faults += sentences(error, cls)
        faults += contradictions(sections)
        if faults:
            raise StackError(faults)
        return stack

    @property
    def weights_path(self) -> str | None:
        """Directory on the nodes under which weights are staged; None for a claim."""
        return None if self.weights.kind is WeightsKind.CLAIM else self.weights.path or self.nodes.nvme_path

    @property
    def stage_account(self) -> str | None:
        """Service account of the stager; None: the namespace's default. A mirror on AWS comes with one."""
        in_aws = self.aws is not None and self.aws.mirror is not None
        return MIRROR_ACCOUNT if in_aws else self.stage.service_account

    @property
    def fan_out(self) -> bool:
        """Whether the nodes share one download."""
        if self.stage.fan_out is not None:
            return self.stage.fan_out
        return may_fan_out(self.nodes, self.weights, self.stage)

    @property
    def staging_nodes(self) -> int:
        """How many nodes bring the weights over the site's line, each to a volume of its own."""
        return 1 if self.weights.kind is WeightsKind.CLAIM else self.nodes.total
