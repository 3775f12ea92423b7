"""Faults that the hub shows when told to, and when each of them strikes.

Some strike instead of an answer (status, reset, html, redirect, expire), some change its headers (etag, commit) or
what a branch means (move), the others strike while the bytes of a file are sent (see `lab.hub.delivery`). Only
requests that a fault can strike are counted: a fault in the bytes is not used up by a redirect on the way to them.
"""

import fnmatch
import itertools
from typing import Annotated, Any, Literal, TypeVar

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveFloat, PositiveInt, TypeAdapter

from lab.hub.pace import Pace


class Fault(BaseModel):
    """Which requests a fault strikes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str = "*"
    """Shell pattern for the path of the URL, without its query; `*` matches slashes too."""
    method: Literal["GET", "HEAD", "POST"] | None = None
    """The method. Unset: any."""
    after: NonNegativeInt = 0
    """How many requests pass unharmed before the first is struck."""
    count: PositiveInt | None = None
    """How many requests are struck. Unset: all."""


class Status(Fault):
    """An error status instead of the answer."""

    kind: Literal["status"] = "status"
    status: Annotated[int, Field(ge=400, le=599)]
    headers: dict[str, str] = {}
    """Further headers, such as `Retry-After`."""


class Reset(Fault):
    """The connection is reset instead of an answer."""

    kind: Literal["reset"] = "reset"


class Html(Fault):
    """A web page with status 200 instead of the answer."""

    kind: Literal["html"] = "html"


class Redirect(Fault):
    """A redirect to another place; unset, to a port of the client's own machine where nobody listens."""

    kind: Literal["redirect"] = "redirect"
    location: str = "http://127.0.0.1:9/"


class Expire(Fault):
    """The signed URL of the request is expired from now on: 403, until another one is asked for."""

    kind: Literal["expire"] = "expire"


class Etag(Fault):
    """`ETag` and `X-Linked-ETag` say this instead of the truth."""

    kind: Literal["etag"] = "etag"
    etag: str


class Commit(Fault):
    """`X-Repo-Commit` says this instead of the truth."""

    kind: Literal["commit"] = "commit"
    commit: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]


class Move(Fault):
    """Branches of the repository point to this commit, which the table has, instead of their own."""

    kind: Literal["move"] = "move"
    commit: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]


class FaultAt(Fault):
    """A fault at one byte of a file; it strikes only answers that contain this byte."""

    offset: NonNegativeInt
    """Counted from the start of the file, not of the range."""


class Stall(FaultAt):
    """No byte for some seconds before the one at `offset`, then the rest."""

    kind: Literal["stall"] = "stall"
    seconds: PositiveFloat


class Truncate(FaultAt):
    """The connection is closed in good order before the byte at `offset`, though more was promised."""

    kind: Literal["truncate"] = "truncate"


class ResetBody(FaultAt):
    """The connection is reset before the byte at `offset`."""

    kind: Literal["reset_body"] = "reset_body"


class Flip(FaultAt):
    """All bits of the byte at `offset` are flipped."""

    kind: Literal["flip"] = "flip"


class Length(Fault):
    """The file is longer or shorter by `by` bytes than the hub says elsewhere, in all headers of this answer."""

    kind: Literal["length"] = "length"
    by: int


class Slow(Fault):
    """All answers that it strikes share this many bytes per second."""

    kind: Literal["slow"] = "slow"
    bytes_per_second: PositiveFloat


class IgnoreRange(Fault):
    """The whole file with status 200, whatever range was asked for."""

    kind: Literal["ignore_range"] = "ignore_range"


AnyFault = Annotated[
    Status
    | Reset
    | Html
    | Redirect
    | Expire
    | Etag
    | Commit
    | Move
    | Stall
    | Truncate
    | ResetBody
    | Length
    | Flip
    | Slow
    | IgnoreRange,
    Field(discriminator="kind"),
]
FAULT: TypeAdapter[AnyFault] = TypeAdapter(AnyFault)

Answer = Status | Reset | Html | Redirect
"""What strikes instead of an answer."""

Kind = TypeVar("Kind", bound=Fault)
KindAt = TypeVar("KindAt", bound=FaultAt)


class ArmedFault:
    """A fault that was told, and what it did so far."""

    def __init__(self, number: int, fault: Fault) -> None:
        self.number = number
        self.fault = fault
        self.passed = 0
        self.struck = 0
        self.pace = Pace(fault.bytes_per_second) if isinstance(fault, Slow) else None

    def strikes(self, request: web.BaseRequest) -> bool:
        """Whether it strikes this request; counts the request."""
        fault = self.fault
        if self.struck == fault.count or fault.method not in (None, request.method):
            return False
        if not fnmatch.fnmatchcase(request.path, fault.path):
            return False
        if self.passed < fault.after:
            self.passed += 1
            return False
        self.struck += 1
        return True

    def described(self) -> dict[str, Any]:
        """What `GET /lab/faults` says of it."""
        return {"number": self.number, "struck": self.struck, **self.fault.model_dump()}


class Faults:
    """All faults that were told, in the order they were told."""

    def __init__(self) -> None:
        self._armed: list[ArmedFault] = []
        self._numbers = itertools.count(1)

    def arm(self, fault: Fault) -> ArmedFault:
        """Let `fault` strike from now on."""
        armed = ArmedFault(next(self._numbers), fault)
        self._armed.append(armed)
        return armed

    def clear(self) -> None:
        """Let no fault strike any more."""
        self._armed.clear()

    def described(self) -> list[dict[str, Any]]:
        """All faults with what they did so far."""
        return [armed.described() for armed in self._armed]

    def take(self, kind: type[Kind], request: web.BaseRequest) -> Kind | None:
        """The first fault of this kind that strikes the request."""
        for armed in self._armed:
            if isinstance(armed.fault, kind) and armed.strikes(request):
                return armed.fault
        return None

    def take_answer(self, request: web.BaseRequest) -> Answer | None:
        """The first fault that strikes the request instead of an answer."""
        for armed in self._armed:
            if isinstance(armed.fault, Answer) and armed.strikes(request):
                return armed.fault
        return None

    def take_at(self, kind: type[KindAt], request: web.BaseRequest, start: int, stop: int) -> list[KindAt]:
        """All faults of this kind at a byte from `start` up to, not including, `stop` that strike the request."""
        return [
            armed.fault
            for armed in self._armed
            if isinstance(armed.fault, kind) and start <= armed.fault.offset < stop and armed.strikes(request)
        ]

    def take_paces(self, request: web.BaseRequest) -> list[Pace]:
        """The rates that bound the answer to the request."""
        return [armed.pace for armed in self._armed if armed.pace is not None and armed.strikes(request)]
