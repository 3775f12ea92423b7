"""Implements the engine protocol for SGLang."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from config.catalogue import Gpu, find_gpu
from config.checkpoint.model_spec import ModelSpec
from config.engine_name import EngineName
from engines.engine import Alternative, Metrics
from engines.finding import Finding
from engines.plan import Plan
from engines.process import EngineProcess, ProcessStart, Role
from engines.request import FitRequest
from engines.rules.driver import Compatibility
from engines.rules.machine import needs_gpu, needs_llama_cpp
from engines.sglang.alternatives import other_layouts, other_settings
from engines.sglang.evidence import sections
from engines.sglang.explain import explain_sglang
from engines.sglang.memory import stage_layers, weights_by_group
from engines.sglang.plan import plan_sglang, plan_unknown_model
from engines.sglang.process import sglang_process
from engines.sglang.resolved_request import MISSING_SETTINGS, resolve, sglang_compatibility
from engines.versions import expected_release


class Sglang:
    """SGLang: safetensors checkpoints on GPUs, on one node or over several."""

    name = EngineName.SGLANG
    title = "SGLang"
    missing_settings = MISSING_SETTINGS
    online_quantization: frozenset[str] = frozenset()
    metrics = Metrics(
        # sglang/srt/observability/metrics_collector.py (0.5.23); served because the plan sets --enable-metrics.
        path="/metrics",
        queries=Path(__file__).with_name("queries.json"),
        key_header=None,
        requests_running="sglang:num_running_reqs",
        requests_waiting="sglang:num_queue_reqs",
        prompt_tokens="sglang:prompt_tokens_total",
        # It counts the tokens of an answer when it ends (`observe_one_finished_request`).
        generated_tokens="sglang:generation_tokens_total",
        steps="sglang:cuda_graph_passes_total",
        kv_cache_usage="sglang:token_usage",
        time_to_first_token="sglang:time_to_first_token_seconds",  # noqa: S106 - a metric
    )

    def reads(self, checkpoint_format: str) -> bool:
        return checkpoint_format != "gguf"

    def expected_version(self, version: str) -> str:
        return expected_release(version, "0.5.23")

    def driver_compatibility(self, version: str, driver: str | None, gpu: Gpu) -> Compatibility:
        return sglang_compatibility(version, driver, gpu)

    def plan(self, request: FitRequest, model: ModelSpec) -> Plan:
        known = replace(request, weights_bytes=request.weights_bytes or model.staged_bytes)
        if model.is_gguf:
            return plan_unknown_model(known, needs_llama_cpp(model))
        if request.gpu is None:
            return plan_unknown_model(known, needs_gpu(self.title))
        return plan_sglang(resolve(request, model, find_gpu(request.gpu)))

    def plan_unknown_model(self, request: FitRequest, why: Finding) -> Plan:
        return plan_unknown_model(request, why)

    def weights(self, request: FitRequest, model: ModelSpec) -> tuple[float, ...]:
        if not model.groups or request.gpu is None:
            return ()
        resolved = resolve(request, model, find_gpu(request.gpu))
        ranges = stage_layers(model.shape.layers, resolved.layout.pp)
        return tuple(sum(weights_by_group(resolved, ranges, stage).values()) for stage in range(len(ranges)))

    def explain(self, request: FitRequest, model: ModelSpec, plan: Plan) -> Iterator[str]:
        return explain_sglang(request, model, plan)

    def settings_to_try(self, request: FitRequest, plan: Plan) -> Iterator[Alternative]:
        return other_settings(request, plan)

    def layouts_to_try(self, request: FitRequest, plan: Plan) -> Iterator[Alternative]:
        return other_layouts(request, plan)

    def evidence(self) -> Iterator[str]:
        return sections()

    def process(self, start: ProcessStart, role: Role) -> EngineProcess:
        return sglang_process(start, role)
