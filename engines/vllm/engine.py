"""Implements the engine protocol for vLLM."""

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
from engines.versions import expected_release
from engines.vllm.alternatives import other_layouts, other_settings
from engines.vllm.evidence import sections
from engines.vllm.explain import explain_vllm
from engines.vllm.memory.stages import weights_by_group
from engines.vllm.plan import plan_unknown_model, plan_vllm
from engines.vllm.process import vllm_process
from engines.vllm.resolved_request import MISSING_SETTINGS, resolve, vllm_compatibility


class Vllm:
    """vLLM: safetensors checkpoints on GPUs, on one node or over several."""

    name = EngineName.VLLM
    title = "vLLM"
    missing_settings = MISSING_SETTINGS
    online_quantization = frozenset({"fp8"})
    metrics = Metrics(
        # docs.vllm.ai, "Metrics" of the design documents: names of the V1 engine.
        path="/metrics",
        queries=Path(__file__).with_name("queries.json"),
        key_header=None,
        requests_running="vllm:num_requests_running",
        requests_waiting="vllm:num_requests_waiting",
        prompt_tokens="vllm:prompt_tokens_total",
        generated_tokens="vllm:generation_tokens_total",
        steps=None,
        kv_cache_usage="vllm:kv_cache_usage_perc",
        time_to_first_token="vllm:time_to_first_token_seconds",  # noqa: S106 - a metric
    )

    def reads(self, checkpoint_format: str) -> bool:
        return checkpoint_format != "gguf"

    def expected_version(self, version: str) -> str:
        return expected_release(version, "0.33.0")

    def driver_compatibility(self, version: str, driver: str | None, gpu: Gpu) -> Compatibility:
        return vllm_compatibility(version, driver, gpu)

    def plan(self, request: FitRequest, model: ModelSpec) -> Plan:
        known = replace(request, weights_bytes=request.weights_bytes or model.staged_bytes)
        if model.is_gguf:
            return plan_unknown_model(known, needs_llama_cpp(model))
        if request.gpu is None:
            return plan_unknown_model(known, needs_gpu(self.title))
        return plan_vllm(resolve(request, model, find_gpu(request.gpu)))

    def plan_unknown_model(self, request: FitRequest, why: Finding) -> Plan:
        return plan_unknown_model(request, why)

    def weights(self, request: FitRequest, model: ModelSpec) -> tuple[float, ...]:
        if not model.groups or request.gpu is None:
            return ()
        resolved = resolve(request, model, find_gpu(request.gpu))
        return tuple(sum(weights_by_group(resolved, stage).values()) for stage in range(resolved.layout.pp))

    def explain(self, request: FitRequest, model: ModelSpec, plan: Plan) -> Iterator[str]:
        return explain_vllm(request, model, plan)

    def settings_to_try(self, request: FitRequest, plan: Plan) -> Iterator[Alternative]:
        return other_settings(request, plan)

    def layouts_to_try(self, request: FitRequest, plan: Plan) -> Iterator[Alternative]:
        return other_layouts(request, plan)

    def evidence(self) -> Iterator[str]:
        return sections()

    def process(self, start: ProcessStart, role: Role) -> EngineProcess:
        return vllm_process(start, role)
