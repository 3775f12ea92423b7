"""Questions on standard input, a line each, and an answer a line on standard output.

The engine is imported once. Each rank is built in a process forked from there, since an engine keeps its layout for
good.
"""

from __future__ import annotations

import gc
import json
import os
import pickle
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

_ERROR_CHARACTERS = 300

Result = TypeVar("Result")

Answer = Callable[[dict[str, Any]], dict[str, Any]]
"""Answers a pair: its key, its stages and its cache, or an error."""


def serve(start: Callable[[], Answer]) -> None:
    """Answers pairs until standard input ends; `start` imports the engine first."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # engines print; answers go alone
    answer = start()
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        begin = time.monotonic()
        answered = answer(json.loads(line))
        print(json.dumps(answered | {"seconds": round(time.monotonic() - begin, 1)}), file=answers, flush=True)


def in_fork(work: Callable[[], Result]) -> Result | str:
    """What `work` returns, from a process of its own, or its error."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        result: Result | str
        try:
            result = work()
        except BaseException as error:
            traceback.print_exc()
            result = said(error)
        with os.fdopen(writer, "wb") as pipe:
            pickle.dump(result, pipe)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    if not data:
        return "its process was killed"
    loaded: Result | str = pickle.loads(data)  # noqa: S301 -- from the process forked above
    return loaded


def said(error: BaseException) -> str:
    """An error on one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:_ERROR_CHARACTERS]}"
