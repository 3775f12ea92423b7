"""From a stack file to a served model: `ServedModel` plans, checks the cluster, makes room, stages, serves, prunes."""

import components.startup  # noqa: F401

# isort: split
import json

import pulumi

from components.cluster.provider import cluster_provider
from components.served_model import ServedModel
from config.stack.from_pulumi import running_stack
from promotion.admission import admit_release

stack = running_stack()
admit_release(stack)
kubeconfig, context = json.dumps(stack.kubeconfig), stack.config.cluster.context

cluster = cluster_provider(kubeconfig, context)
served = ServedModel(
    "model",
    {
        "nodes": stack.sections.get("nodes", {}),
        "model": stack.sections["model"],
        "weights": stack.sections["weights"],
        "stage": stack.sections["stage"],
        "engine": stack.sections["engine"],
        "security": stack.sections.get("security", {}),
        "pod": stack.sections.get("pod", {}),
        "namespace": stack.config.cluster.namespace,
        "create_namespace": True,
        "kubeconfig": kubeconfig,
        "context": context,
        "hub_token": stack.hub_token,
        "service_name": stack.instance,
        "part_prefix": "",  # the names that weights, stage and server of a stack have always had
    },
    pulumi.ResourceOptions(provider=cluster),
)

pulumi.export("endpoint", served.endpoint)
pulumi.export("answered", served.answered)
pulumi.export("model", served.model)
pulumi.export("revision", served.revision)
pulumi.export("release", served.release)
pulumi.export("plan", served.plan)
