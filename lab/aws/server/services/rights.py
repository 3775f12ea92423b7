"""IAM: SimulatePrincipalPolicy, which moto lacks, on its own reading of policies."""

from collections.abc import Iterator
from typing import Any

from moto.core.responses import ActionResult
from moto.iam.access_control import IAMPolicy, PermissionResult
from moto.iam.models import IAMBackend
from moto.iam.responses import IamResponse

from lab.aws.server.refusal import refuse


class LabIAM(IamResponse):
    """moto's IAM with the simulation of the policies of a user or role, for every resource."""

    def simulate_principal_policy(self) -> ActionResult:
        """SimulatePrincipalPolicy."""
        source = self._get_param("PolicySourceArn")
        policies = list(_policies(self.backend, source))
        actions = [self.querystring[key][0] for key in self.querystring if key.startswith("ActionNames.member.")]
        results = [
            {"EvalActionName": action, "EvalResourceName": "*", "EvalDecision": _decision(policies, action)}
            for action in actions
        ]
        return ActionResult({"EvaluationResults": results, "IsTruncated": False})


def _policies(backend: IAMBackend, source: str) -> Iterator[Any]:
    """Yields the inline and attached policies of a user or role. Refuses any other source."""
    kind, _, path = source.split(":", 5)[-1].partition("/")
    name = path.rsplit("/", 1)[-1]
    if kind == "user":
        yield from (backend.get_user_policy(name, each) for each in backend.list_user_policies(name))
        yield from backend.list_attached_user_policies(name)[0]
    elif kind == "role":
        yield from (backend.get_role_policy(name, each)[1] for each in backend.list_role_policies(name))
        yield from backend.list_attached_role_policies(name)[0]
    else:
        refuse("simulation-of-no-principal", source=source)


def _decision(policies: list[Any], action: str) -> str:
    found = {IAMPolicy(policy).is_action_permitted(action) for policy in policies}
    if PermissionResult.DENIED in found:
        return "explicitDeny"
    return "allowed" if PermissionResult.PERMITTED in found else "implicitDeny"
