"""An EKS cluster with its add-ons and two system nodes. Access goes by EKS' own API; secrets are encrypted."""

from collections.abc import Mapping, Sequence
from typing import NotRequired, TypedDict

import pulumi
import pulumi_aws as aws

from components.arguments import whole_numbers
from components.aws.kubeconfig import TOKEN_COMMAND, kubeconfig
from components.aws.roles import NODE_POLICIES, role
from config.catalogue import SYSTEM_NODES, SYSTEM_TYPE

_BEFORE_NODES: Mapping[str, str | None] = {
    "vpc-cni": '{"enableNetworkPolicy":"true"}',
    "kube-proxy": None,
    "eks-pod-identity-agent": None,
}
"""Add-ons that nodes need to become ready, with their configuration."""

_AFTER_NODES = ("coredns", "eks-node-monitoring-agent")
"""Add-ons whose pods need a node, and which wait for one."""

_ADMIN_POLICY = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"


class EksClusterArgs(TypedDict):
    """The arguments of `EksCluster`."""

    region: str
    """Region, such as `us-east-2`."""
    version: str
    """Version of Kubernetes, such as `1.35`."""
    subnet_ids: pulumi.Input[Sequence[pulumi.Input[str]]]
    """IDs of private subnets in two zones."""
    public_access_cidrs: NotRequired[Sequence[str]]
    """Address ranges from which the API server answers. Unset: only from within the network."""
    admins: NotRequired[Sequence[str]]
    """ARNs of IAM roles and users that administer the cluster, besides the one that makes it."""
    token_command: NotRequired[Sequence[str]]
    """Credential plugin of the kubeconfig; gets region and cluster as arguments. Unset: the program's own."""


class EksCluster(pulumi.ComponentResource):
    """An EKS cluster, its add-ons and two nodes without GPUs for what the cluster itself runs."""

    cluster_name: pulumi.Output[str]
    """Name of the cluster."""
    cluster_arn: pulumi.Output[str]
    """ARN of the cluster, which tells it from another of that name."""
    security_group_id: pulumi.Output[str]
    """ID of the security group that lets nodes and control plane reach one another."""
    kubeconfig: pulumi.Output[str]
    """Text of a kubeconfig whose credential plugin signs tokens. It contains no secret and no path of a machine."""

    def __init__(self, name: str, args: EksClusterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("heavylift:index:EksCluster", name, {}, opts)
        self._name, self._args = name, whole_numbers(args)
        cluster = self._cluster()
        self.cluster_name, self.cluster_arn = cluster.name, cluster.arn
        self.security_group_id = cluster.vpc_config.cluster_security_group_id
        self._admit()
        addons = [self._addon(addon, configuration, []) for addon, configuration in _BEFORE_NODES.items()]
        nodes = self._system_nodes(addons)
        for addon in _AFTER_NODES:
            self._addon(addon, None, [nodes])
        self.kubeconfig = pulumi.Output.all(
            cluster.endpoint, cluster.certificate_authority.data, cluster.name, self._args["region"]
        ).apply(lambda of: kubeconfig(of[0], of[1], of[2], of[3], self._args.get("token_command") or TOKEN_COMMAND))
        outputs = ("cluster_name", "cluster_arn", "security_group_id", "kubeconfig")
        self.register_outputs({output: getattr(self, output) for output in outputs})

    def _cluster(self) -> aws.eks.Cluster:
        made, attached = role(self._name, "eks.amazonaws.com", ["AmazonEKSClusterPolicy"], self)
        ranges = self._args.get("public_access_cidrs") or []
        return aws.eks.Cluster(
            self._name,
            role_arn=made.arn,
            version=self._args["version"],
            bootstrap_self_managed_addons=False,
            enabled_cluster_log_types=["api", "audit", "authenticator"],
            access_config={"authentication_mode": "API", "bootstrap_cluster_creator_admin_permissions": True},
            upgrade_policy={"support_type": "STANDARD"},
            encryption_config={"provider": {"key_arn": self._key()}, "resources": ["secrets"]},
            vpc_config={
                "subnet_ids": self._args["subnet_ids"],
                "endpoint_private_access": True,
                "endpoint_public_access": bool(ranges),
                "public_access_cidrs": ranges or None,
            },
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=attached,
                custom_timeouts=pulumi.CustomTimeouts(create="30m", update="60m", delete="30m"),
            ),
        )

    def _key(self) -> pulumi.Output[str]:
        """Makes the key of the cluster's Secrets. After `pulumi destroy` it waits 30 days to be deleted."""
        return aws.kms.Key(
            f"{self._name}-secrets",
            description="Secrets of an EKS cluster",
            enable_key_rotation=True,
            deletion_window_in_days=30,
            opts=pulumi.ResourceOptions(parent=self),
        ).arn

    def _admit(self) -> None:
        for number, admin in enumerate(self._args.get("admins") or ()):
            entry = aws.eks.AccessEntry(
                f"{self._name}-admin-{number}",
                cluster_name=self.cluster_name,
                principal_arn=admin,
                type="STANDARD",
                opts=pulumi.ResourceOptions(parent=self),
            )
            aws.eks.AccessPolicyAssociation(
                f"{self._name}-admin-{number}",
                cluster_name=self.cluster_name,
                principal_arn=entry.principal_arn,
                policy_arn=_ADMIN_POLICY,
                access_scope={"type": "cluster"},
                opts=pulumi.ResourceOptions(parent=self),
            )

    def _addon(self, addon: str, configuration: str | None, after: Sequence[pulumi.Resource]) -> aws.eks.Addon:
        return aws.eks.Addon(
            f"{self._name}-{addon}",
            cluster_name=self.cluster_name,
            addon_name=addon,
            configuration_values=configuration,
            resolve_conflicts_on_create="OVERWRITE",
            opts=pulumi.ResourceOptions(parent=self, depends_on=after),
        )

    def _system_nodes(self, after: Sequence[pulumi.Resource]) -> aws.eks.NodeGroup:
        made, attached = role(f"{self._name}-system", "ec2.amazonaws.com", NODE_POLICIES, self)
        return aws.eks.NodeGroup(
            f"{self._name}-system",
            cluster_name=self.cluster_name,
            node_role_arn=made.arn,
            subnet_ids=self._args["subnet_ids"],
            instance_types=[SYSTEM_TYPE],
            ami_type="AL2023_x86_64_STANDARD",
            scaling_config={"min_size": SYSTEM_NODES, "max_size": SYSTEM_NODES + 1, "desired_size": SYSTEM_NODES},
            update_config={"max_unavailable": 1},
            opts=pulumi.ResourceOptions(
                parent=self, depends_on=[*after, *attached], ignore_changes=["scalingConfig.desiredSize"]
            ),
        )
