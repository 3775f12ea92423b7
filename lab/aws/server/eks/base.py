"""What the operations of EKS share: the cluster that they name, roles, and the answers to updates."""

import datetime as dt
import json
from collections.abc import Sequence
from typing import Any

from moto.core.responses import ActionResult, BaseResponse
from moto.ec2.models import ec2_backends
from moto.iam.models import iam_backends

from lab.aws.server.refusal import refuse
from lab.aws.server.store import REGIONS, NodeGroup, Record, Region, identifier


def now() -> dt.datetime:
    """Returns the present, in UTC."""
    return dt.datetime.now(dt.UTC)


class EKSOperations(BaseResponse):
    """Operations on the state of one account and region."""

    def __init__(self) -> None:
        super().__init__(service_name="eks")
        self.automated_parameter_parsing = True

    @property
    def _kept(self) -> Region:
        return REGIONS[self.current_account][self.region]

    @property
    def _ec2(self) -> Any:
        return ec2_backends[self.current_account][self.region]

    def _cluster(self) -> Record:
        """Returns the cluster that the request names. Refuses as EKS does if it does not exist."""
        name = self.params.get("clusterName") or self.params["name"]
        if name not in self._kept.clusters:
            refuse("cluster-unknown", name=name)
        return self._kept.clusters[name]

    def _group(self) -> NodeGroup:
        """Returns the node group that the request names. Refuses as EKS does if it does not exist."""
        key = self._cluster()["name"], self.params["nodegroupName"]
        if key not in self._kept.groups:
            refuse("group-unknown", group=key[1])
        return self._kept.groups[key]

    def _arn(self, kind: str, *parts: str) -> str:
        return f"arn:{self.partition}:eks:{self.region}:{self.current_account}:{kind}/{'/'.join(parts)}"

    def _caller(self) -> str:
        """Returns the ARN of the user that signed the request."""
        users = iam_backends[self.current_account][self.partition].users.values()
        for user in users:
            if any(key.access_key_id == self.get_access_key() for key in user.access_keys):
                return str(user.arn)
        return f"arn:{self.partition}:iam::{self.current_account}:root"

    def _role(self, arn: str) -> Any:
        """Returns moto's role of that ARN. None: there is none."""
        roles = iam_backends[self.current_account][self.partition].roles.values()
        return next((role for role in roles if role.arn == arn), None)

    @staticmethod
    def _trusted_actions(role: Any, service: str) -> set[str]:
        """Returns the actions that a role's trust policy allows a service."""
        statements = json.loads(role.assume_role_policy_document)["Statement"]
        found: set[str] = set()
        for statement in statements if isinstance(statements, list) else [statements]:
            principals = statement.get("Principal", {}).get("Service", [])
            if service in (principals if isinstance(principals, list) else [principals]):
                actions = statement["Action"]
                found |= set(actions if isinstance(actions, list) else [actions])
        return found

    def _subnets(self, ids: Sequence[str]) -> list[Any]:
        """Returns moto's subnets. Refuses as EKS does if one does not exist."""
        known = {subnet.id: subnet for zone in self._ec2.subnets.values() for subnet in zone.values()}
        for each in ids:
            if each not in known:
                refuse("subnet-unknown", id=each)
        return [known[each] for each in ids]

    @staticmethod
    def _updated(kind: str) -> ActionResult:
        """Returns the answer to an update, which is already done."""
        update = {"id": identifier("update"), "status": "Successful", "type": kind, "createdAt": now()}
        return ActionResult({"update": {**update, "params": [], "errors": []}})
