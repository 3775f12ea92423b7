"""Tables in vLLM's sources, read from the wheels of its releases: `python -m tests.oracle.release_facts [RELEASE ...]`.

Nothing is imported or run: the sources are parsed. Without arguments, the releases that `config/data` already has are
read again. Writes `config/data/vllm_releases.json`, a line a release.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from tests.oracle.attention_facts import attention_backends
from tests.oracle.wheel import Sources, strings, update_facts

FACTS = Path(__file__).parents[2] / "config" / "data" / "vllm_releases.json"
_ABOUT = (
    "Tables in the sources of vLLM's wheels, a line a release: flags of `vllm serve` with their short forms, the "
    "default of gpu_memory_utilization, types of KV cache, quantisation methods with the least compute capability, "
    "attention backends with what they take, parsers, architectures. null: no plain value in the source. Made by "
    "`make vllm-facts`."
)

_WANTED = (
    "vllm/config.py", "vllm/config/*.py", "vllm/engine/arg_utils.py", "vllm/entrypoints/*cli_args.py",
    "vllm/model_executor/models/registry.py", "vllm/model_executor/layers/quantization/*.py",
    "vllm/v1/attention/backends/*.py", "vllm/attention/backends/abstract.py", "vllm/v1/attention/backend.py",
    "vllm/v1/kv_cache_interface.py", "vllm/v1/core/kv_cache_*.py", "vllm/platforms/interface.py",
    "vllm/tool_parsers/__init__.py", "vllm/reasoning/*.py", "vllm/entrypoints/openai/tool_parsers/*.py",
)  # fmt: skip


def facts(release: str, sources: Sources) -> dict[str, Any]:
    """The tables of one release."""
    flags, short_forms = _flags(sources)
    return {
        "release": release,
        "gpu_memory_utilization": _utilization(sources),
        "cache_types": _literal(sources, "CacheDType"),
        "quantization": _quantization(sources),
        "cache_rules": _cache_rules(sources),
        "attention_backends": attention_backends(sources),
        "tool_parsers": _parsers(sources, "tool_parsers"),
        "reasoning_parsers": _parsers(sources, "reasoning"),
        "architectures": _architectures(sources),
        "short_forms": short_forms,
        "flags": flags,
    }


def _walk(sources: Sources, *patterns: str) -> Iterator[ast.AST]:
    for name, tree in sources.items():
        if any(fnmatch(name, pattern) for pattern in patterns):
            yield from ast.walk(tree)


def _assigned(sources: Sources, *patterns: str) -> Iterator[tuple[str, ast.expr]]:
    """Names with the expression that is assigned to them."""
    for node in _walk(sources, *patterns):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
            yield node.target.id, node.value


def _literal(sources: Sources, name: str) -> list[str]:
    return next(strings(value) for found, value in _assigned(sources, "vllm/config*") if found == name)


def _utilization(sources: Sources) -> float:
    """The default of `gpu_memory_utilization`, as a number or within `Field(default=...)`."""
    for name, value in _assigned(sources, "vllm/config.py", "vllm/config/cache.py"):
        if name == "gpu_memory_utilization":
            numbers = [node.value for node in ast.walk(value) if isinstance(node, ast.Constant)]
            return next(number for number in numbers if isinstance(number, float))
    raise LookupError("gpu_memory_utilization has no default in vllm/config")


def _cache_rules(sources: Sources) -> dict[str, Any]:
    """How the KV cache planner deals with layers that differ.

    `group_factor`: groups are as large as the commoner kind where it has fewer layers than the rarer one times this.
    `batches_in_flight`: a window keeps the tokens of every batch in flight, not of one. `checkpoint_alignment`: blocks
    of linear attention are aligned to its prefill checkpoints.
    """
    factors = [
        node.comparators[0].right.value
        for node in _walk(sources, "vllm/v1/core/kv_cache_*.py")
        if isinstance(node, ast.Compare)
        and getattr(node.left, "id", "") == "max_num_layers"
        and isinstance(node.comparators[0], ast.BinOp)
        and isinstance(node.comparators[0].right, ast.Constant)
    ]
    return {
        "group_factor": factors[0] if factors else None,
        "batches_in_flight": _mentions(sources, "vllm/v1/kv_cache_interface.py", "max_in_flight_tokens"),
        "checkpoint_alignment": _mentions(
            sources, "vllm/platforms/interface.py", "get_mamba_prefill_checkpoint_alignment"
        ),
    }


def _mentions(sources: Sources, pattern: str, name: str) -> bool:
    return any(name in (getattr(node, "id", ""), getattr(node, "attr", "")) for node in _walk(sources, pattern))


def _flags(sources: Sources) -> tuple[list[str], dict[str, str]]:
    """Flags of the engine and of the server, and short forms with what they stand for."""
    flags: set[str] = set()
    short_forms = {}
    for node in _walk(sources, "vllm/engine/arg_utils.py", "vllm/entrypoints/*cli_args.py"):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument":
            names = [text for argument in node.args for text in strings(argument) if text.startswith("-")]
            long = [name for name in names if name.startswith("--") and len(name) > 2]
            flags.update(long)
            short_forms.update({name: long[0] for name in names if long and re.fullmatch("-[A-Za-z]+", name)})
        if isinstance(node, ast.ClassDef) and node.name.endswith("FrontendArgs"):
            flags.update(f"--{name.replace('_', '-')}" for name in _fields(node))
    return sorted(flags), dict(sorted(short_forms.items()))


def _fields(node: ast.ClassDef) -> Iterator[str]:
    """Fields of a dataclass."""
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield statement.target.id


def _quantization(sources: Sources) -> dict[str, int | None]:
    """Methods with the least compute capability of their configuration class; `None`: not a number in its source."""
    least: dict[str, int | None] = {}
    for node in _walk(sources, "vllm/model_executor/layers/quantization/*.py"):
        if isinstance(node, ast.ClassDef) and (names := _returned(node, "get_name")):
            numbers = _returned(node, "get_min_capability")
            least[names[0]] = numbers[0] if numbers and isinstance(numbers[0], int) else None
    methods = next(
        strings(value)
        for name, value in _assigned(sources, "vllm/model_executor/layers/quantization/__init__.py")
        if name == "QuantizationMethods"
    )
    return {method: least.get(method) for method in sorted(methods)}


def _returned(node: ast.ClassDef, method: str) -> list[Any]:
    """Constants that a method of a class returns."""
    found = [each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == method]
    returns = [each.value for function in found for each in ast.walk(function) if isinstance(each, ast.Return)]
    return [value.value for value in returns if isinstance(value, ast.Constant)]


def _parsers(sources: Sources, kind: str) -> list[str]:
    """Names of parsers: keys of the table of later releases, or what the decorators of earlier ones say."""
    names = {
        key.value
        for name, value in _assigned(sources, f"vllm/{kind}/*.py", f"vllm/entrypoints/openai/{kind}/*.py")
        if name.endswith("PARSERS_TO_REGISTER") and isinstance(value, ast.Dict)
        for key in value.keys
        if isinstance(key, ast.Constant)
    }
    for node in _walk(sources, f"vllm/{kind}/*.py", f"vllm/entrypoints/openai/{kind}/*.py"):
        if isinstance(node, ast.ClassDef):
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call) and getattr(decorator.func, "attr", "") == "register_module":
                    names.update(strings(decorator))
    return sorted(map(str, names))


def _architectures(sources: Sources) -> list[str]:
    """Architectures with a model class; those that a release no longer has are left out."""
    return sorted(
        {
            key.value
            for name, value in _assigned(sources, "vllm/model_executor/models/registry.py")
            if name.endswith("_MODELS") and name != "_PREVIOUSLY_SUPPORTED_MODELS" and isinstance(value, ast.Dict)
            for key in value.keys
            if isinstance(key, ast.Constant) and isinstance(key.value, str)
        }
    )


def main(releases: list[str]) -> None:
    """Reads the releases and writes their facts beside those that the file has already."""
    update_facts("vllm", releases, FACTS, _ABOUT, _WANTED, facts)


if __name__ == "__main__":
    main(sys.argv[1:])
