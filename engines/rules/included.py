"""Rules for include patterns: files that the engine needs must be staged."""

from __future__ import annotations

import re
from collections.abc import Iterator

from engines.finding import Finding, rejected
from engines.request import FitRequest
from stager.listing import matches

_CONFIG = "config.json"
_WEIGHTS = ".safetensors"


def stages(include: tuple[str, ...], file: str) -> bool:
    """Whether the patterns select a file, as the stager reads them. Without patterns, everything is staged."""
    return not include or any(matches(file, pattern) for pattern in include)


def check_included(request: FitRequest) -> Iterator[Finding]:
    """Rejects patterns that leave out `config.json` or the weights."""
    include = ", ".join(request.include)
    if not stages(request.include, _CONFIG):
        yield rejected(
            "config_not_included",
            f"The include patterns {include} do not stage {_CONFIG}, which the engine needs to identify the model.",
            f"Remove include, or add {_CONFIG} and the tokenizer's files to it.",
        )
    if request.include and not any(_may_stage_weights(pattern) for pattern in request.include):
        yield rejected(
            "weights_not_included",
            f"The include patterns {include} stage no file that ends with {_WEIGHTS}, so none of the weights.",
            f"Remove include, or add *{_WEIGHTS} to it.",
        )


def _may_stage_weights(pattern: str) -> bool:
    """Whether a pattern can select any file of weights: its end, after the last wildcard, must agree with theirs."""
    end = "" if pattern.endswith("/") else re.split(r"[*?\]]", pattern)[-1]
    return end.endswith(_WEIGHTS) or (end != pattern and _WEIGHTS.endswith(end))
