"""Rules for include patterns: files that the engine needs must be staged."""

from __future__ import annotations

from collections.abc import Iterator

from engines.finding import Finding, rejected
from stager.listing import matches

_CONFIG = "config.json"


def stages(include: tuple[str, ...], file: str) -> bool:
    """Whether the patterns select a file, as the stager reads them. Without patterns, everything is staged."""
    return not include or any(matches(file, pattern) for pattern in include)


def check_included(include: tuple[str, ...]) -> Iterator[Finding]:
    """Rejects patterns that leave out `config.json`."""
    if not stages(include, _CONFIG):
        yield rejected(
            "config_not_included",
            f"The include patterns {', '.join(include)} do not stage {_CONFIG}, which vLLM needs to identify "
            "the model.",
            f"Remove include, or add {_CONFIG} and the tokenizer's files to it.",
        )
