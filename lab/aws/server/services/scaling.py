"""Auto Scaling: the groups of EKS' node groups, and their activities."""

from moto.autoscaling.responses import AutoScalingResponse
from moto.core.responses import ActionResult
from moto.ec2.models import ec2_backends

from lab.aws.server.eks.launches import catch_up
from lab.aws.server.store import REGIONS, NodeGroup


class LabAutoScaling(AutoScalingResponse):
    """moto's Auto Scaling, with the activities of node groups. Only EKS makes Auto Scaling groups here."""

    def describe_scaling_activities(self) -> ActionResult:
        """DescribeScalingActivities of one group, newest first."""
        name = self._get_param("AutoScalingGroupName")
        groups = [group for group in self._groups() if name in (None, group.scaling_group)]
        return ActionResult({"Activities": [each for group in groups for each in group.activities]})

    def describe_auto_scaling_groups(self) -> ActionResult:
        """DescribeAutoScalingGroups."""
        names = self._get_param("AutoScalingGroupNames")
        found = [self._record(group) for group in self._groups() if not names or group.scaling_group in names]
        return ActionResult({"AutoScalingGroups": found})

    def _groups(self) -> list[NodeGroup]:
        region = REGIONS[self.current_account][self.region]
        backend = ec2_backends[self.current_account][self.region]
        groups = list(region.groups.values())
        for group in groups:
            catch_up(region, group, [backend.get_subnet(each) for each in group.record["subnets"]])
        return groups

    @staticmethod
    def _record(group: NodeGroup) -> dict[str, object]:
        sizes = group.record["scalingConfig"]
        instances = [{"InstanceId": each, "LifecycleState": "InService"} for each in group.instances]
        return {
            "AutoScalingGroupName": group.scaling_group,
            "MinSize": sizes["minSize"],
            "MaxSize": sizes["maxSize"],
            "DesiredCapacity": sizes["desiredSize"],
            "VPCZoneIdentifier": ",".join(group.record["subnets"]),
            "Instances": [{**each, "HealthStatus": "Healthy"} for each in instances],
            "CreatedTime": group.record["createdAt"],
        }
