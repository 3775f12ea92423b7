"""Clusters, their versions, tags and updates."""

from collections.abc import Mapping
from typing import Any

from moto.core.responses import ActionResult, EmptyResult

from lab.aws.server.cluster import CLUSTER
from lab.aws.server.eks.base import EKSOperations, now
from lab.aws.server.eks.entries import add_admin
from lab.aws.server.refusal import refuse
from lab.aws.server.store import Record, identifier

VERSIONS = ("1.36", "1.35", "1.34", "1.33")
"""Versions in standard support (github.com/awsdocs/amazon-eks-user-guide, kubernetes-versions, autumn 2026)."""
DEFAULT_VERSION = "1.35"
CLUSTER_POLICY = "AmazonEKSClusterPolicy"
UPDATES = {
    "resourcesVpcConfig": "VpcConfigUpdate",
    "logging": "LoggingUpdate",
    "accessConfig": "AccessConfigUpdate",
    "upgradePolicy": "UpgradePolicyUpdate",
    "deletionProtection": "DeletionProtectionUpdate",
}
"""Parameters of UpdateClusterConfig, and the type of the update."""
LOG_TYPES = ("api", "audit", "authenticator", "controllerManager", "scheduler")


def logging(asked: Mapping[str, Any] | None) -> Record:
    """Returns the logs of a cluster: those that are on, and the others."""
    setups = (asked or {}).get("clusterLogging", ())
    on = [kind for kind in LOG_TYPES if any(each.get("enabled") and kind in each["types"] for each in setups)]
    off = [kind for kind in LOG_TYPES if kind not in on]
    found = [{"types": on, "enabled": True}, {"types": off, "enabled": False}]
    return {"clusterLogging": [each for each in found if each["types"]]}


class Clusters(EKSOperations):
    """Operations on clusters."""

    def create_cluster(self) -> ActionResult:
        """CreateCluster. The cluster is ACTIVE at the next DescribeCluster."""
        name = self.params["name"]
        if name in self._kept.clusters:
            refuse("cluster-exists", name=name)
        self._check_cluster()
        made = self._new_cluster(name)
        self._kept.clusters[name] = made
        self._grant_to_creator(name, made)
        return ActionResult({"cluster": {**made, "status": "CREATING"}})

    def _check_cluster(self) -> None:
        given = self.params
        network = given["resourcesVpcConfig"]
        if given.get("version") and given["version"] not in VERSIONS:
            refuse("cluster-version", version=given["version"])
        if len({subnet.availability_zone for subnet in self._subnets(network["subnetIds"])}) < 2:
            refuse("cluster-zones")
        if not network.get("endpointPublicAccess", True) and not network.get("endpointPrivateAccess", False):
            refuse("cluster-endpoints")
        role = self._role(given["roleArn"])
        if role is None or "sts:AssumeRole" not in self._trusted_actions(role, "eks.amazonaws.com"):
            refuse("cluster-role", role=given["roleArn"])
        if not any(policy.name == CLUSTER_POLICY for policy in role.managed_policies.values()):
            refuse("cluster-role-policy", policy=f"arn:{self.partition}:iam::aws:policy/{CLUSTER_POLICY}")

    def _new_cluster(self, name: str) -> Record:
        given = self.params
        access = given.get("accessConfig", {})
        return {
            "name": name,
            "arn": self._arn("cluster", name),
            "createdAt": now(),
            "version": given.get("version", DEFAULT_VERSION),
            "endpoint": CLUSTER.endpoint,
            "certificateAuthority": {"data": CLUSTER.authority},
            "roleArn": given["roleArn"],
            "resourcesVpcConfig": self._network(name, given["resourcesVpcConfig"]),
            "kubernetesNetworkConfig": {"serviceIpv4Cidr": "172.20.0.0/16", "ipFamily": "ipv4"},
            "logging": logging(given.get("logging")),
            "identity": {"oidc": {"issuer": f"https://oidc.eks.{self.region}.amazonaws.com/id/{name}"}},
            "status": "ACTIVE",
            "platformVersion": "eks.1",
            "tags": given.get("tags", {}),
            "encryptionConfig": given.get("encryptionConfig", []),
            "accessConfig": {
                "authenticationMode": access.get("authenticationMode", "CONFIG_MAP"),
                "bootstrapClusterCreatorAdminPermissions": access.get("bootstrapClusterCreatorAdminPermissions", True),
            },
            "upgradePolicy": {"supportType": given.get("upgradePolicy", {}).get("supportType", "EXTENDED")},
            "deletionProtection": given.get("deletionProtection", False),
            "health": {"issues": []},
        }

    def _network(self, name: str, asked: Mapping[str, Any]) -> Record:
        """Returns the network of a cluster with the security group that EKS makes for it."""
        vpc = self._subnets(asked["subnetIds"])[0].vpc_id
        group = self._ec2.create_security_group(
            f"eks-cluster-sg-{name}-{identifier('')[-9:]}",
            "EKS created security group applied to ENI that is attached to EKS Control Plane master nodes, "
            "as well as any managed workloads.",
            vpc,
        )
        return {
            "subnetIds": asked["subnetIds"],
            "securityGroupIds": asked.get("securityGroupIds", []),
            "clusterSecurityGroupId": group.id,
            "vpcId": vpc,
            "endpointPublicAccess": asked.get("endpointPublicAccess", True),
            "endpointPrivateAccess": asked.get("endpointPrivateAccess", False),
            "publicAccessCidrs": asked.get("publicAccessCidrs", ["0.0.0.0/0"]),
        }

    def _grant_to_creator(self, name: str, cluster: Record) -> None:
        """Adds the access entry of the creator, which EKS makes unless the request says otherwise."""
        access = cluster["accessConfig"]
        if access["bootstrapClusterCreatorAdminPermissions"] and access["authenticationMode"] != "CONFIG_MAP":
            add_admin(self._kept, name, self._caller(), self.partition)

    def describe_cluster(self) -> ActionResult:
        """DescribeCluster."""
        return ActionResult({"cluster": self._cluster()})

    def list_clusters(self) -> ActionResult:
        """ListClusters."""
        return ActionResult({"clusters": sorted(self._kept.clusters)})

    def update_cluster_config(self) -> ActionResult:
        """UpdateClusterConfig: one kind of update at a time, as EKS."""
        cluster = self._cluster()
        asked = [name for name in UPDATES if name in self.params]
        if len(asked) != 1:
            refuse("cluster-one-update")
        [name] = asked
        value = self.params[name]
        if name == "logging":
            cluster["logging"] = logging(value)
        elif isinstance(value, Mapping):
            cluster[name] = {**cluster[name], **value}
        else:
            cluster[name] = value
        return self._updated(UPDATES[name])

    def update_cluster_version(self) -> ActionResult:
        """UpdateClusterVersion."""
        if self.params["version"] not in VERSIONS:
            refuse("cluster-version", version=self.params["version"])
        self._cluster()["version"] = self.params["version"]
        return self._updated("VersionUpdate")

    def describe_update(self) -> ActionResult:
        """DescribeUpdate. Every update is done at once."""
        self._cluster()
        return self._updated("ConfigUpdate")

    def delete_cluster(self) -> ActionResult:
        """DeleteCluster, with everything that EKS keeps of it."""
        cluster = self._cluster()
        name = cluster["name"]
        if self._kept.groups_of(name):
            refuse("cluster-has-groups")
        if cluster["deletionProtection"]:
            refuse("cluster-protected", name=name)
        del self._kept.clusters[name]
        self._ec2.delete_security_group(group_id=cluster["resourcesVpcConfig"]["clusterSecurityGroupId"])
        self._kept.forget_cluster(name)
        return ActionResult({"cluster": {**cluster, "status": "DELETING"}})

    def describe_cluster_versions(self) -> ActionResult:
        """DescribeClusterVersions."""
        versions = [
            {"clusterVersion": each, "defaultVersion": each == DEFAULT_VERSION, "versionStatus": "STANDARD_SUPPORT"}
            for each in VERSIONS
        ]
        asked = self.params.get("clusterVersions") or VERSIONS
        return ActionResult({"clusterVersions": [each for each in versions if each["clusterVersion"] in asked]})

    def tag_resource(self) -> ActionResult:
        """TagResource, of everything in EKS."""
        self._tags_of(self.params["resourceArn"]).update(self.params["tags"])
        return EmptyResult()

    def untag_resource(self) -> ActionResult:
        """UntagResource, of everything in EKS."""
        tags = self._tags_of(self.params["resourceArn"])
        for key in self.params["tagKeys"]:
            tags.pop(key, None)
        return EmptyResult()

    def list_tags_for_resource(self) -> ActionResult:
        """ListTagsForResource."""
        return ActionResult({"tags": self._tags_of(self.params["resourceArn"])})

    def _tags_of(self, arn: str) -> dict[str, str]:
        kept = self._kept
        records = [*kept.clusters.values(), *(group.record for group in kept.groups.values()), *kept.addons.values()]
        records += [*kept.entries.values(), *(each.record for each in kept.associations.values())]
        names = ("arn", "nodegroupArn", "addonArn", "accessEntryArn", "associationArn")
        for record in records:
            if any(record.get(name) == arn for name in names):
                found: dict[str, str] = record["tags"]
                return found
        return refuse("cluster-unknown", name=arn)
