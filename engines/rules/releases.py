"""Rules that apply to a range of releases. Between a failing and a working release, the result is unknown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from config.catalogue import release_ranges
from engines.finding import Finding, rejected, unknown, warning
from engines.versions import Version


class Standing(StrEnum):
    """Whether a rule applies to a release."""

    FAILS = "fails"
    UNDETERMINED = "undetermined"
    WORKS = "works"


@dataclass(frozen=True, slots=True)
class ReleaseRule:
    """A rule of `config/data/rules.json` under one release."""

    standing: Standing
    range_text: str
    """Which releases fail and which work, in words, with the source."""


def release_rule(name: str, version: Version) -> ReleaseRule:
    """The standing of a release under a rule. If no release is known to work, the rule applies to all."""
    rule = release_ranges()[name]
    works, fails = rule.works_since, rule.fails_through
    if works is None:
        text = f"No vLLM release is known to serve it; {fails} is known to fail ({rule.source})"
        return ReleaseRule(Standing.FAILS, text)
    text = f"vLLM {fails} is known to fail, {works} to work ({rule.source})"
    if version >= Version.parse(works):
        return ReleaseRule(Standing.WORKS, text)
    if version <= Version.parse(fails):
        return ReleaseRule(Standing.FAILS, text)
    return ReleaseRule(Standing.UNDETERMINED, text)


def by_release(rule: ReleaseRule, code: str, message: str, accepted: str) -> Iterator[Finding]:
    """A rejection if the release fails, a warning if it works, unknown in between."""
    if rule.standing is Standing.FAILS:
        yield rejected(code, message)
    elif rule.standing is Standing.UNDETERMINED:
        yield unknown(code, message, "Use a release that is known to work.")
    elif accepted:
        yield warning(code, accepted)
