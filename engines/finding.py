"""One thing that a rule found: a reason to reject, something not known, or something to know."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """What a finding does to the verdict."""

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
    """A reason to reject."""
    return Finding(Severity.REJECTED, code, message, fix)


def unknown(code: str, message: str, fix: str) -> Finding:
    """Something that the facts do not decide."""
    return Finding(Severity.UNKNOWN, code, message, fix)


def warning(code: str, message: str) -> Finding:
    """Something to know."""
    return Finding(Severity.WARNING, code, message)
