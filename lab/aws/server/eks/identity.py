"""Pod Identity associations."""

from moto.core.responses import ActionResult

from lab.aws.server.eks.base import EKSOperations, now
from lab.aws.server.faults import FAULTS
from lab.aws.server.refusal import refuse
from lab.aws.server.store import Association, identifier

SERVICE = "pods.eks.amazonaws.com"
ACTIONS = ("sts:AssumeRole", "sts:TagSession")
SUMMARY = ("clusterName", "namespace", "serviceAccount", "associationArn", "associationId")


class PodIdentity(EKSOperations):
    """Operations on Pod Identity associations."""

    def _association(self) -> Association:
        cluster, identity = self._cluster()["name"], self.params["associationId"]
        found = self._kept.associations.get(identity)
        if found is None or found.record["clusterName"] != cluster:
            refuse("association-unknown", cluster=cluster, id=identity)
        return found

    def _check_role_for_pods(self, arn: str) -> None:
        role = self._role(arn)
        if role is None:
            refuse("association-role")
        for action in ACTIONS:
            if action not in self._trusted_actions(role, SERVICE):
                refuse("association-trust", role=arn, action=action)

    def create_pod_identity_association(self) -> ActionResult:
        """CreatePodIdentityAssociation."""
        given = {name: self.params[name] for name in ("namespace", "serviceAccount", "roleArn")}
        cluster = self._cluster()["name"]
        for association in self._kept.associations.values():
            known = association.record
            if (cluster, given["namespace"], given["serviceAccount"]) == tuple(known[each] for each in SUMMARY[:3]):
                refuse("association-exists", id=known["associationId"])
        self._check_role_for_pods(given["roleArn"])
        identity = identifier("a")
        made = {
            "clusterName": cluster,
            **given,
            "associationArn": self._arn("podidentityassociation", cluster, identity),
            "associationId": identity,
            "tags": self.params.get("tags", {}),
            "createdAt": now(),
            "modifiedAt": now(),
            "disableSessionTags": self.params.get("disableSessionTags", False),
        }
        self._kept.associations[identity] = Association(made, arrived=not FAULTS.pod_identity_late)
        return ActionResult({"association": made})

    def describe_pod_identity_association(self) -> ActionResult:
        """DescribePodIdentityAssociation."""
        return ActionResult({"association": self._association().record})

    def list_pod_identity_associations(self) -> ActionResult:
        """ListPodIdentityAssociations."""
        name = self._cluster()["name"]
        records = [each.record for each in self._kept.associations.values() if each.record["clusterName"] == name]
        return ActionResult({"associations": [{key: record[key] for key in SUMMARY} for record in records]})

    def update_pod_identity_association(self) -> ActionResult:
        """UpdatePodIdentityAssociation: another role."""
        association = self._association()
        if "roleArn" in self.params:
            self._check_role_for_pods(self.params["roleArn"])
            association.record |= {"roleArn": self.params["roleArn"], "modifiedAt": now()}
        return ActionResult({"association": association.record})

    def delete_pod_identity_association(self) -> ActionResult:
        """DeletePodIdentityAssociation."""
        association = self._association()
        del self._kept.associations[association.record["associationId"]]
        return ActionResult({"association": association.record})
