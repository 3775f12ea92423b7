"""The planner against vLLM's own code, for every pair that `make oracle` built.

The results are `tests/data/oracle/<release>.json`, the configurations beside them. A pair's model is looked for in the
catalogue first, as a user names it, and is otherwise read from a directory with its configuration.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from config.catalogue import NotInCatalogueError, find_checkpoint, find_gpu
from config.checkpoint.model_spec import find_model
from engines.request import FitRequest
from engines.versions import Version
from engines.vllm.memory.stages import weights_by_group
from engines.vllm.resolved_request import resolve
from planner.fit import plan_only

DATA = Path(__file__).parents[2] / "tests" / "data" / "oracle"
GIB = 2**30

_SETTINGS = {
    "tensor_parallel_size": "tensor_parallel",
    "pipeline_parallel_size": "pipeline_parallel",
    "data_parallel_size": "data_parallel",
    "prefill_context_parallel_size": "prefill_context_parallel",
    "decode_context_parallel_size": "decode_context_parallel",
    "enable_expert_parallel": "expert_parallel",
    "max_model_len": "max_model_len",
    "kv_cache_dtype": "kv_cache_dtype",
    "quantization": "quantization",
    "mm_encoder_tp_mode": "mm_encoder_tp_mode",
    "language_model_only": "language_model_only",
    "max_loras": "max_loras",
    "max_lora_rank": "max_lora_rank",
}
"""vLLM's arguments as a request names them."""

_FLAGS = {"moe_backend": "--moe-backend"}
"""Arguments that a request passes on."""

_HOST_MEMORY = 2048 * GIB
"""More than any pair keeps there: only what GPUs hold is judged."""

_FIXED_KINDS = ("MambaSpec", "SlidingWindowSpec", "SlidingWindowMLASpec", "ChunkedLocalAttentionSpec")
"""Layers whose cache does not grow with the context."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """One figure of vLLM's code, and the planner's."""

    pair: str
    figure: str
    """`weights`, of a pipeline stage; `bytes_per_token`; `tokens`."""
    oracle: int
    planned: float | None
    """`None`: the planner does not say."""
    why_not: str = ""
    verdict: str = ""
    """Of the planner."""

    @property
    def error(self) -> float:
        """Share by which the planner is off; infinite where it does not say."""
        return float("inf") if self.planned is None else self.planned / self.oracle - 1


WEIGHTS_GATE = 0.005
"""Share by which weights on a GPU may be off; the cache must be exact."""


def allowed(judgement: Judgement) -> bool:
    """Whether the planner is as near as it must be."""
    return abs(judgement.error) <= (WEIGHTS_GATE if judgement.figure.startswith("weights") else 0)


def read_results(release: str) -> list[dict[str, Any]]:
    """What vLLM's code of a release said, a pair at a time."""
    loaded: list[dict[str, Any]] = json.loads((DATA / f"{release}.json").read_text(encoding="utf-8"))["results"]
    return loaded


def judgements(results: Iterable[Mapping[str, Any]]) -> Iterator[Judgement]:
    """Every figure of the pairs that were built."""
    for result, request in requests_of(result for result in results if "error" not in result):
        yield from _judged(result, request)


def requests_of(results: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], FitRequest]]:
    """Pairs with the request of each, whose model is a directory that exists until the next one is asked for."""
    configs = json.loads((DATA / "configs.json").read_text(encoding="utf-8"))["models"]
    with TemporaryDirectory(prefix="oracle-") as scratch:
        names = {entry["repository"]: _name(entry, Path(scratch)) for entry in configs}
        for result in results:
            yield result, _request(result, names)


def _name(entry: Mapping[str, Any], scratch: Path) -> str:
    """What a request calls a model: its repository, or a directory that is made with its configuration."""
    repository: str = entry["repository"]
    try:
        find_checkpoint(repository)
    except NotInCatalogueError:
        directory = scratch / repository.replace("/", "--")
        directory.mkdir()
        for name in ("config", "hf_quant_config"):
            if name in entry:
                (directory / f"{name}.json").write_text(json.dumps(entry[name]), encoding="utf-8")
        return str(directory)
    return repository


def _request(result: Mapping[str, Any], names: Mapping[str, str]) -> FitRequest:
    """The request of a pair; `names`: what a request calls each model."""
    arguments = result["arguments"]
    settings = {_SETTINGS[name]: value for name, value in arguments.items() if name in _SETTINGS}
    if drafting := arguments.get("speculative_config"):
        settings["speculative_tokens"] = drafting["num_speculative_tokens"]
        settings["draft"] = names[drafting["model"]] if "model" in drafting else None
    passed = [f"{_FLAGS[name]}={value}" for name, value in arguments.items() if name in _FLAGS]
    sizes = (arguments.get(f"{kind}_parallel_size", 1) for kind in ("tensor", "pipeline", "data", "prefill_context"))
    return FitRequest(
        model=names[result["model"]],
        gpu=result["gpu"],
        gpus_per_node=prod(sizes),
        available_kv_gib=result["kv_gib"],
        extra_args=tuple(passed),
        kv_offload=arguments["kv_offloading_size"] * GIB if "kv_offloading_size" in arguments else None,
        host_memory_bytes=_HOST_MEMORY,
        **{"tensor_parallel": 1, "pipeline_parallel": 1} | settings,
    )


def _judged(result: Mapping[str, Any], request: FitRequest) -> Iterator[Judgement]:
    """Weights of each stage, then bytes per token and tokens, where vLLM's code said them."""
    plan = plan_only(request)
    why_not, key = "; ".join(problem.code for problem in plan.problems), result["key"]
    for index, stage in enumerate(result["stages"]):
        if stage["loaded"] is not None:
            planned, reason = _weights(request, index)
            yield Judgement(key, f"weights {index}", stage["loaded"], planned, reason or why_not, plan.verdict)
    if "tokens" not in result["cache"]:
        return
    per_token = max(_bytes_per_token(stage) for stage in result["stages"])
    own = plan.per_gpu.kv_bytes_per_token if plan.per_gpu else None
    yield Judgement(key, "bytes_per_token", per_token, own, why_not, plan.verdict)
    tokens = plan.kv_tokens[0] if plan.kv_tokens else None
    yield Judgement(key, "tokens", result["cache"]["tokens"], tokens, why_not, plan.verdict)


def _weights(request: FitRequest, stage: int) -> tuple[float | None, str]:
    """Bytes of weights that the planner counts on one GPU of a stage, or why it does not."""
    model = find_model(request.model)
    if not model.groups:
        return None, "; ".join(model.unknown)
    resolved = resolve(request, model, find_gpu(request.gpu or ""))
    return sum(weights_by_group(resolved, stage).values()), ""


def _bytes_per_token(stage: Mapping[str, Any]) -> int:
    """Bytes of one token over the layers whose cache grows."""
    return sum(
        entry["layers"] * entry["page"] // entry["block"]
        for entry in stage["cache_layers"]
        if entry["kind"] not in _FIXED_KINDS
    )


def newest_release() -> str:
    """The newest release that was asked."""
    return max((path.stem for path in DATA.glob("[0-9]*.json")), key=Version.parse)


def section() -> Iterator[str]:
    """The part of the accuracy document about vLLM's own code."""
    release = newest_release()
    results = read_results(release)
    found = list(judgements(results))
    yield "## vLLM's own code"
    yield ""
    yield f"`make oracle` builds vLLM {release}'s own model classes without a GPU or weights, as one rank of a layout,"
    yield "runs its weight processing and its KV cache planner, and writes `tests/data/oracle`. A test holds the"
    yield f"planner to it: weights within {WEIGHTS_GATE:.1%}, bytes per token and tokens exactly, but for the pairs"
    yield "below. Rows of made/ are public configurations with the fields that a public tool writes."
    yield ""
    yield from _summary(results, found)
    yield ""
    yield "Further off, with the reason and what the planner tells a user:"
    yield ""
    yield from _known_differences(found)
    yield ""
    yield "| pair | figure | vLLM | planner | error |"
    yield "|---|---|---|---|---|"
    for each in sorted(found, key=lambda each: (each.planned is None, -abs(each.error), each.pair)):
        if each.planned is not None:
            vllm, own = _shown(each, each.oracle), _shown(each, each.planned)
            yield f"| {each.pair} | {each.figure} | {vllm} | {own} | {each.error:+.2%} |"
    yield ""
    yield "Not planned, with the planner's reason:"
    yield ""
    unknown = {each.pair: each.why_not for each in found if each.planned is None}
    yield from (f"- {pair}: {why}" for pair, why in unknown.items())
    yield ""
    yield "Not built, with vLLM's or the oracle's error:"
    yield ""
    yield from (f"- {result['key']}: {result['error']}" for result in results if "error" in result)


def read_known_differences() -> list[dict[str, str]]:
    """Pairs and figures that are further off than they may be, as expressions, each with the reason."""
    text = (DATA / "known_differences.json").read_text(encoding="utf-8")
    loaded: list[dict[str, str]] = json.loads(text)["differences"]
    return loaded


def covers(difference: Mapping[str, str], judgement: Judgement) -> bool:
    """Whether a known difference is of this figure."""
    return bool(re.search(difference["pairs"], judgement.pair) and re.match(difference["figures"], judgement.figure))


def _known_differences(found: list[Judgement]) -> Iterator[str]:
    """A line a pair."""
    for difference in read_known_differences():
        pairs = {each.pair: each.verdict for each in found if not allowed(each) and covers(difference, each)}
        yield from (f"- {pair}: `{verdict}`. {difference['reason']}." for pair, verdict in pairs.items())


def _summary(results: list[dict[str, Any]], found: list[Judgement]) -> Iterator[str]:
    """How many figures are as near as they must be."""
    built = [result for result in results if "error" not in result]
    yield f"{len(built)} of {len(results)} pairs were built, of {len({result['model'] for result in built})} models."
    for name, what in (("weights", "weights"), ("bytes_per_token", "bytes per token"), ("tokens", "tokens")):
        figures = [each for each in found if each.figure.startswith(name)]
        near = sum(1 for each in figures if allowed(each))
        yield f"{what.capitalize()}: {near} of {len(figures)} hold."


def _shown(judgement: Judgement, value: float) -> str:
    return f"{value / GIB:.3f} GiB" if judgement.figure.startswith("weights") else f"{value:,.0f}"
