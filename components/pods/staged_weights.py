"""Staged weights: one repository at one revision, in one directory."""

from dataclasses import dataclass
from typing import Self

from components.arguments import read_section
from config.stack import arguments
from config.stack.sections import StagedRepository
from config.stack.weights import lock_sha256, weights_digest

WEIGHTS_MOUNT = "/weights"
"""Mount path of the volume in the pods of stager and server."""


@dataclass(frozen=True)
class StagedWeights:
    """What is staged, and where."""

    model: StagedRepository
    """Repository, revision and patterns, as the stack states them."""
    digest: str
    """Names the directory on the volume, and the Job that fills it."""

    @classmethod
    def of(cls, model: arguments.StagedRepository, lock: str | None, key: str = "model") -> Self:
        """Reads the weights from a component's arguments. `lock`: text of the lock file. None: no lock. `key`: of the
        arguments, for messages.

        Raises pulumi.RunError with every fault.
        """
        checked = read_section(StagedRepository, key, model)
        return cls(checked, weights_digest(checked, lock_sha256(lock) if lock else None))

    @property
    def directory(self) -> str:
        """Path of the directory in the pods of stager and server."""
        return f"{WEIGHTS_MOUNT}/{self.digest}"
