"""Waits until the instances of an EKS node group run, or fails with the reason why EC2 launches none.

EKS calls the group of a Capacity Block active though no instance launches (github.com/awsdocs/amazon-eks-user-guide,
latest/ug/ml/capacity-blocks-mng.adoc), and calls any group active whose instances end later. The reasons are in the
group's health and in the activities of its Auto Scaling group, which tries again by itself.
"""

import asyncio
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
from botocore.exceptions import BotoCoreError, ClientError

from components.rollout.obstacles import GiveUpAfter
from components.rollout.stage_watch import Say

_ENDED = ("Successful", "Failed", "Cancelled")
"""Statuses of a scaling activity that is over (botocore, autoscaling, ScalingActivityStatusCode)."""


@dataclass(frozen=True)
class LaunchedGroup:
    """A node group whose instances are awaited."""

    cluster: str
    name: str
    scaling_group: str
    """Name of its Auto Scaling group."""
    nodes: int
    """Number of instances to wait for."""


async def wait_until_launched(
    session: Any, region: str, group: LaunchedGroup, say: Say, give_up_after: GiveUpAfter | None = None
) -> None:
    """Waits until all instances run. `session`: of boto3.

    Raises pulumi.RunError with EC2's reason if they do not launch. If the caller may not read what they do, warns and
    does not wait.
    """
    watch = _Watch(session, region, group, give_up_after or GiveUpAfter())
    while not await asyncio.to_thread(watch.poll):
        if news := watch.news():
            say(news, False)
        await asyncio.sleep(watch.give_up_after.poll_seconds)


class _Watch:
    """What earlier polls of the group have found."""

    def __init__(self, session: Any, region: str, group: LaunchedGroup, give_up_after: GiveUpAfter) -> None:
        self.group, self.give_up_after = group, give_up_after
        self._scaling = session.client("autoscaling", region_name=region)
        self._eks = session.client("eks", region_name=region)
        self._began = self._answered = time.monotonic()
        self._earlier: str | None = None
        """The failed activity of the first poll: its cause may be mended since. Empty: there was none."""
        self._failing_since: float | None = None
        self._doing, self._told = "", ""

    def poll(self) -> bool:
        """Reads the group once. Returns whether the wait is over; raises pulumi.RunError if nothing launches."""
        now = time.monotonic()
        try:
            scaling = self._scaling_group()
            running = sum(each["LifecycleState"] == "InService" for each in scaling["Instances"])
            if running >= self.group.nodes:
                return True
            failure, issues = self._failure(), list(self._issues())
        except ClientError as fault:
            pulumi.warn(f"whether the instances of {self.group.name} run was not awaited: {fault}")
            return True
        except BotoCoreError as fault:
            self._require_answer(fault, now)
            return False
        self._answered = now
        self._judge(running, int(scaling["DesiredCapacity"]), failure, issues, now)
        return False

    def news(self) -> str | None:
        """A message. None: it is the last one."""
        news, self._told = self._doing if self._doing != self._told else None, self._doing
        return news

    def _scaling_group(self) -> Mapping[str, Any]:
        name = self.group.scaling_group
        found = self._scaling.describe_auto_scaling_groups(AutoScalingGroupNames=[name])["AutoScalingGroups"]
        if not found:
            raise pulumi.RunError(
                f"the Auto Scaling group {name} of node group {self.group.name} is gone, and Pulumi's state does not "
                "show it. To do: `pulumi up --refresh`"
            )
        record: Mapping[str, Any] = found[0]
        return record

    def _failure(self) -> Mapping[str, Any] | None:
        """The last activity that is over, if it failed."""
        asked = self._scaling.describe_scaling_activities(AutoScalingGroupName=self.group.scaling_group, MaxRecords=20)
        last = next((each for each in asked["Activities"] if each["StatusCode"] in _ENDED), None)
        failure = last if last is not None and last["StatusCode"] != "Successful" else None
        if self._earlier is None:
            self._earlier = failure["ActivityId"] if failure else ""
        return failure

    def _issues(self) -> Iterator[str]:
        found = self._eks.describe_nodegroup(clusterName=self.group.cluster, nodegroupName=self.group.name)
        for issue in found["nodegroup"].get("health", {}).get("issues", ()):
            yield f"{issue['code']}: {issue['message']}"

    def _require_answer(self, fault: BotoCoreError, now: float) -> None:
        if now - self._answered >= self.give_up_after.unreachable:
            raise pulumi.RunError(f"whether the instances of {self.group.name} run is not known: {fault}")

    def _judge(
        self, running: int, desired: int, failure: Mapping[str, Any] | None, issues: list[str], now: float
    ) -> None:
        reasons = [failure["StatusMessage"], *issues] if failure else issues
        summary = f"{running} of {self.group.nodes} instances of node group {self.group.name} run"
        self._doing = "; ".join([summary, *reasons])
        if desired < self.group.nodes:
            raise pulumi.RunError(f"{summary}: {self._too_small(desired)}")
        fails = bool(issues) or (failure is not None and failure["ActivityId"] != self._earlier)
        self._failing_since = (self._failing_since or now) if fails else None
        failing = now - (self._failing_since or now)
        if failing >= self.give_up_after.obstacle or now - self._began >= self.give_up_after.missing_node:
            waited = reasons or [f"EC2 has launched no other in {now - self._began:.0f} s, and gives no reason"]
            advice = "To do: mend that, and run `pulumi up` again; EC2 Auto Scaling keeps trying until then."
            raise pulumi.RunError("\n  ".join([f"{summary}:", *waited, advice]))

    def _too_small(self, desired: int) -> str:
        named = f"--cluster-name {self.group.cluster} --nodegroup-name {self.group.name}"
        return (
            f"its desired size is {desired}. EKS sets it to 0 before the end of a Capacity Block, and the program "
            f"leaves it as it is. To do: `aws eks update-nodegroup-config {named} --scaling-config "
            f"desiredSize={self.group.nodes}`, and run `pulumi up` again"
        )
