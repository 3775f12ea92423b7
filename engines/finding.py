"""The result of a rule: a rejection, something unknown, or a warning."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """The effect of a finding on the verdict."""

    REJECTED = "rejected"
    UNKNOWN = "unknown"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding, with its stable code."""

    severity: Severity
    code: str
    message: str
    fix: str = ""
    """What to do; empty where the planner looks for something that works."""


def rejected(code: str, message: str, fix: str = "") -> Finding:
    """A finding that rejects the plan."""
    return Finding(Severity.REJECTED, code, message, fix)


def unknown(code: str, message: str, fix: str) -> Finding:
    """A finding that makes the verdict `unknown`."""
    return Finding(Severity.UNKNOWN, code, message, fix)


def warning(code: str, message: str) -> Finding:
    """A finding that does not change the verdict."""
    return Finding(Severity.WARNING, code, message)
