"""Fixed names of Kubernetes objects that a later stack adopts, or that clients outside the stack use.

Each name contains the names of stack and component, so that two components of one kind never share an object.
"""

import re

import pulumi

from config.errors import StackError
from config.stack.file import checked_stack_name

_LONGEST = 63
"""Maximum length of a DNS label. The name of a Service and the value of a label have this limit."""


def stack_name() -> str:
    """Returns the name of the stack. Raises pulumi.RunError if the name is not valid in the name of an object."""
    try:
        return checked_stack_name(pulumi.get_stack())
    except StackError as fault:
        raise pulumi.RunError(f"{fault}; nothing was created") from None


def object_name(name: str) -> str:
    """Returns `<stack>-<name>`. Raises pulumi.RunError if that is not a valid name of an object."""
    whole = f"{stack_name()}-{name}"
    if len(whole) > _LONGEST or not re.fullmatch(r"[a-z0-9-]*[a-z0-9]", name):
        raise pulumi.RunError(
            f"component name '{name}': '{whole}' cannot name a Kubernetes object: expected at most {_LONGEST} "
            "lower-case letters, digits and inner hyphens; nothing was created"
        )
    return whole


def claim_name(volume: str, hostname: str | None = None) -> str:
    """Returns the name of a volume's claim, or of its claim for one node.

    `volume`: object name of the `WeightVolume`.
    """
    return f"{volume}-{hostname}" if hostname else volume


def served_claim_name(volume: str) -> str:
    """Returns the name of the claim that the servers of several nodes mount. No claim of one node has it.

    `volume`: object name of the `WeightVolume`.
    """
    return f"{volume}.served"


def disk_name(namespace: str, claim: str) -> str:
    """Returns the name of a claim's PersistentVolume. The name contains the namespace, because the object has none."""
    return f"heavylift-{namespace}-{claim}"
