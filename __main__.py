"""From a stack file to a served model: plan, look at the cluster, make room, stage, serve, prune."""

# ruff: noqa: E402
import gc

gc.disable()  # Imports leave nothing to collect, and looking for it was a fifth of the time that they take.

import json

import pulumi
from pulumi_kubernetes import Provider

from components.bare_metal_gpu_nodes import BareMetalGpuNodes
from components.cluster.api import ClusterApi
from components.cluster.preflight import preflight
from components.inference_server import InferenceServer
from components.namespace import stack_namespace
from components.pods.names import object_name
from components.pods.placement import PodPlacement
from components.pods.serving import Serving
from components.pods.staged_weights import StagedWeights
from components.pods.weight_source import placed_volumes
from components.verdict import judged_plan
from components.weight_prune import WeightPrune
from components.weight_stage import WeightStage
from components.weight_volume import WeightVolume
from config.catalogue import find_gpu
from config.stack.from_pulumi import running_stack
from config.stack.sections import Verification
from planner import time_limits
from planner.stack_request import request_of_stack

gc.freeze()
gc.enable()

stack = running_stack()
config = stack.config
weights = StagedWeights(config.model, stack.digest)

plan = judged_plan(request_of_stack(config, stack.lock))
limits = time_limits(plan, full_verification=config.weights.verify is Verification.FULL)
serving = Serving.of(plan, limits, config.engine.replicas)
api = ClusterApi(stack.kubeconfig)
found = preflight(stack.instance, object_name("weights"), config, api, plan.volume_bytes, serving)

cluster = Provider(
    "cluster",
    kubeconfig=pulumi.Output.secret(json.dumps(stack.kubeconfig)),
    context=config.cluster.context,
    cluster_identifier=found.cluster_identifier,
    enable_server_side_apply=True,
    # Changed in place, a program or a token in the cluster replaces neither Job nor server.
    enable_config_map_mutable=True,
    enable_secret_mutable=True,
)
in_cluster = pulumi.ResourceOptions(provider=cluster)
namespace = stack_namespace(stack.instance, config.cluster.namespace, found, in_cluster)

sections = stack.sections
nodes = BareMetalGpuNodes(
    "nodes",
    {
        "hostnames": config.nodes.names,
        "gpu_resource": find_gpu(config.nodes.gpu).vendor.resource if config.nodes.gpu else None,
        "taints": sections.get("nodes", {}).get("taints", []),
        "fabric": sections.get("nodes", {}).get("fabric"),
        "nvme_path": config.nodes.nvme_path,
    },
    in_cluster,
)
volume = WeightVolume(
    "weights",
    {
        "kind": config.weights.kind,
        "namespace": config.cluster.namespace,
        "path": config.weights_path,
        "size_bytes": plan.volume_bytes,
        "storage_class": config.weights.storage_class,
        "retain": config.weights.retain,
        "placement": nodes.placement,
        "shared": serving.pods > 1,
        "adopt": found.adopt_claim,
    },
    pulumi.ResourceOptions(provider=cluster, depends_on=namespace),
)
stage = WeightStage(
    "stage",
    {
        "namespace": config.cluster.namespace,
        "model": sections["model"],
        "lock": stack.lock.text if stack.lock else None,
        "volume": volume.source,
        "placement": nodes.placement,
        "image": config.stage.image,
        "sources": config.stage.sources,
        "native_xet": config.stage.native_xet,
        "environment": config.stage.environment,
        "secret": config.stage.secret,
        "service_account": config.stage.service_account,
        "hub_token": stack.hub_token,
        "owner": stack.instance,
        "deadline_seconds": limits.stage_deadline_seconds,
        "await_seconds": limits.stage_await_seconds,
    },
    pulumi.ResourceOptions(provider=cluster, depends_on=[*namespace, nodes, volume]),
)
placement = PodPlacement.of(nodes.placement)
server = InferenceServer(
    "server",
    {
        "instance": stack.instance,
        "namespace": config.cluster.namespace,
        "weights": weights,
        "volume": placed_volumes(volume.source, placement)[0],
        "placement": placement,
        "engine": config.engine,
        "model_file": plan.model_file,
        "serving": serving,
        "verifier_image": config.stage.image,
        "verify": config.weights.verify,
        "api": api,
    },
    pulumi.ResourceOptions(provider=cluster, depends_on=[stage]),
)
if config.weights.keep_newest:
    WeightPrune(
        "prune",
        {
            "namespace": config.cluster.namespace,
            "model": sections["model"],
            "lock": stack.lock.text if stack.lock else None,
            "keep_newest": config.weights.keep_newest,
            "volume": volume.source,
            "placement": nodes.placement,
            "image": config.stage.image,
            "program": stage.program,
            "owner": stage.owner,
        },
        pulumi.ResourceOptions(provider=cluster, depends_on=[server]),
    )

pulumi.export("endpoint", server.endpoint)
pulumi.export("model", config.model.repository)
pulumi.export("revision", config.model.revision)
pulumi.export("plan", plan.as_dict())
