"""Faults of AWS that a test or a user switches on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any


@dataclass
class Faults:
    """What goes wrong. The defaults: nothing."""

    insufficient_capacity: Sequence[str] = ()
    """Instance types that EC2 has no capacity for. Instances in a reservation launch all the same."""
    failing_reservations: Sequence[str] = ()
    """Reservations in which EC2 launches no instance, though it lists free ones (terraform-aws-eks issue 3672: 11 of
    16)."""
    joining: int | None = None
    """The most nodes of a new group that join the cluster. None: all."""
    pod_identity_late: bool = False
    """Whether the agents on the nodes do not know new Pod Identity associations yet."""

    def switch(self, values: Mapping[str, Any]) -> None:
        """Sets the given faults and clears the others. Raises ValueError for an unknown name."""
        known = {each.name for each in fields(self)}
        if unknown := sorted(values.keys() - known):
            raise ValueError(f"no fault {', '.join(unknown)}: expected {', '.join(sorted(known))}")
        for name, value in {**vars(Faults()), **values}.items():
            setattr(self, name, value)


FAULTS = Faults()
"""The faults of this server."""
