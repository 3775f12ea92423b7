"""How large the volume under the weights is made."""

import pulumi

from config.quantity import quantity_bytes
from config.stack.sections import StackConfig, WeightsKind
from engines.plan import Plan


def volume_bytes(stack: StackConfig, plan: Plan) -> int | None:
    """Bytes to ask for: the stack's own size, or what the plan needs; None for `host-path`, which has no size.

    Raises pulumi.RunError when neither is known. A size that is too small is the planner's to refuse.
    """
    if stack.weights.kind is WeightsKind.HOST_PATH:
        return None
    if stack.weights.size is not None:
        return quantity_bytes(stack.weights.size)
    if plan.disk_bytes is None:
        raise pulumi.RunError(
            f"heavylift:weights.size: is missing: the bytes of {stack.model.repository} are not known, expected a size "
            "such as 400Gi, or a lock file in heavylift:stage.lock"
        )
    return plan.disk_bytes
