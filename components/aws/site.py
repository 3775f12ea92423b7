"""AWS for one stack: the cluster that it makes or names, its GPU nodes, device plugins and mirror."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_aws as aws
from pulumi_kubernetes import Provider

from components.aws.account import preflight
from components.aws.device_plugins import DevicePlugins
from components.aws.eks_cluster import EksCluster
from components.aws.eks_gpu_nodes import EksGpuNodes, group_name
from components.aws.eks_network import EksNetwork
from components.aws.kubeconfig import TOKEN_COMMAND, kubeconfig
from components.aws.replaced_nodes import refuse_replacement
from components.aws.stack_tag import STACK_TAG
from components.aws.weight_mirror import WeightMirror
from components.planned.verdict import accepted_plan
from components.pods.names import stack_name
from components.site import Site
from config.catalogue import control_plane_zones
from config.stack import sections
from config.stack.from_pulumi import RunningStack
from config.stack.sections.aws_contradictions import mirror_prefixes
from planner.stack_request import request_of_stack

_GROUP = "nodes"


@dataclass(frozen=True)
class _Cluster:
    """An EKS cluster, made or found."""

    name: pulumi.Output[str]
    arn: pulumi.Output[str]
    kubeconfig: pulumi.Output[str]
    security_group: pulumi.Output[str]
    vpc: pulumi.Output[str]
    subnet: pulumi.Output[str]
    """Private subnet in the zone of the GPU nodes."""


def aws_site(stack: RunningStack, place: sections.Aws) -> Site:
    """Makes what the stack needs in AWS. Raises pulumi.RunError, before it makes anything, if plan or account are not
    fit."""
    request = request_of_stack(stack.config, stack.lock, stack.draft_lock)
    plan = accepted_plan(request)
    account = preflight.checked_account(stack.config, place, request, plan)
    nodes = stack.config.nodes
    efa = nodes.fabric is not None and plan.pods.nodes_per_server > 1
    refuse_replacement(group_name(_GROUP, nodes.capacity), nodes, plan, efa=efa)
    options = pulumi.ResourceOptions(provider=_provider(place.region))
    cluster = _made(place, nodes, options) if place.makes_cluster else _found(place, nodes, options)
    group = EksGpuNodes(
        _GROUP,
        {
            "cluster_name": cluster.name,
            "vpc_id": cluster.vpc,
            "subnet_id": cluster.subnet,
            "security_group_id": cluster.security_group,
            "instance_type": nodes.instance_type or "",
            "count": nodes.total,
            "capacity": stack.sections["nodes"].get("capacity", {}),
            "efa": efa,
            "placement_group": account.reservation.placement_group if account.reservation else None,
            "region": place.region,
        },
        options,
    )
    provider = Provider(
        "cluster",
        kubeconfig=cluster.kubeconfig,
        cluster_identifier=cluster.arn,
        enable_server_side_apply=True,
        enable_config_map_mutable=True,
        enable_secret_mutable=True,
    )
    # Of another name for the next reservation: the old nodes keep their plugins until the server has left them.
    plugins = DevicePlugins(
        group_name("device-plugins", nodes.capacity),
        {"region": place.region, "node_selector": group.labels, "taint": nodes.taints[0].key, "efa": efa},
        pulumi.ResourceOptions(provider=provider),
    )
    mirror = _mirror(stack.config, place, cluster, options)
    made: list[pulumi.Input[pulumi.Resource]] = [group, group.launched, plugins]
    made += [mirror] if mirror else []
    return Site(
        provider,
        cluster.kubeconfig,
        None,
        group.placement,
        made,
        mirror.bucket if mirror else None,
        account.reservation.end if account.reservation else None,
    )


def _provider(region: str) -> aws.Provider:
    return aws.Provider("aws", region=region, default_tags={"tags": {STACK_TAG: stack_name()}})


def _made(place: sections.Aws, nodes: sections.Nodes, options: pulumi.ResourceOptions) -> _Cluster:
    """Makes network and cluster. The GPU nodes' subnet is one of the network's, though EKS may not take its zone."""
    zone = nodes.zone or ""
    control_plane = control_plane_zones(place.region, zone)
    zones = list(dict.fromkeys([zone, *control_plane]))
    network = EksNetwork("network", {"region": place.region, "zones": zones, "cidr": place.cidr}, options)
    new = place.cluster.create or sections.NewEksCluster()
    made = EksCluster(
        "eks",
        {
            "region": place.region,
            "version": new.version,
            "subnet_ids": [network.subnets[each] for each in control_plane],
            "public_access_cidrs": list(place.public_access_cidrs),
            "admins": list(new.admins),
        },
        options,
    )
    return _Cluster(
        made.cluster_name,
        made.cluster_arn,
        made.kubeconfig,
        made.security_group_id,
        network.vpc_id,
        network.subnets[zone],
    )


def _found(place: sections.Aws, nodes: sections.Nodes, options: pulumi.ResourceOptions) -> _Cluster:
    """Looks up a cluster that exists, and its subnet in the zone of the GPU nodes."""
    ask = pulumi.InvokeOutputOptions(provider=options.provider)
    found = aws.eks.get_cluster_output(name=place.cluster.name or "", opts=ask)
    subnets = aws.ec2.get_subnets_output(
        filters=found.vpc_config.subnet_ids.apply(
            lambda ids: [
                {"name": "subnet-id", "values": ids},
                {"name": "availability-zone-id", "values": [nodes.zone or ""]},
            ]
        ),
        opts=ask,
    )
    text = pulumi.Output.all(found.endpoint, found.certificate_authorities[0].data, found.name, place.region).apply(
        lambda of: kubeconfig(of[0], of[1], of[2], of[3], TOKEN_COMMAND)
    )
    return _Cluster(
        found.name,
        found.arn,
        text,
        found.vpc_config.cluster_security_group_id,
        found.vpc_config.vpc_id,
        subnets.ids.apply(_only_subnet),
    )


def _only_subnet(found: list[str]) -> str:
    if not found:
        raise pulumi.RunError("heavylift:nodes.zone: the cluster has no subnet in this zone; nothing was created")
    return sorted(found)[0]


def _mirror(
    config: sections.StackConfig, place: sections.Aws, cluster: _Cluster, options: pulumi.ResourceOptions
) -> WeightMirror | None:
    if place.mirror is None:
        return None
    bucket = place.mirror.bucket
    return WeightMirror(
        "mirror",
        {
            "cluster_name": cluster.name,
            "namespace": config.cluster.namespace,
            "service_account": config.stage_account or "",
            "bucket": bucket,
            "prefixes": mirror_prefixes(bucket, config.stage) if bucket else (),
        },
        options,
    )
