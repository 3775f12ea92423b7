"""EKS: clusters, node groups, add-ons, access entries and Pod Identity."""

import time
from collections.abc import Callable
from typing import Any

from lab.aws.double.kind import PAUSE_SECONDS, Api, delete, found
from lab.aws.double.wire import Properties

WAIT_SECONDS = 3600.0
"""The longest that a cluster or group may take (terraform-provider-aws: eks/node_group.go)."""


def retag(api: Api, arn: str, old: Properties, new: Properties) -> None:
    """Changes the tags of anything in EKS."""
    if stale := sorted(old.get("tags", {}).keys() - new.get("tags", {}).keys()):
        api("eks").untag_resource(resourceArn=arn, tagKeys=stale)
    if new.get("tags", {}) != old.get("tags", {}):
        api("eks").tag_resource(resourceArn=arn, tags=new["tags"])


def wait(read: Callable[[], Any], what: str) -> None:
    """Waits until a resource is ACTIVE. Raises RuntimeError with its issues if it fails."""
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        record = read()
        if record["status"] == "ACTIVE":
            return
        if record["status"].endswith("FAILED"):
            issues = [f"{each['code']}: {each['message']}" for each in record["health"]["issues"]]
            raise RuntimeError(
                f"waiting for {what} create: unexpected state '{record['status']}', wanted target 'ACTIVE'. "
                f"last error: {'; '.join(issues)}"
            )
        time.sleep(PAUSE_SECONDS)
    raise RuntimeError(f"waiting for {what}: not ACTIVE after {WAIT_SECONDS:.0f} s")


def given_as(given: Properties, **names: str) -> Properties:
    """Returns the arguments that are given, under EKS' names. `names`: EKS' name by the argument's."""
    return {theirs: given[ours] for ours, theirs in names.items() if ours in given}


class Cluster:
    """A cluster."""

    UPDATES = ("accessConfig", "upgradePolicy", "deletionProtection")

    @staticmethod
    def _logging(given: Properties) -> Properties:
        return {"clusterLogging": [{"enabled": True, "types": given.get("enabledClusterLogTypes", [])}]}

    def create(self, api: Api, given: Properties) -> str:
        """Creates it and waits until it is ACTIVE."""
        names = ("version", "accessConfig", "upgradePolicy", "bootstrapSelfManagedAddons", "deletionProtection", "tags")
        sent = given_as(given, **{name: name for name in names})
        if "encryptionConfig" in given:
            of = given["encryptionConfig"]
            sent["encryptionConfig"] = [{"provider": of["provider"], "resources": of["resources"]}]
        name = str(given["name"])
        api("eks").create_cluster(
            name=name,
            roleArn=given["roleArn"],
            resourcesVpcConfig=given["vpcConfig"],
            logging=self._logging(given),
            **sent,
        )
        wait(lambda: api("eks").describe_cluster(name=name)["cluster"], f"EKS Cluster ({name})")
        return name

    def read(self, api: Api, identity: str, state: Properties) -> Properties | None:
        """Reads it."""
        answer = found(api("eks").describe_cluster, name=identity)
        if answer is None:
            return None
        cluster = answer["cluster"]
        network = cluster["resourcesVpcConfig"]
        known = state.get("vpcConfig", {})
        read = {name: network[name] for name in (*known, "clusterSecurityGroupId", "vpcId") if name in network}
        logs = [each["types"] for each in cluster["logging"]["clusterLogging"] if each["enabled"]]
        names = ("version", "roleArn", "endpoint", "arn", "status", "accessConfig", "upgradePolicy", "tags")
        return {
            **{name: cluster[name] for name in names},
            "name": identity,
            "certificateAuthority": cluster["certificateAuthority"],
            "certificateAuthorities": [cluster["certificateAuthority"]],
            "identities": [{"oidcs": [cluster["identity"]["oidc"]]}],
            "enabledClusterLogTypes": logs[0] if logs else [],
            "deletionProtection": cluster["deletionProtection"],
            "vpcConfig": {**known, **read},
        }

    def update(self, api: Api, identity: str, old: Properties, new: Properties) -> None:
        """Sends one request for each kind of update, as the real provider does."""
        update = api("eks").update_cluster_config
        for name in self.UPDATES:
            if old.get(name) != new.get(name):
                update(name=identity, **{name: new[name]})
        if old.get("enabledClusterLogTypes") != new.get("enabledClusterLogTypes"):
            update(name=identity, logging=self._logging(new))
        if old.get("vpcConfig") != new.get("vpcConfig"):
            update(name=identity, resourcesVpcConfig=new["vpcConfig"])
        if old.get("version") != new.get("version"):
            api("eks").update_cluster_version(name=identity, version=new["version"])
        if old.get("tags") != new.get("tags"):
            retag(api, api("eks").describe_cluster(name=identity)["cluster"]["arn"], old, new)

    def delete(self, api: Api, identity: str, state: Properties) -> None:
        """Deletes it."""
        delete(api("eks").delete_cluster, name=identity)


class NodeGroup:
    """A managed node group."""

    CONFIGURATION = ("scalingConfig", "updateConfig", "nodeRepairConfig")
    VERSION = ("launchTemplate", "releaseVersion", "version")

    @staticmethod
    def _key(identity: str) -> dict[str, str]:
        cluster, _, name = identity.partition(":")
        return {"clusterName": cluster, "nodegroupName": name}

    def create(self, api: Api, given: Properties) -> str:
        """Creates it and waits until it is ACTIVE."""
        names = (
            *("amiType", "capacityType", "diskSize", "instanceTypes", "labels", "launchTemplate", "nodeRepairConfig"),
            *("releaseVersion", "scalingConfig", "taints", "updateConfig", "version", "tags"),
        )
        identity = f"{given['clusterName']}:{given['nodeGroupName']}"
        api("eks").create_nodegroup(
            **self._key(identity),
            nodeRole=given["nodeRoleArn"],
            subnets=given["subnetIds"],
            **given_as(given, **{name: name for name in names}),
        )
        return identity

    def ready(self, api: Api, identity: str) -> None:
        """Waits until it is ACTIVE."""
        wait(lambda: self._describe(api, identity), f"EKS Node Group ({identity})")

    def _describe(self, api: Api, identity: str) -> Any:
        return api("eks").describe_nodegroup(**self._key(identity))["nodegroup"]

    def read(self, api: Api, identity: str, state: Properties) -> Properties | None:
        """Reads it. The name of its template is an output: the program says the id."""
        answer = found(api("eks").describe_nodegroup, **self._key(identity))
        if answer is None:
            return None
        group = answer["nodegroup"]
        template = {key: group.get("launchTemplate", {}).get(key) for key in state.get("launchTemplate", {})}
        groups = [{"name": each["name"]} for each in group["resources"]["autoScalingGroups"]]
        names = ("amiType", "capacityType", "labels", "scalingConfig", "taints", "updateConfig", "version", "tags")
        return {
            **{name: group[name] for name in names},
            **({"launchTemplate": template} if template else {}),
            "arn": group["nodegroupArn"],
            "clusterName": group["clusterName"],
            "instanceTypes": group.get("instanceTypes"),
            "nodeGroupName": group["nodegroupName"],
            "nodeRepairConfig": group["nodeRepairConfig"],
            "nodeRoleArn": group["nodeRole"],
            "releaseVersion": group["releaseVersion"],
            "resources": [{"autoscalingGroups": groups}],
            "status": group["status"],
            "subnetIds": group["subnets"],
        }

    def update(self, api: Api, identity: str, old: Properties, new: Properties) -> None:
        """Updates the version first, then the configuration, as the real provider does."""
        version = {name: new[name] for name in self.VERSION if name in new and old.get(name) != new.get(name)}
        if version:
            api("eks").update_nodegroup_version(
                **self._key(identity), force=bool(new.get("forceUpdateVersion")), **version
            )
        changed = {name: new[name] for name in self.CONFIGURATION if name in new and old.get(name) != new.get(name)}
        if old.get("labels") != new.get("labels"):
            stale = sorted(old.get("labels", {}).keys() - new.get("labels", {}).keys())
            changed["labels"] = {"addOrUpdateLabels": new.get("labels", {}), "removeLabels": stale}
        if old.get("taints") != new.get("taints"):
            kept = [(each["key"], each["effect"]) for each in new.get("taints", ())]
            stale = [each for each in old.get("taints", ()) if (each["key"], each["effect"]) not in kept]
            changed["taints"] = {"addOrUpdateTaints": new.get("taints", []), "removeTaints": stale}
        if changed:
            api("eks").update_nodegroup_config(**self._key(identity), **changed)
        if old.get("tags") != new.get("tags"):
            retag(api, self._describe(api, identity)["nodegroupArn"], old, new)

    def delete(self, api: Api, identity: str, state: Properties) -> None:
        """Deletes it."""
        delete(api("eks").delete_nodegroup, **self._key(identity))


class Addon:
    """An add-on."""

    @staticmethod
    def _key(identity: str) -> dict[str, str]:
        cluster, _, name = identity.partition(":")
        return {"clusterName": cluster, "addonName": name}

    def create(self, api: Api, given: Properties) -> str:
        """Creates it and waits until it is ACTIVE."""
        names = {name: name for name in ("addonVersion", "configurationValues", "tags")}
        key = self._key(f"{given['clusterName']}:{given['addonName']}")
        api("eks").create_addon(**key, **given_as(given, resolveConflictsOnCreate="resolveConflicts", **names))
        wait(lambda: api("eks").describe_addon(**key)["addon"], f"EKS Add-On ({key['addonName']})")
        return f"{given['clusterName']}:{given['addonName']}"

    def read(self, api: Api, identity: str, state: Properties) -> Properties | None:
        """Reads it."""
        answer = found(api("eks").describe_addon, **self._key(identity))
        if answer is None:
            return None
        addon = answer["addon"]
        return {
            "arn": addon["addonArn"],
            "addonName": addon["addonName"],
            "addonVersion": addon["addonVersion"],
            "clusterName": addon["clusterName"],
            "configurationValues": addon.get("configurationValues") or None,
            "createdAt": addon["createdAt"].isoformat(),
            "tags": addon["tags"],
        }

    def update(self, api: Api, identity: str, old: Properties, new: Properties) -> None:
        """Changes version, configuration and tags."""
        names = ("addonVersion", "configurationValues")
        changed = {name: new[name] for name in names if name in new and old.get(name) != new.get(name)}
        if changed:
            api("eks").update_addon(**self._key(identity), **changed)
        if old.get("tags") != new.get("tags"):
            retag(api, api("eks").describe_addon(**self._key(identity))["addon"]["addonArn"], old, new)

    def delete(self, api: Api, identity: str, state: Properties) -> None:
        """Deletes it."""
        delete(api("eks").delete_addon, **self._key(identity), preserve=bool(state.get("preserve")))
