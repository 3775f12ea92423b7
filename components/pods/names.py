"""Names of Kubernetes objects that must be found again, or that something outside the stack depends on.

They are made from the stack and the component, so that two components of one kind never share an object.
"""

import re

import pulumi

from config.errors import StackError
from config.stack.file import checked_stack_name

_LONGEST = 63
"""Characters of a DNS label, which a Service's name and the value of a label must be."""


def stack_name() -> str:
    """The stack, whose name begins that of every object. Raises pulumi.RunError when no object can be called so."""
    try:
        return checked_stack_name(pulumi.get_stack())
    except StackError as fault:
        raise pulumi.RunError(f"{fault}; nothing was created") from None


def object_name(name: str) -> str:
    """`<stack>-<name>`, for the component `name`. Raises pulumi.RunError when that cannot name an object."""
    whole = f"{stack_name()}-{name}"
    if len(whole) > _LONGEST or not re.fullmatch(r"[a-z0-9-]*[a-z0-9]", name):
        raise pulumi.RunError(
            f"component name '{name}': '{whole}' cannot name a Kubernetes object: expected at most {_LONGEST} "
            "lower-case letters, digits and inner hyphens; nothing was created"
        )
    return whole


def claim_name(volume: str, hostname: str | None = None) -> str:
    """Name of the claim of the `WeightVolume` whose objects are called `volume`, or of one of its nodes."""
    return f"{volume}-{hostname}" if hostname else volume


def disk_name(namespace: str, volume: str, hostname: str) -> str:
    """Name of a node's PersistentVolume, which all namespaces share."""
    return f"heavylift-{namespace}-{claim_name(volume, hostname)}"
