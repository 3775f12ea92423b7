"""Asks aiconfigurator for speeds; runs where aiconfigurator is installed, which it is not here.

Reads a list of questions as JSON from the standard input, and writes a list of answers: the milliseconds per token and
to the first token with the database that knows them, or why there are none.
"""

from __future__ import annotations

import json
import logging
import sys
import warnings
from typing import Any

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)

from aiconfigurator.cli.api import cli_estimate  # noqa: E402 - it warns and logs while it is imported


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """The estimate of one question: measured kernels first, else measured and computed ones."""
    for database in ("SILICON", "HYBRID"):
        try:
            found = cli_estimate(database_mode=database, **question)
        except Exception as error:
            why = str(error).splitlines()[0][:120]
        else:
            return {"tpot_ms": round(found.tpot, 3), "ttft_ms": round(found.ttft, 1), "database": database}
    return {"why": why}


if __name__ == "__main__":
    json.dump([answer(question) for question in json.load(sys.stdin)], sys.stdout)
