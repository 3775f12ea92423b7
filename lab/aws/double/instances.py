"""What instances are launched with: security groups, placement groups, launch templates."""

from typing import Any

from lab.aws.double.kind import Api, delete, found, tag_list, tag_map
from lab.aws.double.network import retag, tagged
from lab.aws.double.wire import Properties, pascal

TEMPLATE_NAMES = {"securityGroups": "Groups", "vpcSecurityGroupIds": "SecurityGroupIds"}
NOT_IN_TEMPLATE = ("name", "tags", "updateDefaultVersion", "description")


class SecurityGroup:
    """A security group without rules but the one that EC2 makes."""

    def create(self, api: Api, given: Properties) -> str:
        """Creates it and removes the rule that allows all outgoing traffic, as the real provider does."""
        made = api("ec2").create_security_group(
            GroupName=given["name"],
            Description=given.get("description", "Managed by Pulumi"),
            VpcId=given["vpcId"],
            TagSpecifications=tagged(given, "security-group"),
        )
        everything = {"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}
        api("ec2").revoke_security_group_egress(GroupId=made["GroupId"], IpPermissions=[everything])
        return str(made["GroupId"])

    def read(self, api: Api, identity: str, state: Properties) -> Properties | None:
        """Reads it."""
        answer = found(api("ec2").describe_security_groups, GroupIds=[identity])
        if answer is None:
            return None
        [group] = answer["SecurityGroups"]
        return {
            "arn": f"arn:aws:ec2:::security-group/{identity}",
            "name": group["GroupName"],
            "description": group["Description"],
            "vpcId": group["VpcId"],
            "tags": tag_map(group.get("Tags")),
        }

    def update(self, api: Api, identity: str, old: Properties, new: Properties) -> None:
        """Changes its tags."""
        retag(api, identity, old, new)

    def delete(self, api: Api, identity: str, state: Properties) -> None:
        """Deletes it."""
        delete(api("ec2").delete_security_group, GroupId=identity)


class SecurityGroupRule:
    """A rule of a security group. `way`: ingress or egress."""

    def __init__(self, way: str) -> None:
        self._way = way

    @staticmethod
    def _permission(given: Properties) -> Properties:
        permission: Properties = {"IpProtocol": given["ipProtocol"]}
        permission |= {name[0].upper() + name[1:]: given[name] for name in ("fromPort", "toPort") if name in given}
        if "referencedSecurityGroupId" in given:
            permission["UserIdGroupPairs"] = [{"GroupId": given["referencedSecurityGroupId"]}]
        if "cidrIpv4" in given:
            permission["IpRanges"] = [{"CidrIp": given["cidrIpv4"]}]
        return permission

    def create(self, api: Api, given: Properties) -> str:
        """Creates it."""
        authorize = getattr(api("ec2"), f"authorize_security_group_{self._way}")
        made = authorize(
            GroupId=given["securityGroupId"],
            IpPermissions=[self._permission(given)],
            TagSpecifications=tagged(given, "security-group-rule"),
        )
        return str(made["SecurityGroupRules"][0]["SecurityGroupRuleId"])

    def read(self, api: Api, identity: str, state: Properties) -> Properties | None:
        """Reads it."""
        filters = [{"Name": "security-group-rule-id", "Values": [identity]}]
        answer = found(api("ec2").describe_security_group_rules, Filters=filters)
        if answer is None or not answer["SecurityGroupRules"]:
            return None
        [rule] = answer["SecurityGroupRules"]
        return {
            "arn": f"arn:aws:ec2:::security-group-rule/{identity}",
            "securityGroupRuleId": identity,
            "securityGroupId": rule["GroupId"],
            "ipProtocol": rule["IpProtocol"],
            "cidrIpv4": rule.get("CidrIpv4"),
            "referencedSecurityGroupId": rule.get("ReferencedGroupInfo", {}).get("GroupId"),
            "tags": tag_map(rule.get("Tags")),
        }

    def update(self, api: Api, identity: str, old: Properties, new: Properties) -> None:
        """Changes its tags. Its traffic: not in the double."""
        if self._permission(old) != self._permission(new):
            raise NotImplementedError("another traffic of a security group rule")
        retag(api, identity, old, new)

    def delete(self, api: Api, identity: str, state: Properties) -> None:
        """Deletes it."""
        revoke = getattr(api("ec2"), f"revoke_security_group_{self._way}")
        delete(revoke, GroupId=state["securityGroupId"], SecurityGroupRuleIds=[identity])


class PlacementGroup:
    """A placement group."""

    def create(self, api: Api, given: Properties) -> str:
        """Creates it."""
        api("ec2").create_placement_group(
            GroupName=given["name"],
            Strategy=given["strategy"],
            TagSpecifications=tagged(given, "placement-group"),
        )
        return str(given["name"])

    def read(self, api: Api, identity: str, state: Properties) -> Properties | None:
        """Reads it."""
        answer = found(api("ec2").describe_placement_groups, GroupNames=[identity])
        if answer is None:
            return None
        [group] = answer["PlacementGroups"]
        outputs = {"arn": group["GroupArn"], "placementGroupId": group["GroupId"]}
        return {**outputs, "name": group["GroupName"], "strategy": group["Strategy"], "tags": tag_map(group["Tags"])}

    def update(self, api: Api, identity: str, old: Properties, new: Properties) -> None:
        """Changes its tags: not in the double."""
        raise NotImplementedError("other tags of a placement group")

    def delete(self, api: Api, identity: str, state: Properties) -> None:
        """Deletes it."""
        delete(api("ec2").delete_placement_group, GroupName=identity)


class LaunchTemplate:
    """A launch template, a new version for each change."""

    @staticmethod
    def _data(given: Properties) -> Any:
        data = {name: value for name, value in given.items() if name not in NOT_IN_TEMPLATE}
        sent = pascal(data, TEMPLATE_NAMES, keep=lambda name: name in ("tags", "userData"))
        for specification in sent.get("TagSpecifications", ()):
            specification["Tags"] = tag_list({"tags": specification.get("Tags", {})})
        return sent

    def create(self, api: Api, given: Properties) -> str:
        """Creates it with its first version."""
        made = api("ec2").create_launch_template(
            LaunchTemplateName=given["name"],
            LaunchTemplateData=self._data(given),
            TagSpecifications=tagged(given, "launch-template"),
        )
        return str(made["LaunchTemplate"]["LaunchTemplateId"])

    def read(self, api: Api, identity: str, state: Properties) -> Properties | None:
        """Reads it: its name, tags and versions. What is in a version cannot change."""
        answer = found(api("ec2").describe_launch_templates, LaunchTemplateIds=[identity])
        if answer is None or not answer["LaunchTemplates"]:
            return None
        [template] = answer["LaunchTemplates"]
        return {
            "arn": f"arn:aws:ec2:::launch-template/{identity}",
            "name": template["LaunchTemplateName"],
            "latestVersion": template["LatestVersionNumber"],
            "defaultVersion": template["DefaultVersionNumber"],
            "tags": tag_map(template.get("Tags")),
        }

    def update(self, api: Api, identity: str, old: Properties, new: Properties) -> None:
        """Makes a version if its data changed, and makes it the default if the program asks for it."""
        if self._data(old) != self._data(new):
            made = api("ec2").create_launch_template_version(
                LaunchTemplateId=identity, LaunchTemplateData=self._data(new)
            )
            if new.get("updateDefaultVersion"):
                number = str(made["LaunchTemplateVersion"]["VersionNumber"])
                api("ec2").modify_launch_template(LaunchTemplateId=identity, DefaultVersion=number)
        retag(api, identity, old, new)

    def delete(self, api: Api, identity: str, state: Properties) -> None:
        """Deletes it with all versions."""
        delete(api("ec2").delete_launch_template, LaunchTemplateId=identity)
