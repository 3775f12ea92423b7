"""Access entries as EKS keeps them."""

from collections.abc import Mapping
from typing import Any

from lab.aws.server.eks.base import now
from lab.aws.server.store import Record, Region, identifier

ADMIN_POLICY = "AmazonEKSClusterAdminPolicy"
POLICIES = (
    ADMIN_POLICY,
    "AmazonEKSAdminPolicy",
    "AmazonEKSAdminViewPolicy",
    "AmazonEKSEditPolicy",
    "AmazonEKSViewPolicy",
)
"""Access policies for people (github.com/awsdocs/amazon-eks-user-guide, access-policy-permissions)."""


def policy_arn(name: str, partition: str = "aws") -> str:
    """Returns the ARN of an access policy."""
    return f"arn:{partition}:eks::aws:cluster-access-policy/{name}"


def new_entry(region: Region, cluster: str, principal: str, partition: str, given: Mapping[str, Any]) -> Record:
    """Keeps an access entry and returns it."""
    place = f"arn:{partition}:eks:{region.region_name}:{region.account_id}"
    made = {
        "clusterName": cluster,
        "principalArn": principal,
        "kubernetesGroups": given.get("kubernetesGroups", []),
        "accessEntryArn": f"{place}:access-entry/{cluster}/{identifier('entry')}",
        "createdAt": now(),
        "modifiedAt": now(),
        "tags": given.get("tags", {}),
        "username": given.get("username") or principal,
        "type": given.get("type") or "STANDARD",
    }
    region.entries[cluster, principal] = made
    region.policies[cluster, principal] = {}
    return made


def associate(region: Region, key: tuple[str, str], policy: str, scope: Mapping[str, Any]) -> Record:
    """Associates an access policy with an entry and returns the association."""
    scoped = {"namespaces": [], **scope}
    made = {"policyArn": policy, "accessScope": scoped, "associatedAt": now(), "modifiedAt": now()}
    region.policies[key][policy] = made
    return made


def add_admin(region: Region, cluster: str, principal: str, partition: str) -> None:
    """Adds the access entry of a cluster's creator."""
    new_entry(region, cluster, principal, partition, {})
    associate(region, (cluster, principal), policy_arn(ADMIN_POLICY, partition), {"type": "cluster"})
