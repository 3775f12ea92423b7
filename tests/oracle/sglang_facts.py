"""Tables in SGLang's sources, read from wheels of its releases: `python -m tests.oracle.sglang_facts [RELEASE ...]`.

Nothing is imported or run: the sources are parsed. Without arguments, the releases that `config/data` already has are
read again. Writes `config/data/sglang_releases.json`, a line a release.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from tests.oracle.wheel import Sources, strings, update_facts

FACTS = Path(__file__).parents[2] / "config" / "data" / "sglang_releases.json"
_ABOUT = (
    "Tables in the sources of SGLang's wheels, a line a release: flags of the server with their other names, parsers, "
    "architectures with a model class, and architectures with images for which prefill runs in CUDA graphs. Made by "
    "`make sglang-facts`."
)
_FIELDS = "sglang/srt/arg_groups/fields/*.py"
_SERVER = "sglang/srt/server_args.py"
_MODEL_CONFIG = "sglang/srt/configs/model_config.py"
_TOOLS = "sglang/srt/function_call/function_call_parser.py"
_REASONING = "sglang/srt/parser/reasoning_parser.py"
_MODELS = "sglang/srt/models/*.py"

_WANTED = (_FIELDS, _SERVER, _MODEL_CONFIG, _TOOLS, _REASONING, _MODELS)


def facts(release: str, sources: Sources) -> dict[str, Any]:
    """The tables of one release."""
    flags, short_forms = _flags(sources)
    return {
        "release": release,
        "tool_parsers": _keys(sources, _TOOLS, "ToolCallParserEnum"),
        "reasoning_parsers": _keys(sources, _REASONING, "DetectorMap"),
        "prompts_in_graphs": sorted(
            set(strings(_assigned(sources, _MODEL_CONFIG, "multimodal_breakable_cuda_graph_supported_model_archs")))
        ),
        "architectures": sorted(_architectures(sources)),
        "short_forms": short_forms,
        "flags": flags,
    }


def _walk(sources: Sources, pattern: str) -> Iterator[ast.AST]:
    for name, tree in sources.items():
        if fnmatch(name, pattern):
            yield from ast.walk(tree)


def _assigned(sources: Sources, pattern: str, name: str) -> ast.expr:
    """The expression that is assigned to a name. Raises LookupError."""
    for node in _walk(sources, pattern):
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == name:
            return node.value
        if isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") == name and node.value:
            return node.value
    raise LookupError(f"{pattern} assigns nothing to {name}")


def _keys(sources: Sources, pattern: str, name: str) -> list[str]:
    """The keys of a table."""
    table = _assigned(sources, pattern, name)
    keys = table.keys if isinstance(table, ast.Dict) else []
    return sorted(key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str))


def _flags(sources: Sources) -> tuple[list[str], dict[str, str]]:
    """Flags, and their other names with what they stand for: of annotated fields, and of calls of the parser."""
    flags: set[str] = set()
    others: dict[str, str] = {}
    for node in _walk(sources, _FIELDS):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and _is_argument(node.annotation):
            said = _said_of(node.annotation)
            if not said.get("no_cli"):
                # `add_cli_args_from_dataclass` of arg_groups/arg_utils.py names a flag after its field.
                flag = said.get("cli_name") or f"--{node.target.id.replace('_', '-')}"
                flags.add(flag)
                others.update(dict.fromkeys(said.get("aliases") or (), flag))
    for node in _walk(sources, _SERVER):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument":
            names = [text for argument in node.args for text in strings(argument) if text.startswith("--")]
            flags.update(names[:1])
            others.update(dict.fromkeys(names[1:], names[0]))
    return sorted(flags), dict(sorted(others.items()))


def _is_argument(annotation: ast.expr) -> bool:
    """Whether an annotation says that the field is an argument: `A[type, help]`."""
    return isinstance(annotation, ast.Subscript) and getattr(annotation.value, "id", "") == "A"


def _said_of(annotation: ast.expr) -> dict[str, Any]:
    """The plain values that `Arg(...)` within an annotation is given."""
    for node in ast.walk(annotation):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Arg":
            wanted = [each for each in node.keywords if each.arg in ("aliases", "cli_name", "no_cli")]
            return {str(each.arg): ast.literal_eval(each.value) for each in wanted}
    return {}


def _architectures(sources: Sources) -> Iterator[str]:
    """Classes that a model file registers: its `EntryClass`."""
    for name, tree in sources.items():
        if not fnmatch(name, _MODELS):
            continue
        for node in tree.body:
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "EntryClass":
                yield from (each.id for each in ast.walk(node.value) if isinstance(each, ast.Name))


def main(releases: list[str]) -> None:
    """Reads the releases and writes their facts beside those that the file has already."""
    update_facts("sglang", releases, FACTS, _ABOUT, _WANTED, facts)


if __name__ == "__main__":
    main(sys.argv[1:])
