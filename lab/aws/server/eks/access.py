"""Access entries, and the access policies that they are associated with."""

from moto.core.responses import ActionResult, EmptyResult
from moto.iam.models import iam_backends

from lab.aws.server.eks.base import EKSOperations, now
from lab.aws.server.refusal import refuse
from lab.aws.server.store import Record, identifier

ADMIN_POLICY = "AmazonEKSClusterAdminPolicy"
POLICIES = (ADMIN_POLICY, "AmazonEKSAdminPolicy", "AmazonEKSAdminViewPolicy", "AmazonEKSEditPolicy", "AmazonEKSViewPolicy")
"""Access policies for people (github.com/awsdocs/amazon-eks-user-guide, access-policy-permissions)."""
MODES = ("API", "API_AND_CONFIG_MAP")


class Access(EKSOperations):
    """Operations on access entries."""

    def _caller(self) -> str:
        """Returns the ARN of the user that signed the request."""
        users = iam_backends[self.current_account][self.partition].users.values()
        for user in users:
            if any(key.access_key_id == self.get_access_key() for key in user.access_keys):
                return str(user.arn)
        return f"arn:{self.partition}:iam::{self.current_account}:root"

    def _cluster_with_entries(self) -> Record:
        cluster = self._cluster()
        if cluster["accessConfig"]["authenticationMode"] not in MODES:
            refuse("entry-mode")
        return cluster

    def _key(self) -> tuple[str, str]:
        """Returns the cluster's name and the principal. Refuses as EKS does if there is no such entry."""
        key = self._cluster_with_entries()["name"], self.params["principalArn"]
        if key not in self._kept.entries:
            refuse("entry-unknown")
        return key

    def _policy_arn(self, name: str) -> str:
        return f"arn:{self.partition}:eks::aws:cluster-access-policy/{name}"

    def _principal_exists(self, arn: str) -> bool:
        backend = iam_backends[self.current_account][self.partition]
        known = [*backend.roles.values(), *backend.users.values()]
        return any(each.arn == arn for each in known) or not arn.startswith(f"arn:{self.partition}:iam:")

    def _new_entry(self, cluster: str, principal: str) -> Record:
        made = {
            "clusterName": cluster,
            "principalArn": principal,
            "kubernetesGroups": self.params.get("kubernetesGroups", []),
            "accessEntryArn": self._arn("access-entry", cluster, identifier("entry")),
            "createdAt": now(),
            "modifiedAt": now(),
            "tags": self.params.get("tags", {}),
            "username": self.params.get("username") or principal,
            "type": self.params.get("type") or "STANDARD",
        }
        self._kept.entries[cluster, principal] = made
        self._kept.policies[cluster, principal] = {}
        return made

    def _add_admin(self, cluster: str, principal: str) -> None:
        self._new_entry(cluster, principal) | {"tags": {}}
        arn = self._policy_arn(ADMIN_POLICY)
        self._kept.policies[cluster, principal][arn] = {
            "policyArn": arn,
            "accessScope": {"type": "cluster", "namespaces": []},
            "associatedAt": now(),
            "modifiedAt": now(),
        }

    def create_access_entry(self) -> ActionResult:
        """CreateAccessEntry."""
        cluster, principal = self._cluster_with_entries()["name"], self.params["principalArn"]
        if (cluster, principal) in self._kept.entries:
            refuse("entry-exists")
        if not self._principal_exists(principal):
            refuse("entry-principal")
        return ActionResult({"accessEntry": self._new_entry(cluster, principal)})

    def describe_access_entry(self) -> ActionResult:
        """DescribeAccessEntry."""
        return ActionResult({"accessEntry": self._kept.entries[self._key()]})

    def list_access_entries(self) -> ActionResult:
        """ListAccessEntries."""
        name = self._cluster_with_entries()["name"]
        return ActionResult({"accessEntries": [arn for owner, arn in self._kept.entries if owner == name]})

    def update_access_entry(self) -> ActionResult:
        """UpdateAccessEntry."""
        entry = self._kept.entries[self._key()]
        given = {name: self.params[name] for name in ("kubernetesGroups", "username") if name in self.params}
        entry |= {**given, "modifiedAt": now()}
        return ActionResult({"accessEntry": entry})

    def delete_access_entry(self) -> ActionResult:
        """DeleteAccessEntry."""
        key = self._key()
        del self._kept.entries[key], self._kept.policies[key]
        return EmptyResult()

    def associate_access_policy(self) -> ActionResult:
        """AssociateAccessPolicy."""
        key, policy = self._key(), self.params["policyArn"]
        if policy not in map(self._policy_arn, POLICIES):
            refuse("policy-unknown", policy=policy)
        scope = {"namespaces": [], **self.params["accessScope"]}
        made = {"policyArn": policy, "accessScope": scope, "associatedAt": now(), "modifiedAt": now()}
        self._kept.policies[key][policy] = made
        return ActionResult({"clusterName": key[0], "principalArn": key[1], "associatedAccessPolicy": made})

    def list_associated_access_policies(self) -> ActionResult:
        """ListAssociatedAccessPolicies."""
        key = self._key()
        found = list(self._kept.policies[key].values())
        return ActionResult({"clusterName": key[0], "principalArn": key[1], "associatedAccessPolicies": found})

    def disassociate_access_policy(self) -> ActionResult:
        """DisassociateAccessPolicy."""
        self._kept.policies[self._key()].pop(self.params["policyArn"], None)
        return EmptyResult()
