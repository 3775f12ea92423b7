"""How large the volume under the weights must be, and why a smaller one is refused."""

import pulumi

from config.quantity import gigabytes, quantity_bytes, whole_gibibytes
from config.stack import StackConfig, WeightsKind
from planner.plan import Plan


def volume_bytes(stack: StackConfig, plan: Plan) -> int | None:
    """Bytes to ask for; None for `host-path`, which has no size of its own.

    Raises pulumi.RunError when the stack's own size cannot hold what is staged, or when neither is known.
    """
    if stack.weights.kind is WeightsKind.HOST_PATH:
        return None
    size, needed = stack.weights.size, plan.disk_bytes
    if size is None and needed is None:
        raise pulumi.RunError(
            f"heavylift:weights.size: is missing: the bytes of {stack.model.repository} are not known, expected a size "
            "such as 400Gi, or a lock file in heavylift:stage.lock"
        )
    if size is None:
        return needed
    if needed is not None and quantity_bytes(size) < needed:
        raise pulumi.RunError(_too_small(stack, size, plan))
    return quantity_bytes(size)


def _too_small(stack: StackConfig, size: str, plan: Plan) -> str:
    revisions = stack.weights.keep_revisions
    weights, needed = plan.weights_bytes or 0, plan.disk_bytes or 0
    return (
        f"heavylift:weights.size: '{size}' ({gigabytes(quantity_bytes(size))}) is too small: {revisions} revisions of "
        f"{gigabytes(weights)} and a margin need {whole_gibibytes(needed)} ({gigabytes(needed)}); expected that, or no "
        "size at all, or fewer revisions in heavylift:weights.keep_revisions"
    )
