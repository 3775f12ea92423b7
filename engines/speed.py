"""The speed of a plan: the bound from physics, and where there is evidence the likely range."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Workload:
    """Requests that are alike and have no prefix in common.

    The defaults are our own choice: the longer of the two shapes that public benchmarks measure most.
    """

    prompt_tokens: int = 8192
    answer_tokens: int = 1024

    @property
    def tokens(self) -> int:
        """Tokens of a request at its end."""
        return self.prompt_tokens + self.answer_tokens

    @property
    def middle(self) -> float:
        """Tokens of a request in the middle of its answer."""
        return self.prompt_tokens + self.answer_tokens / 2


@dataclass(frozen=True, slots=True)
class Times:
    """Times of one user, in seconds."""

    tpot: float
    """Time per output token after the first (TPOT)."""
    ttft: float
    """Time to first token (TTFT)."""


@dataclass(frozen=True, slots=True)
class SpeedAt:
    """The speed of one server for a number of users, each with one request at a time."""

    users: int
    bound: Times
    """No less is possible. Its TTFT is that of a prompt that has the server for itself."""
    likely: tuple[Times, Times] | None = None
    """Two ends: fast, slow. None: no published measurement is near."""

    def tokens_per_second(self, times: Times) -> float:
        """Output tokens of the server with these times."""
        return self.users / times.tpot


@dataclass(frozen=True, slots=True)
class GpuHours:
    """GPU hours for a million tokens of prompts and a million of answers; the two add up.

    Of a server that is never idle and has the most users.
    """

    prompts: float
    answers: float


@dataclass(frozen=True, slots=True)
class Speed:
    """The speed of one server of a plan."""

    workload: Workload
    gpus: int
    """GPUs of the server."""
    at: tuple[SpeedAt, ...]
    """For one user, and for the most users whose requests the KV cache surely holds."""
    least_gpu_hours: GpuHours
    """A bound."""
    usd_per_gpu_hour: float | None
    """Cost of the stack by the GPUs of its servers. None: not known."""
    tokens_per_step: int = 1
    """Most tokens that a step yields for a request: the drafted ones, all accepted, and one."""
    why_no_range: str | None = None
    """Why nothing is likely. None: there is a range."""

    @property
    def one(self) -> SpeedAt:
        """For one user."""
        return self.at[0]

    @property
    def most(self) -> SpeedAt:
        """For the most users."""
        return self.at[-1]

    @property
    def most_likely(self) -> SpeedAt | None:
        """For the most users that a range is known for. None: for none."""
        return next((at for at in reversed(self.at) if at.likely is not None), None)

    def gpu_hours_of_answers(self, at: SpeedAt, times: Times) -> float:
        """GPU hours for a million tokens of answers, between the first and last token of requests."""
        return self.gpus * 1e6 / 3600 / at.tokens_per_second(times)

    def as_dict(self) -> dict[str, Any]:
        """The speed as plain JSON values, with the keys that `python -m planner fit --json` documents."""
        return {
            **asdict(self.workload),
            "bound": {
                "users": [self._at(at, at.bound) for at in self.at],
                "gpu_hours_per_million_tokens": {
                    "prompts": _rounded(self.least_gpu_hours.prompts),
                    "answers": _rounded(self.least_gpu_hours.answers),
                },
                "usd_per_million_tokens": self._usd(self.least_gpu_hours),
            },
            "likely": self._likely(),
            "why_no_likely_range": self.why_no_range,
        }

    def usd(self, gpu_hours: float) -> float | None:
        """US dollars for GPU hours. None: the price is not known."""
        return None if self.usd_per_gpu_hour is None else self.usd_per_gpu_hour * gpu_hours

    def _at(self, at: SpeedAt, times: Times) -> dict[str, Any]:
        """One end, with the figures that follow from it."""
        per_second = at.tokens_per_second(times)
        return {
            "users": at.users,
            "tpot_ms": _rounded(1000 * times.tpot),
            "ttft_ms": _rounded(1000 * times.ttft),
            "output_tokens_per_second": _rounded(per_second),
            "output_tokens_per_second_per_gpu": _rounded(per_second / self.gpus),
        }

    def _likely(self) -> dict[str, Any] | None:
        """Both ends for each number of users that a range is known for."""
        known = [(at, at.likely) for at in self.at if at.likely is not None]
        if not known:
            return None
        return {"users": [{"fast": self._end(at, fast), "slow": self._end(at, slow)} for at, (fast, slow) in known]}

    def _end(self, at: SpeedAt, times: Times) -> dict[str, Any]:
        """One end of the likely range, with what a million tokens of answers cost."""
        hours = self.gpu_hours_of_answers(at, times)
        usd = self.usd(hours)
        return self._at(at, times) | {
            "gpu_hours_per_million_output_tokens": _rounded(hours),
            "usd_per_million_output_tokens": None if usd is None else _rounded(usd),
        }

    def _usd(self, hours: GpuHours) -> dict[str, float] | None:
        if self.usd_per_gpu_hour is None:
            return None
        return {
            "prompts": _rounded(self.usd_per_gpu_hour * hours.prompts),
            "answers": _rounded(self.usd_per_gpu_hour * hours.answers),
        }


def _rounded(value: float) -> float:
    """The value to three digits, so that an export does not change with the last bits of a sum."""
    return float(f"{value:.3g}")
