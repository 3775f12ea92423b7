"""Combines findings into a verdict, problems and warnings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from engines.finding import Finding, Severity
from engines.plan import PlanWarning, Problem, Verdict
from engines.rules.arguments import ENVIRONMENT_NOT_COUNTED, NOT_COUNTED

_OF_MEMORY = ("weights_do_not_fit", "context_does_not_fit")


def _weighed(findings: Sequence[Finding]) -> list[Finding]:
    """The findings, of which those about memory reject nothing beside an argument or variable that can free memory."""
    if all(finding.code not in (NOT_COUNTED, ENVIRONMENT_NOT_COUNTED) for finding in findings):
        return list(findings)
    return [_open(each) if each.code in _OF_MEMORY else each for each in findings]


def _open(finding: Finding) -> Finding:
    """A finding about memory that an argument may change."""
    return replace(finding, severity=Severity.UNKNOWN, fix=finding.fix or "Remove the argument, or try it.")


def judge(findings: Sequence[Finding], *, tight: bool) -> Verdict:
    """The verdict for a list of findings. A rejection takes precedence over something unknown."""
    severities = {finding.severity for finding in _weighed(findings)}
    if Severity.REJECTED in severities:
        return "rejected"
    if Severity.UNKNOWN in severities:
        return "unknown"
    return "tight" if tight else "fits"


def problems_of(findings: Sequence[Finding]) -> tuple[Problem, ...]:
    """Rejections and unknowns, rejections first."""
    ordered = sorted(_weighed(findings), key=lambda finding: finding.severity is not Severity.REJECTED)
    return tuple(Problem(f.code, f.message, f.fix) for f in ordered if f.severity is not Severity.WARNING)


def warnings_of(findings: Sequence[Finding]) -> tuple[PlanWarning, ...]:
    """The warnings."""
    return tuple(PlanWarning(f.code, f.message) for f in findings if f.severity is Severity.WARNING)
