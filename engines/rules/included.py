"""The files that a stack's include patterns stage, and what an engine cannot do without."""

from __future__ import annotations

from collections.abc import Iterator

from engines.finding import Finding, rejected
from stager.listing import matches

_CONFIG = "config.json"


def stages(include: tuple[str, ...], file: str) -> bool:
    """Whether a file is among what the patterns stage, as the stager reads them: no pattern stages everything."""
    return not include or any(matches(file, pattern) for pattern in include)


def check_included(include: tuple[str, ...]) -> Iterator[Finding]:
    """Patterns that leave out the file by which vLLM knows the model."""
    if not stages(include, _CONFIG):
        yield rejected(
            "config_not_included",
            f"The include patterns {', '.join(include)} do not stage {_CONFIG}, without which vLLM knows no model.",
            f"Leave include out, or add {_CONFIG} and the tokenizer's files to the weights'.",
        )
