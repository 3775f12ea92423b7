"""The command lines of `vllm serve` in the committed stacks, as the golden files have them."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from lab.site import CHECKOUT

GOLDEN = CHECKOUT / "tests/golden"
RANK = "$(LWS_WORKER_INDEX)"
"""What the kubelet replaces by the number of a pod in its group."""


def committed_lines() -> dict[str, list[list[str]]]:
    """Returns for each committed stack with vLLM the words after `vllm serve` in each of its pods."""
    found = {}
    for file in sorted(GOLDEN.glob("*.up.json")):
        resources = json.loads(file.read_text())["resources"]
        lines = [[engine["command"][-1], *engine["args"]] for engine in _engines(resources) if _is_vllm(engine)]
        if lines:
            found[file.name.removesuffix(".up.json")] = [[word.replace(RANK, "1") for word in line] for line in lines]
    return found


def flags_of(line: Sequence[str]) -> set[str]:
    """Returns the flags of a command line."""
    return {word.partition("=")[0] for word in line if word.startswith("--")}


def _engines(node: Any) -> Iterator[dict[str, Any]]:
    """Yields the containers of the engine anywhere in a golden file."""
    if isinstance(node, dict):
        if node.get("name") == "engine" and "args" in node:
            yield node
        node = list(node.values())
    if isinstance(node, list):
        for part in node:
            yield from _engines(part)


def _is_vllm(engine: dict[str, Any]) -> bool:
    return "vllm serve" in " ".join(engine["command"])
