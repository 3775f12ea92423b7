"""From a stack file to a served model: `ServedModel` plans, checks the cluster, makes room, stages, serves, prunes.

In AWS, the stack's cluster and GPU nodes are made first.
"""

import components.startup

# isort: split
import pulumi

from components.served_model import ServedModel, ServedModelArgs
from components.site import site_of
from config.stack.from_pulumi import running_stack
from promotion.admission import admit_release

components.startup.imported()
stack = running_stack()
admit_release(stack)
site = site_of(stack)
arguments: ServedModelArgs = {
    "nodes": stack.sections.get("nodes", {}),
    "model": stack.sections["model"],
    "weights": stack.sections["weights"],
    "stage": stack.sections["stage"],
    "engine": stack.sections["engine"],
    "security": stack.sections.get("security", {}),
    "network": stack.sections.get("network", {}),
    "pod": stack.sections.get("pod", {}),
    "namespace": stack.config.cluster.namespace,
    "create_namespace": True,
    "kubeconfig": site.kubeconfig,
    "context": site.context,
    "hub_token": stack.hub_token,
    "api_key": stack.api_key,
    "service_name": stack.instance,
    "part_prefix": "",  # the names that weights, stage and server of a stack have always had
}
if site.placement is not None and "aws" in stack.sections:
    arguments |= {"aws": stack.sections["aws"], "placement": site.placement}
if "expose" in stack.sections:
    arguments["expose"] = stack.sections["expose"]
if "metrics" in stack.sections:
    arguments["metrics"] = stack.sections["metrics"]
if site.ends is not None:
    arguments["capacity_ends"] = site.ends.isoformat()
served = ServedModel("model", arguments, pulumi.ResourceOptions(provider=site.provider, depends_on=site.made))

pulumi.export("endpoint", served.endpoint)
pulumi.export("answered", served.answered)
pulumi.export("model", served.model)
pulumi.export("revision", served.revision)
pulumi.export("release", served.release)
pulumi.export("plan", served.plan)
if site.mirror is not None:
    pulumi.export("mirror", site.mirror)
