"""EKS: who may do what in a cluster, and the roles of its pods."""

from lab.aws.double.eks import given_as, retag
from lab.aws.double.kind import Api, delete, found
from lab.aws.double.wire import Properties


class AccessEntry:
    """An access entry."""

    @staticmethod
    def _key(identity: str) -> dict[str, str]:
        cluster, _, principal = identity.partition(":")
        return {"clusterName": cluster, "principalArn": principal}

    def create(self, api: Api, given: Properties) -> str:
        """Creates it."""
        identity = f"{given['clusterName']}:{given['principalArn']}"
        names = {name: name for name in ("type", "kubernetesGroups", "tags")}
        api("eks").create_access_entry(**self._key(identity), **given_as(given, userName="username", **names))
        return identity

    def read(self, api: Api, identity: str, state: Properties) -> Properties | None:
        """Reads it."""
        answer = found(api("eks").describe_access_entry, **self._key(identity))
        if answer is None:
            return None
        entry = answer["accessEntry"]
        return {
            **{name: entry[name] for name in ("clusterName", "principalArn", "type", "kubernetesGroups", "tags")},
            "accessEntryArn": entry["accessEntryArn"],
            "userName": entry["username"],
        }

    def update(self, api: Api, identity: str, old: Properties, new: Properties) -> None:
        """Changes groups, user name and tags."""
        changed = given_as(new, kubernetesGroups="kubernetesGroups", userName="username")
        if changed:
            api("eks").update_access_entry(**self._key(identity), **changed)
        if old.get("tags") != new.get("tags"):
            entry = api("eks").describe_access_entry(**self._key(identity))["accessEntry"]
            retag(api, entry["accessEntryArn"], old, new)

    def delete(self, api: Api, identity: str, state: Properties) -> None:
        """Deletes it."""
        delete(api("eks").delete_access_entry, **self._key(identity))


class AccessPolicyAssociation:
    """An access policy of a principal."""

    @staticmethod
    def _key(identity: str) -> dict[str, str]:
        cluster, principal, policy = identity.split("#")
        return {"clusterName": cluster, "principalArn": principal, "policyArn": policy}

    def create(self, api: Api, given: Properties) -> str:
        """Creates it."""
        identity = f"{given['clusterName']}#{given['principalArn']}#{given['policyArn']}"
        api("eks").associate_access_policy(**self._key(identity), accessScope=given["accessScope"])
        return identity

    def read(self, api: Api, identity: str, state: Properties) -> Properties | None:
        """Reads it."""
        key = self._key(identity)
        policy = key.pop("policyArn")
        answer = found(api("eks").list_associated_access_policies, **key)
        for each in (answer or {}).get("associatedAccessPolicies", ()):
            if each["policyArn"] == policy:
                scope = {name: value for name, value in each["accessScope"].items() if value}
                at = each["associatedAt"].isoformat()
                return {**key, "policyArn": policy, "accessScope": scope, "associatedAt": at}
        return None

    def update(self, api: Api, identity: str, old: Properties, new: Properties) -> None:
        """Nothing of it changes in place."""

    def delete(self, api: Api, identity: str, state: Properties) -> None:
        """Deletes it."""
        delete(api("eks").disassociate_access_policy, **self._key(identity))


class PodIdentityAssociation:
    """The role of a service account's pods."""

    def create(self, api: Api, given: Properties) -> str:
        """Creates it."""
        names = ("clusterName", "namespace", "serviceAccount", "roleArn", "tags")
        made = api("eks").create_pod_identity_association(**given_as(given, **{name: name for name in names}))
        return str(made["association"]["associationId"])

    def read(self, api: Api, identity: str, state: Properties) -> Properties | None:
        """Reads it."""
        describe = api("eks").describe_pod_identity_association
        answer = found(describe, clusterName=state["clusterName"], associationId=identity)
        if answer is None:
            return None
        names = ("clusterName", "namespace", "serviceAccount", "roleArn", "associationArn", "associationId", "tags")
        return {name: answer["association"][name] for name in names}

    def update(self, api: Api, identity: str, old: Properties, new: Properties) -> None:
        """Changes role and tags."""
        if old.get("roleArn") != new.get("roleArn"):
            api("eks").update_pod_identity_association(
                clusterName=new["clusterName"], associationId=identity, roleArn=new["roleArn"]
            )
        if old.get("tags") != new.get("tags"):
            described = api("eks").describe_pod_identity_association(
                clusterName=new["clusterName"], associationId=identity
            )
            retag(api, described["association"]["associationArn"], old, new)

    def delete(self, api: Api, identity: str, state: Properties) -> None:
        """Deletes it."""
        delete(api("eks").delete_pod_identity_association, clusterName=state["clusterName"], associationId=identity)
