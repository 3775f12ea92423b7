"""Warns of a release with published vulnerabilities, as far as the catalogue has their records."""

from __future__ import annotations

import re
from collections.abc import Iterator

from config.catalogue import Vulnerability, engine_facts, vulnerabilities
from engines.finding import Finding, warning
from engines.request import FitRequest

Release = tuple[int, ...]
"""The numbers of a release, comparable between releases of one engine."""


def check_vulnerabilities(request: FitRequest) -> Iterator[Finding]:
    """Warns of a release with known vulnerabilities, and names the oldest one with every fix."""
    version = request.engine_version or engine_facts(request.engine).default_version
    release = _release(version)
    applicable = [each for each in vulnerabilities(request.engine) if _applies(each, request)]
    if release is None:
        fixes = [each.fixed_in for each in applicable if each.fixed_in]
        yield warning(
            "vulnerabilities_not_checked",
            f"Whether engine.version {version} has known vulnerabilities was not checked: expected a release, "
            f"{fixes[-1]} or newer.",
        )
        return
    found = [each for each in applicable if _affects(each, release)]
    fixed = [each for each in found if each.fixed_in]
    if fixed:
        newest = max(fixed, key=lambda each: _release(each.fixed_in or "") or ())
        listed = "; ".join(f"{each.id} ({each.what}), fixed in {each.fixed_in}" for each in fixed)
        yield warning(
            "engine_with_vulnerabilities",
            f"engine.version {version} has known vulnerabilities: {listed}. Use {newest.fixed_in} or newer.",
        )
    for each in found:
        if each.fixed_in is None:
            yield warning(
                "vulnerability_without_fix",
                f"engine.{each.setting} is open to {each.id}: {each.what}. No release is known to fix it. Leave "
                f"{each.setting} out, or let only clients that you trust call the server (heavylift:network.from).",
            )


def _applies(found: Vulnerability, request: FitRequest) -> bool:
    return found.setting is None or getattr(request, found.setting) is not None


def _affects(found: Vulnerability, release: Release) -> bool:
    since, fixed = _release(found.affected_since or ""), _release(found.fixed_in or "")
    return (since is None or release >= since) and (fixed is None or release < fixed)


def _release(version: str) -> Release | None:
    """The numbers of `0.33.0`, `v0.33` or `b10920`. None: the text names no release."""
    if build := re.fullmatch(r"b(\d+)", version):
        return (int(build[1]),)
    numbers = re.match(r"v?(\d+)\.(\d+)(?:\.(\d+))?", version)
    return tuple(int(number or 0) for number in numbers.groups()) if numbers else None
