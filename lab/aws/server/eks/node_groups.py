"""Managed node groups."""

from collections.abc import Mapping, Sequence
from typing import Any

from botocore.session import get_session
from moto.core.responses import ActionResult

from lab.aws.server.ec2.hardware import Hardware
from lab.aws.server.eks import launches
from lab.aws.server.eks.base import EKSOperations, now
from lab.aws.server.refusal import refuse
from lab.aws.server.services.parameters import RELEASES
from lab.aws.server.store import NodeGroup, Record, identifier

FORBIDDEN = ("IamInstanceProfile", "InstanceInitiatedShutdownBehavior", "HibernationOptions")
"""Settings that a template of a node group must not have, beside subnets (awsdocs/amazon-eks-user-guide,
latest/ug/nodes/launch-templates.adoc)."""
DEFAULT_TYPE = "t3.medium"
AMI_TYPES: Sequence[str] = get_session().get_service_model("eks").shape_for("AMITypes").enum


class NodeGroups(EKSOperations):
    """Operations on node groups."""

    def create_nodegroup(self) -> ActionResult:
        """CreateNodegroup. The instances launch at once, or fail to, which DescribeNodegroup tells."""
        cluster, name = self._cluster(), self.params["nodegroupName"]
        if (cluster["name"], name) in self._kept.groups:
            refuse("group-exists", group=name, cluster=cluster["name"])
        template = self._template(self.params.get("launchTemplate"))
        self._check_group(template)
        group = NodeGroup(self._new_group(cluster, name, template), template)
        Hardware.of(group.instance_type)
        self._kept.groups[cluster["name"], name] = group
        try:
            self._catch_up(group)
        except Exception:
            # A fault of this server, such as a node that the cluster does not take: nothing was created.
            self._remove(group)
            raise
        if issues := launches.health(group):
            group.record |= {"status": "CREATE_FAILED", "health": {"issues": issues}}
        return ActionResult({"nodegroup": {**group.record, "status": "CREATING", "health": {"issues": []}}})

    def _template(self, asked: Mapping[str, Any] | None) -> Record:
        """Returns the data of the launch template that the request names. Empty: it names none."""
        if not asked:
            return {}
        known = self._ec2.launch_templates.values()
        found = [each for each in known if asked.get("id") == each.id or asked.get("name") == each.name]
        if not found:
            refuse("group-template-unknown", template=asked.get("id") or asked.get("name"))
        version = asked.get("version") or found[0].default_version_number
        versions = {str(each.number): each for each in found[0].versions}
        aliases = {"$Latest": found[0].latest_version_number, "$Default": found[0].default_version_number}
        number = str(aliases.get(version, version))
        if number not in versions:
            refuse("group-template-unknown", template=f"{found[0].id} version {version}")
        data: Record = versions[number].data
        return data

    def _check_group(self, template: Mapping[str, Any]) -> None:
        given = self.params
        self._check_template(template)
        self._check_sizes(given.get("scalingConfig", {}))
        role = self._role(given["nodeRole"])
        if role is None or "sts:AssumeRole" not in self._trusted_actions(role, "ec2.amazonaws.com"):
            refuse("group-role", role=given["nodeRole"])
        if given.get("amiType") and given["amiType"] not in AMI_TYPES:
            refuse("group-ami", ami=given["amiType"])
        self._check_release(given.get("releaseVersion"), given.get("version") or self._cluster()["version"])
        if given.get("capacityType") == "CAPACITY_BLOCK":
            self._check_block(template)
        self._subnets(given["subnets"])

    def _check_template(self, template: Mapping[str, Any]) -> None:
        given, named = self.params, self.params.get("launchTemplate", {})
        if given.get("instanceTypes") and template.get("InstanceType"):
            refuse("group-types-twice")
        if given.get("diskSize") and template:
            refuse("group-disk-twice")
        name = named.get("id") or named.get("name")
        for field in FORBIDDEN:
            if template.get(field):
                refuse("group-template-forbids", template=name, field=field)
        if any("SubnetId" in interface for interface in template.get("NetworkInterfaces", ())):
            refuse("group-template-forbids", template=name, field="SubnetId")

    def _check_block(self, template: Mapping[str, Any]) -> None:
        target = template.get("CapacityReservationSpecification", {}).get("CapacityReservationTarget", {})
        needed = {
            "InstanceMarketOptions.MarketType": template.get("InstanceMarketOptions", {}).get("MarketType")
            == "capacity-block",
            "CapacityReservationTarget.CapacityReservationId": target.get("CapacityReservationId"),
            "InstanceType": template.get("InstanceType"),
        }
        for field, found in needed.items():
            if not found:
                refuse("group-block-template", missing=field)
        if len(self.params["subnets"]) != 1:
            refuse("group-block-subnets", count=len(self.params["subnets"]))

    @staticmethod
    def _check_sizes(sizes: Mapping[str, Any]) -> None:
        minimum, desired, maximum = (sizes.get(name, 2) for name in ("minSize", "desiredSize", "maxSize"))
        if minimum > desired:
            refuse("group-sizes", minimum=minimum, desired=desired)
        if desired > maximum:
            refuse("group-size-limit", desired=desired, maximum=maximum)

    @staticmethod
    def _check_release(release: str | None, version: str) -> None:
        if release and release not in RELEASES.get(version, ()):
            refuse("group-release", release=release, version=version)

    def _new_group(self, cluster: Record, name: str, template: Record) -> Record:
        given = self.params
        version = given.get("version") or cluster["version"]
        made: Record = {
            "nodegroupName": name,
            "nodegroupArn": self._arn("nodegroup", cluster["name"], name, identifier("group")),
            "clusterName": cluster["name"],
            "version": version,
            "releaseVersion": given.get("releaseVersion") or RELEASES[version][0],
            "createdAt": now(),
            "modifiedAt": now(),
            "status": "ACTIVE",
            "capacityType": given.get("capacityType", "ON_DEMAND"),
            "scalingConfig": given.get("scalingConfig", {"minSize": 2, "maxSize": 2, "desiredSize": 2}),
            "subnets": given["subnets"],
            "amiType": given.get("amiType", "AL2023_x86_64_STANDARD"),
            "nodeRole": given["nodeRole"],
            "labels": given.get("labels", {}),
            "taints": given.get("taints", []),
            "resources": {"autoScalingGroups": [{"name": f"eks-{name}-{identifier('asg')[4:]}"}]},
            "health": {"issues": []},
            "updateConfig": given.get("updateConfig", {"maxUnavailable": 1}),
            "nodeRepairConfig": given.get("nodeRepairConfig", {"enabled": False}),
            "tags": given.get("tags", {}),
        }
        if not template.get("InstanceType"):
            made["instanceTypes"] = given.get("instanceTypes") or [DEFAULT_TYPE]
        if named := given.get("launchTemplate"):
            made["launchTemplate"] = self._named_template(named)
        else:
            made["diskSize"] = given.get("diskSize", 20)
        return made

    def _named_template(self, named: Mapping[str, Any]) -> Record:
        """Returns id, name and version of a template, which EKS all answers with."""
        known = self._ec2.launch_templates.values()
        [found] = [each for each in known if named.get("id") == each.id or named.get("name") == each.name]
        version = named.get("version") or str(found.default_version_number)
        return {"id": found.id, "name": found.name, "version": version}

    def _catch_up(self, group: NodeGroup) -> None:
        launches.catch_up(self._kept, group, self._subnets(group.record["subnets"]))

    def describe_nodegroup(self) -> ActionResult:
        """DescribeNodegroup. A launch that failed is tried again first, as the Auto Scaling group does."""
        group = self._group()
        self._catch_up(group)
        return ActionResult({"nodegroup": group.record})

    def list_nodegroups(self) -> ActionResult:
        """ListNodegroups."""
        name = self._cluster()["name"]
        return ActionResult({"nodegroups": [group.record["nodegroupName"] for group in self._kept.groups_of(name)]})

    def update_nodegroup_config(self) -> ActionResult:
        """UpdateNodegroupConfig: sizes, labels, taints, update and repair."""
        group, given = self._group(), self.params
        if sizes := given.get("scalingConfig"):
            wanted = {**group.record["scalingConfig"], **sizes}
            self._check_sizes(wanted)
            group.record["scalingConfig"] = wanted
        for name in ("updateConfig", "nodeRepairConfig"):
            if name in given:
                group.record[name] = given[name]
        labels = given.get("labels", {})
        kept = {
            key: value for key, value in group.record["labels"].items() if key not in labels.get("removeLabels", ())
        }
        group.record["labels"] = {**kept, **labels.get("addOrUpdateLabels", {})}
        self._update_taints(group.record, given.get("taints", {}))
        group.record["modifiedAt"] = now()
        self._catch_up(group)
        return self._updated("ConfigUpdate")

    @staticmethod
    def _update_taints(record: Record, asked: Mapping[str, Any]) -> None:
        added = list(asked.get("addOrUpdateTaints", ()))
        gone = {(taint["key"], taint["effect"]) for taint in [*added, *asked.get("removeTaints", ())]}
        record["taints"] = [each for each in record["taints"] if (each["key"], each["effect"]) not in gone] + added

    def update_nodegroup_version(self) -> ActionResult:
        """UpdateNodegroupVersion: another template version or release, on new instances."""
        group, given = self._group(), self.params
        if group.of_capacity_block and group.desired:
            refuse("group-block-version")
        version = given.get("version") or group.record["version"]
        self._check_release(given.get("releaseVersion"), version)
        if "launchTemplate" in given:
            group.template = self._template(given["launchTemplate"])
            group.record["launchTemplate"] = self._named_template(given["launchTemplate"])
        release = given.get("releaseVersion") or group.record["releaseVersion"]
        group.record |= {"version": version, "releaseVersion": release, "modifiedAt": now()}
        for identity in list(group.instances):
            launches.end_instance(self._kept, group, identity)
        self._catch_up(group)
        return self._updated("VersionUpdate")

    def delete_nodegroup(self) -> ActionResult:
        """DeleteNodegroup, with its instances and their nodes."""
        group = self._group()
        self._remove(group)
        return ActionResult({"nodegroup": {**group.record, "status": "DELETING"}})

    def _remove(self, group: NodeGroup) -> None:
        for identity in list(group.instances):
            launches.end_instance(self._kept, group, identity)
        del self._kept.groups[group.record["clusterName"], group.record["nodegroupName"]]
