"""Warns about settings that the engine does not have: the user expects them to take effect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields

from engines.finding import Finding, warning
from engines.request import FitRequest

_DEFAULTS = {field.name: field.default for field in fields(FitRequest)}


def check_unused(request: FitRequest, missing_settings: Iterable[str]) -> Iterator[Finding]:
    """One warning for all such settings of the request."""
    made = [name for name in _DEFAULTS if name in missing_settings and getattr(request, name) != _DEFAULTS[name]]
    if made:
        yield warning("setting_not_used", f"{', '.join(made)}: {request.engine} has no such setting and ignores it.")
