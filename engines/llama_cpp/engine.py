"""Implements the engine protocol for llama.cpp."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from config.catalogue import Gpu
from config.checkpoint.model_spec import ModelSpec
from config.engine_name import EngineName
from engines.engine import Alternative, Metrics
from engines.finding import Finding
from engines.llama_cpp.alternatives import other_settings
from engines.llama_cpp.explain import explain_llama_cpp
from engines.llama_cpp.memory import gguf_request
from engines.llama_cpp.plan import MISSING_SETTINGS, llama_cpp_compatibility, plan_llama_cpp, plan_unknown_model
from engines.llama_cpp.process import KEYED, llama_cpp_process
from engines.plan import Plan
from engines.process import EngineProcess, ProcessStart, Role
from engines.request import FitRequest
from engines.rules.driver import Compatibility


class LlamaCpp:
    """llama.cpp's server: GGUF files on the GPUs of one node, or on its CPU."""

    name = EngineName.LLAMA_CPP
    title = "llama.cpp"
    missing_settings = MISSING_SETTINGS
    online_quantization: frozenset[str] = frozenset()
    metrics = Metrics(
        # github.com/ggml-org/llama.cpp tools/server/README.md; served because the plan sets --metrics.
        path="/metrics",
        queries=Path(__file__).with_name("queries.json"),
        key_header=KEYED.header,
        requests_running="llamacpp:requests_processing",
        requests_waiting="llamacpp:requests_deferred",
        prompt_tokens="llamacpp:prompt_tokens_total",
        generated_tokens="llamacpp:tokens_predicted_total",
        # Tried with the server of the lab: tokens_predicted_total stands still until an answer ends.
        steps="llamacpp:n_decode_total",
        # Current builds do not export it; older ones have llamacpp:kv_cache_usage_ratio.
        kv_cache_usage=None,
        time_to_first_token=None,
    )

    def reads(self, checkpoint_format: str) -> bool:
        return checkpoint_format == "gguf"

    def expected_version(self, version: str) -> str:  # noqa: ARG002 - images may be of any build or commit
        return ""

    def driver_compatibility(self, version: str, driver: str | None, gpu: Gpu) -> Compatibility:
        return llama_cpp_compatibility(version, driver, gpu)

    def plan(self, request: FitRequest, model: ModelSpec) -> Plan:
        return plan_llama_cpp(request, model)

    def plan_unknown_model(self, request: FitRequest, why: Finding) -> Plan:
        return plan_unknown_model(request, why)

    def weights(self, request: FitRequest, model: ModelSpec) -> tuple[float, ...]:
        resolved = gguf_request(request, model, request.weights_bytes or model.staged_bytes)
        return (max(device.weights for device in resolved.held),) if resolved else ()

    def explain(self, request: FitRequest, model: ModelSpec, plan: Plan) -> Iterator[str]:
        return explain_llama_cpp(request, model, plan)

    def settings_to_try(self, request: FitRequest, plan: Plan) -> Iterator[Alternative]:
        return other_settings(request, plan)

    def layouts_to_try(self, request: FitRequest, plan: Plan) -> Iterator[Alternative]:  # noqa: ARG002 - layers go over all GPUs
        return iter(())

    def evidence(self) -> Iterator[str]:
        return iter(())

    def process(self, start: ProcessStart, role: Role) -> EngineProcess:
        return llama_cpp_process(start, role)
