"""Faults of the hub, and the requests that each affects.

Some faults replace the response (status, reset, html, redirect, expire), some change its headers (etag, commit) or the
commit of a branch (move), and the others apply while the hub sends a file (see `lab.hub.answers.delivery`). A fault
counts only requests that it can affect: a redirect to a file does not count for a fault in the file's bytes.
"""

import fnmatch
import itertools
from typing import Annotated, Any, Literal, TypeVar

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveFloat, PositiveInt, TypeAdapter

from lab.hub.pace import Pace


class Fault(BaseModel):
    """The requests that a fault affects."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str = "*"
    """Shell pattern for the URL's path, without query. `*` also matches slashes."""
    method: Literal["GET", "HEAD", "POST"] | None = None
    """The method. Unset: any."""
    after: NonNegativeInt = 0
    """Number of matching requests before the first affected one."""
    count: PositiveInt | None = None
    """Maximum number of affected requests. Unset: all."""


class Status(Fault):
    """An error status instead of the response."""

    kind: Literal["status"] = "status"
    status: Annotated[int, Field(ge=400, le=599)]
    headers: dict[str, str] = {}
    """Additional headers, such as `Retry-After`."""


class Reset(Fault):
    """A connection reset instead of the response."""

    kind: Literal["reset"] = "reset"


class Html(Fault):
    """A web page with status 200 instead of the response."""

    kind: Literal["html"] = "html"


class Redirect(Fault):
    """A redirect. `location` unset: to a port of the client's machine on which no server listens."""

    kind: Literal["redirect"] = "redirect"
    location: str = "http://127.0.0.1:9/"


class Expire(Fault):
    """Expires the signed URL of the request: the storage returns 403 until the client requests another URL."""

    kind: Literal["expire"] = "expire"


class Etag(Fault):
    """A wrong value of `ETag` and `X-Linked-ETag`."""

    kind: Literal["etag"] = "etag"
    etag: str


class Commit(Fault):
    """A wrong value of `X-Repo-Commit`."""

    kind: Literal["commit"] = "commit"
    commit: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]


class Move(Fault):
    """Another commit of the table to which the repository's branches point."""

    kind: Literal["move"] = "move"
    commit: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]


class FaultAt(Fault):
    """A fault at one byte of a file. It affects only responses that contain this byte."""

    offset: NonNegativeInt
    """Position from the start of the file, not of the range."""


class Stall(FaultAt):
    """A pause before the byte at `offset`, then the rest."""

    kind: Literal["stall"] = "stall"
    seconds: PositiveFloat


class Truncate(FaultAt):
    """The hub closes the connection normally before the byte at `offset`, with part of the file missing."""

    kind: Literal["truncate"] = "truncate"


class ResetBody(FaultAt):
    """The hub resets the connection before the byte at `offset`."""

    kind: Literal["reset_body"] = "reset_body"


class Flip(FaultAt):
    """The byte at `offset` has all bits flipped."""

    kind: Literal["flip"] = "flip"


class Length(Fault):
    """The file, and its length in this response's headers, differ by `by` bytes from the hub's API."""

    kind: Literal["length"] = "length"
    by: int


class Slow(Fault):
    """A rate that all affected responses share."""

    kind: Literal["slow"] = "slow"
    bytes_per_second: PositiveFloat


class IgnoreRange(Fault):
    """The whole file with status 200 in response to a range request."""

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
"""Faults that replace the response."""

Kind = TypeVar("Kind", bound=Fault)
KindAt = TypeVar("KindAt", bound=FaultAt)


class ArmedFault:
    """An active fault and the number of requests that it affected."""

    def __init__(self, number: int, fault: Fault) -> None:
        self.number = number
        self.fault = fault
        self.passed = 0
        self.struck = 0
        self.pace = Pace(fault.bytes_per_second) if isinstance(fault, Slow) else None

    def strikes(self, request: web.BaseRequest) -> bool:
        """Returns whether the fault affects this request, and counts the request."""
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
        """Returns the fault's entry in `GET /lab/faults`."""
        return {"number": self.number, "struck": self.struck, **self.fault.model_dump()}


class Faults:
    """All active faults, in the order they were added."""

    def __init__(self) -> None:
        self._armed: list[ArmedFault] = []
        self._numbers = itertools.count(1)

    def arm(self, fault: Fault) -> ArmedFault:
        """Adds a fault."""
        armed = ArmedFault(next(self._numbers), fault)
        self._armed.append(armed)
        return armed

    def clear(self) -> None:
        """Removes all faults."""
        self._armed.clear()

    def described(self) -> list[dict[str, Any]]:
        """Returns all faults with their numbers of affected requests."""
        return [armed.described() for armed in self._armed]

    def take(self, kind: type[Kind], request: web.BaseRequest) -> Kind | None:
        """Returns the first fault of this kind that affects the request, and counts the request."""
        for armed in self._armed:
            if isinstance(armed.fault, kind) and armed.strikes(request):
                return armed.fault
        return None

    def take_answer(self, request: web.BaseRequest) -> Answer | None:
        """Returns the first fault that replaces the response to the request."""
        for armed in self._armed:
            if isinstance(armed.fault, Answer) and armed.strikes(request):
                return armed.fault
        return None

    def take_at(self, kind: type[KindAt], request: web.BaseRequest, start: int, stop: int) -> list[KindAt]:
        """Returns all faults of this kind in the bytes from `start` to `stop` (exclusive) that affect the request."""
        return [
            armed.fault
            for armed in self._armed
            if isinstance(armed.fault, kind) and start <= armed.fault.offset < stop and armed.strikes(request)
        ]

    def take_paces(self, request: web.BaseRequest) -> list[Pace]:
        """Returns the rate limits for the response to the request."""
        return [armed.pace for armed in self._armed if armed.pace is not None and armed.strikes(request)]
