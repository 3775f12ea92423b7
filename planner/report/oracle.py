"""The planner against the engines' own code, for every pair that `make oracle` and `make oracle-sglang` built.

The results are `tests/data/oracle/<engine>-<release>.json`, the configurations beside them. A pair's model is looked
for in the catalogue first, as a user names it, and is otherwise read from a directory with its configuration.
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

from config.catalogue import NotInCatalogueError, find_checkpoint
from config.checkpoint.model_spec import find_model
from config.engine_name import EngineName
from engines.registry import engine_of
from engines.request import FitRequest
from engines.versions import Version
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
    "tp_size": "tensor_parallel",
    "pp_size": "pipeline_parallel",
}
"""The engines' arguments as a request names them."""

_SWITCHED_ON: Mapping[str, tuple[str, str | bool]] = {
    "ep_size": ("expert_parallel", True),
    "mm_enable_dp_encoder": ("mm_encoder_tp_mode", "data"),
}
"""Arguments that stand for one value of a request's field."""

_FLAGS = {"moe_backend": "--moe-backend"}
"""Arguments that a request passes on."""

_HOST_MEMORY = 2048 * GIB
"""More than any pair keeps there: only what GPUs hold is judged."""

_FIXED_KINDS = ("MambaSpec", "SlidingWindowSpec", "SlidingWindowMLASpec", "ChunkedLocalAttentionSpec")
"""Layers whose cache does not grow with the context."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """One figure of an engine's code, and the planner's."""

    engine: EngineName
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


@dataclass(frozen=True, slots=True)
class Results:
    """What the code of one release of an engine said, a pair at a time."""

    engine: EngineName
    release: str
    pairs: tuple[dict[str, Any], ...]

    @property
    def title(self) -> str:
        """The engine's, as messages say it."""
        return engine_of(self.engine).title

    @property
    def built(self) -> tuple[dict[str, Any], ...]:
        """The pairs without an error."""
        return tuple(pair for pair in self.pairs if "error" not in pair)


def all_results() -> tuple[Results, ...]:
    """The newest results of each engine that was asked."""
    return tuple(found for engine in EngineName if (found := _newest_results(engine)))


def _newest_results(engine: EngineName) -> Results | None:
    paths = {path.stem.removeprefix(f"{engine}-"): path for path in DATA.glob(f"{engine}-[0-9]*.json")}
    if not paths:
        return None
    release = max(paths, key=Version.parse)
    return Results(engine, release, tuple(json.loads(paths[release].read_text(encoding="utf-8"))["results"]))


def judgements(results: Results) -> Iterator[Judgement]:
    """Every figure of the pairs that were built."""
    for result, request in requests_of(results.engine, results.built):
        yield from _judged(result, request)


def requests_of(
    engine: EngineName, results: Iterable[Mapping[str, Any]]
) -> Iterator[tuple[Mapping[str, Any], FitRequest]]:
    """Pairs of an engine with the request of each, whose model is a directory that exists until the next one is asked
    for."""
    configs = json.loads((DATA / "configs.json").read_text(encoding="utf-8"))["models"]
    with TemporaryDirectory(prefix="oracle-") as scratch:
        names = {entry["repository"]: _name(entry, Path(scratch)) for entry in configs}
        for result in results:
            yield result, _request(engine, result, names)


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


def _request(engine: EngineName, result: Mapping[str, Any], names: Mapping[str, str]) -> FitRequest:
    """The request of a pair; `names`: what a request calls each model."""
    arguments = result["arguments"]
    settings = {_SETTINGS[name]: value for name, value in arguments.items() if name in _SETTINGS}
    settings |= dict(_SWITCHED_ON[name] for name in arguments if name in _SWITCHED_ON)
    if drafting := arguments.get("speculative_config"):
        settings["speculative_tokens"] = drafting["num_speculative_tokens"]
        settings["draft"] = names[drafting["model"]] if "model" in drafting else None
    passed = [f"{_FLAGS[name]}={value}" for name, value in arguments.items() if name in _FLAGS]
    sizes = (settings.get(f"{kind}_parallel", 1) for kind in ("tensor", "pipeline", "data", "prefill_context"))
    return FitRequest(
        model=names[result["model"]],
        engine=engine,
        gpu=result["gpu"],
        gpus_per_node=prod(sizes),
        available_kv_gib=result["kv_gib"],
        extra_args=tuple(passed),
        kv_offload=arguments["kv_offloading_size"] * GIB if "kv_offloading_size" in arguments else None,
        host_memory_bytes=_HOST_MEMORY,
        **{"tensor_parallel": 1, "pipeline_parallel": 1} | settings,
    )


def _judged(result: Mapping[str, Any], request: FitRequest) -> Iterator[Judgement]:
    """Weights of each stage, then bytes per token and tokens, where the engine's code said them."""
    plan, by_stage = plan_only(request), _weights(request)
    why_not = "; ".join(problem.code for problem in plan.problems)

    def judged(figure: str, oracle: int, planned: float | None) -> Judgement:
        return Judgement(request.engine, result["key"], figure, oracle, planned, why_not, plan.verdict)

    for index, stage in enumerate(result["stages"]):
        if stage["loaded"] is not None:
            yield judged(f"weights {index}", stage["loaded"], by_stage[index] if by_stage else None)
    if "tokens" not in result["cache"]:
        return
    per_token = max(_bytes_per_token(stage) for stage in result["stages"])
    yield judged("bytes_per_token", per_token, plan.per_gpu.kv_bytes_per_token if plan.per_gpu else None)
    yield judged("tokens", result["cache"]["tokens"], plan.kv_tokens[0] if plan.kv_tokens else None)


def _weights(request: FitRequest) -> tuple[float, ...]:
    """Bytes of weights that the planner counts on one GPU of each stage. Empty: it does not know."""
    return engine_of(request.engine).weights(request, find_model(request.model))


def _bytes_per_token(stage: Mapping[str, Any]) -> int:
    """Bytes of one token over the layers whose cache grows: as the engine states them, or of its layers."""
    if "bytes_per_token" in stage:
        return int(stage["bytes_per_token"])
    return sum(
        entry["layers"] * entry["page"] // entry["block"]
        for entry in stage["cache_layers"]
        if entry["kind"] not in _FIXED_KINDS
    )


def sections() -> Iterator[str]:
    """The parts of the accuracy document about the engines' own code."""
    for results in all_results():
        yield from _section(results)
        yield ""


def _section(results: Results) -> Iterator[str]:
    found, title = list(judgements(results)), results.title
    yield f"## {title}'s own code"
    yield ""
    file = f"tests/data/oracle/{results.engine}-{results.release}.json"
    yield f"`tests/oracle` builds {title} {results.release}'s own model classes without a GPU or weights, as one rank"
    yield "of a layout, and runs its weight processing and its arithmetic of the KV cache. A test holds the planner to"
    yield f"`{file}`: weights within {WEIGHTS_GATE:.1%}, bytes per token and tokens exactly, but for the pairs below."
    yield "Rows of made/ are public configurations with the fields that a public tool writes."
    yield ""
    yield from _summary(results, found)
    yield ""
    if differing := tuple(_known_differences(found)):
        yield "Further off, with the reason and what the planner tells a user:"
        yield ""
        yield from differing
        yield ""
    yield f"| pair | figure | {title} | planner | error |"
    yield "|---|---|---|---|---|"
    for each in sorted(found, key=lambda each: (each.planned is None, -abs(each.error), each.pair)):
        if each.planned is not None:
            said, own = _shown(each, each.oracle), _shown(each, each.planned)
            yield f"| {each.pair} | {each.figure} | {said} | {own} | {each.error:+.2%} |"
    unknown = {each.pair: each.why_not for each in found if each.planned is None}
    yield from _listed("Not planned, with the planner's reason:", unknown)
    failed = {result["key"]: result["error"] for result in results.pairs if "error" in result}
    yield from _listed(f"Not built, with {title}'s or the oracle's error:", failed)


def _listed(title: str, reasons: Mapping[str, str]) -> Iterator[str]:
    if reasons:
        yield from ("", title, "", *(f"- {pair}: {why}" for pair, why in reasons.items()))


def read_known_differences() -> list[dict[str, str]]:
    """Pairs and figures that are further off than they may be, as expressions, each with the reason."""
    text = (DATA / "known_differences.json").read_text(encoding="utf-8")
    loaded: list[dict[str, str]] = json.loads(text)["differences"]
    return loaded


def covers(difference: Mapping[str, str], judgement: Judgement) -> bool:
    """Whether a known difference is of this figure."""
    if difference["engine"] != judgement.engine:
        return False
    return bool(re.search(difference["pairs"], judgement.pair) and re.match(difference["figures"], judgement.figure))


def _known_differences(found: list[Judgement]) -> Iterator[str]:
    """A line a pair."""
    for difference in read_known_differences():
        pairs = {each.pair: each.verdict for each in found if not allowed(each) and covers(difference, each)}
        yield from (f"- {pair}: `{verdict}`. {difference['reason']}." for pair, verdict in pairs.items())


def _summary(results: Results, found: list[Judgement]) -> Iterator[str]:
    """How many figures are as near as they must be."""
    models = {result["model"] for result in results.built}
    yield f"{len(results.built)} of {len(results.pairs)} pairs were built, of {len(models)} models."
    for name, what in (("weights", "weights"), ("bytes_per_token", "bytes per token"), ("tokens", "tokens")):
        figures = [each for each in found if each.figure.startswith(name)]
        near = sum(1 for each in figures if allowed(each))
        yield f"{what.capitalize()}: {near} of {len(figures)} hold."


def _shown(judgement: Judgement, value: float) -> str:
    return f"{value / GIB:.3f} GiB" if judgement.figure.startswith("weights") else f"{value:,.0f}"
