"""`heavylift:promotion`: the stack in which a release runs before this one takes it."""

from typing import Annotated

from pydantic import Field, StrictBool, model_validator

from config.errors import StackError
from config.matching import Matching
from config.stack.sections.fields import Section

STACK_NAME = r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?"
_SECONDS = {"m": 60, "h": 3600, "d": 86400}
StackName = Annotated[
    str,
    Matching(STACK_NAME, "a stack of this program: at most 40 lower-case letters, digits and inner hyphens"),
]
Period = Annotated[str, Matching(r"[1-9]\d{0,4}[mhd]", "minutes, hours or days, such as 30m, 24h or 7d")]


class Promotion(Section):
    """The stack that runs a release before this one. `pulumi up` refuses a release that did not prove itself there; a
    release that this stack ran before is never refused."""

    source: StackName | None = Field(default=None, alias="from")
    """Stack that must run the release now, taken up from a clean checkout, and have answered. Unset: any release is
    taken."""
    soak: Period | None = None
    """Time that the release must have run there, such as `24h`. Unset: none."""
    allow_unproven: StrictBool = False
    """Take a release that did not prove itself there, with a warning that gives the reasons."""

    @model_validator(mode="after")
    def _has_a_source(self) -> "Promotion":
        if self.source is None and self.model_fields_set:
            raise ValueError("names no stack: expected from, the stack that runs a release first")
        return self

    def require_another(self, stack: str) -> None:
        """Raises StackError if the stack of this name is itself the one that runs a release first."""
        if self.source == stack:
            raise StackError(
                [f"heavylift:promotion.from: '{stack}' is this stack: expected another one, that runs a release first"]
            )

    @property
    def soak_seconds(self) -> int:
        """Seconds of `soak`; 0 if it is unset."""
        return int(self.soak[:-1]) * _SECONDS[self.soak[-1]] if self.soak else 0
