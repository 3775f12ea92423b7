"""Staged weights, as everything after the volume sees them: one repository at one revision in one directory."""

from dataclasses import dataclass

from config.stack.sections import Model

WEIGHTS_MOUNT = "/weights"
"""Where stager and server mount the volume."""


@dataclass(frozen=True)
class StagedWeights:
    """What is staged, and where."""

    model: Model
    """Repository, revision and patterns, as the stack writes them."""
    digest: str
    """Names the directory on the volume, and the Job that fills it."""

    @property
    def directory(self) -> str:
        """The directory in the pods of stager and server."""
        return f"{WEIGHTS_MOUNT}/{self.digest}"
