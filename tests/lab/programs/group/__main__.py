"""Weights on a group of nodes that only a label describes, and a server unless GROUP says otherwise."""

import json
import os
from pathlib import Path

import pulumi

from components.arguments import Placement, WeightSource
from components.cluster.provider import cluster_provider
from components.inference_server import InferenceServer
from components.weight_stage import WeightStage
from config.engine_name import EngineName

group = json.loads(os.environ["GROUP"])
kubeconfig, context = Path(os.environ["HEAVYLIFT_KUBECONFIG"]).read_text(), os.environ["HEAVYLIFT_KUBE_CONTEXT"]
placement: Placement = {"nodes": group["nodes"], "node_selector": group["labels"]}
volume: WeightSource = {"host_path": group["path"]}

in_cluster = pulumi.ResourceOptions(provider=cluster_provider(kubeconfig, context))
stage = WeightStage(
    "stage",
    {
        "namespace": group["namespace"],
        "model": group["model"],
        "volume": volume,
        "placement": placement,
        "image": os.environ["HEAVYLIFT_STAGE_IMAGE"],
        "sources": group.get("sources", ["hub"]),
        "service_account": group.get("service_account"),
        "pod": group.get("pod", {}),
        "environment": {"HF_ENDPOINT": os.environ["HF_ENDPOINT"], **group.get("environment", {})},
        "deadline_seconds": 120,
        "await_seconds": group["await_seconds"],
        "kubeconfig": kubeconfig,
        "context": context,
    },
    in_cluster,
)
if group["serves"]:
    after = pulumi.ResourceOptions(depends_on=[stage, stage.staged])
    server = InferenceServer(
        "server",
        {
            "namespace": group["namespace"],
            "model": group["model"],
            "files_sha256": stage.files_sha256,
            "volume": volume,
            "placement": placement,
            "engine": {
                "name": EngineName.LLAMA_CPP,
                "image": os.environ["HEAVYLIFT_ENGINE_IMAGE"],
                "model_file": group["model_file"],
            },
            "limits": {"weights_seconds": 120, "await_seconds": 120, "startup_period_seconds": 1, "drain_seconds": 0},
            "verifier_image": os.environ["HEAVYLIFT_STAGE_IMAGE"],
            "kubeconfig": kubeconfig,
            "context": context,
        },
        pulumi.ResourceOptions.merge(in_cluster, after),
    )
    pulumi.export("answered", server.answered)
