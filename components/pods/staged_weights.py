"""Staged weights, as everything after the volume sees them: one repository at one revision in one directory."""

from dataclasses import dataclass
from typing import Self

from components.arguments import read_section
from config.stack import arguments
from config.stack.sections import Model
from config.stack.weights import lock_sha256, weights_digest

WEIGHTS_MOUNT = "/weights"
"""Where stager and server mount the volume."""


@dataclass(frozen=True)
class StagedWeights:
    """What is staged, and where."""

    model: Model
    """Repository, revision and patterns, as the stack writes them."""
    digest: str
    """Names the directory on the volume, and the Job that fills it."""

    @classmethod
    def of(cls, model: arguments.Model, lock: str | None) -> Self:
        """The weights from a component's arguments, with the text of the lock file if there is one.

        Raises pulumi.RunError with what is wrong with them.
        """
        checked = read_section(Model, "model", model)
        return cls(checked, weights_digest(checked, lock_sha256(lock) if lock else None))

    @property
    def directory(self) -> str:
        """The directory in the pods of stager and server."""
        return f"{WEIGHTS_MOUNT}/{self.digest}"
