"""Access entries, and the access policies that they are associated with."""

from moto.core.responses import ActionResult, EmptyResult
from moto.iam.models import iam_backends

from lab.aws.server.eks.base import EKSOperations, now
from lab.aws.server.eks.entries import POLICIES, associate, new_entry, policy_arn
from lab.aws.server.refusal import refuse
from lab.aws.server.store import Record

MODES = ("API", "API_AND_CONFIG_MAP")


class Access(EKSOperations):
    """Operations on access entries."""

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

    def _principal_exists(self, arn: str) -> bool:
        backend = iam_backends[self.current_account][self.partition]
        known = [*backend.roles.values(), *backend.users.values()]
        return any(vars(each).get("arn", getattr(each, "arn", None)) == arn for each in known) or not arn.startswith(
            f"arn:{self.partition}:iam:"
        )

    def create_access_entry(self) -> ActionResult:
        """CreateAccessEntry."""
        cluster, principal = self._cluster_with_entries()["name"], self.params["principalArn"]
        if (cluster, principal) in self._kept.entries:
            refuse("entry-exists")
        if not self._principal_exists(principal):
            refuse("entry-principal")
        made = new_entry(self._kept, cluster, principal, self.partition, self.params)
        return ActionResult({"accessEntry": made})

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
        if policy not in [policy_arn(name, self.partition) for name in POLICIES]:
            refuse("policy-unknown", policy=policy)
        made = associate(self._kept, key, policy, self.params["accessScope"])
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
