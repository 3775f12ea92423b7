"""The engines by name. A new engine is one more case here; without it, mypy fails on `assert_never`."""

from __future__ import annotations

from typing import assert_never

from config.engine_name import EngineName
from engines.engine import Engine
from engines.llama_cpp.engine import LlamaCpp
from engines.sglang.engine import Sglang
from engines.vllm.engine import Vllm

_VLLM: Engine = Vllm()
_SGLANG: Engine = Sglang()
_LLAMA_CPP: Engine = LlamaCpp()


def engine_of(name: EngineName) -> Engine:
    """The engine of that name."""
    match name:
        case EngineName.VLLM:
            return _VLLM
        case EngineName.SGLANG:
            return _SGLANG
        case EngineName.LLAMA_CPP:
            return _LLAMA_CPP
        case _:
            assert_never(name)


def engine_for(checkpoint_format: str) -> EngineName:
    """The default engine for a format: the first that reads it.

    Raises ValueError if none does.
    """
    for name in EngineName:
        if engine_of(name).reads(checkpoint_format):
            return name
    raise ValueError(f"no engine reads checkpoints of format {checkpoint_format!r}")
