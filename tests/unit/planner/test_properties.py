"""What must hold for any request."""

import json
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from config.catalogue import engine_flags, gpus, models
from config.checkpoint.model_spec import find_model
from config.engine_name import EngineName
from engines.vllm.memory.stages import weights_by_group
from planner import FitRequest, fit, time_limits
from planner.fit import plan_only
from planner.report.explain import explain
from planner.report.picture import picture
from planner.report.summary import summary
from planner.suggestions import suggest
from tests.unit.planner.asking import resolved_request

_ORDER = {"rejected": 0, "unknown": 1, "tight": 2, "fits": 3}
_CHECKPOINTS = [
    checkpoint.name
    for model in models()
    for checkpoint in model.checkpoints
    if checkpoint.format != "gguf" and not find_model(checkpoint.name).unknown
]
_GPUS = ["l4", "l40s", "a100-80gb", "h100", "h200", "b200", "b300"]
_SIZES = [1, 2, 4, 8]

requests = st.builds(
    FitRequest,
    model=st.sampled_from(_CHECKPOINTS),
    gpu=st.sampled_from(_GPUS),
    gpus_per_node=st.sampled_from(_SIZES),
    nodes=st.sampled_from([1, 2]),
    expert_parallel=st.just(value=False),
    max_model_len=st.sampled_from([1024, 32_768, 131_072, 262_144]),
    kv_cache_dtype=st.sampled_from([None, "fp8"]),
    max_num_seqs=st.sampled_from([None, 16]),
    engine_version=st.sampled_from(["0.20.2", "0.33.0"]),
)


@settings(max_examples=150, deadline=None)
@given(request=requests)
def test_more_gpus_leave_no_less_for_the_cache(request: FitRequest) -> None:
    more = replace(request, gpus_per_node=request.gpus_per_node * 2)
    few, many = plan_only(request).per_gpu, plan_only(more).per_gpu
    if few is None or many is None or few.kv_gib is None or many.kv_gib is None:
        return
    # From one GPU to two, the buffers of communication come as they are; the weights that leave must outweigh them.
    if request.gpus_per_node > 1:
        assert many.kv_gib >= few.kv_gib


@settings(max_examples=150, deadline=None)
@given(request=requests)
def test_more_gpus_never_fit_less(request: FitRequest) -> None:
    few = plan_only(request)
    # Twice the width is no rule of memory: formats have widths that they cannot be cut to, and heads an end.
    if few.verdict not in ("fits", "tight") or request.gpus_per_node == 1:
        return
    more = plan_only(replace(request, gpus_per_node=request.gpus_per_node * 2))
    widths = {"expert_width_not_in_blocks", "linear_width_not_in_blocks", "expert_width_not_in_groups"}
    widths |= {"linear_width_not_in_groups", "heads_not_divisible"}
    if widths & {problem.code for problem in more.problems} or more.layout.tp > 16:
        return
    assert _ORDER[more.verdict] >= _ORDER[few.verdict]


@settings(max_examples=150, deadline=None)
@given(request=requests, factor=st.integers(2, 64))
def test_a_longer_context_never_frees_memory(request: FitRequest, factor: int) -> None:
    short = plan_only(replace(request, max_model_len=1024))
    long = plan_only(replace(request, max_model_len=1024 * factor))
    assert _ORDER[long.verdict] <= _ORDER[short.verdict]
    if short.per_gpu and long.per_gpu and short.per_gpu.kv_gib and long.per_gpu.kv_gib:
        # The workspace of sparse attention with an fp8 cache grows with the context.
        assert all(less <= more for less, more in zip(long.per_gpu.kv_gib, short.per_gpu.kv_gib, strict=True))
    assert short.max_context == long.max_context


@settings(max_examples=100, deadline=None)
@given(request=requests)
def test_the_gpus_together_hold_at_least_the_checkpoint(request: FitRequest) -> None:
    resolved = resolved_request(
        request.model, request.gpu or "", nodes=request.nodes, gpus_per_node=request.gpus_per_node
    )
    if resolved.model.shape.heads % resolved.layout.tp:
        return
    held = sum(
        sum(weights_by_group(resolved, stage).values()) * resolved.layout.tp for stage in range(resolved.layout.pp)
    )
    loaded = sum(group.bytes for group in resolved.model.groups if group.place != "mtp")
    assert held >= loaded * (1 - 1e-9)


@settings(max_examples=60, deadline=None)
@given(request=requests)
def test_every_suggestion_is_accepted_by_the_planner(request: FitRequest) -> None:
    planned = plan_only(request)
    if planned.verdict != "rejected":
        return
    for suggestion in suggest(request, planned, plan_only):
        assert plan_only(suggestion.request).verdict in ("fits", "tight"), suggestion.text


@settings(max_examples=100, deadline=None)
@given(request=requests)
def test_the_longest_context_that_surely_fits_does(request: FitRequest) -> None:
    planned = plan_only(replace(request, max_model_len=1024))
    if planned.verdict == "fits" and planned.max_context:
        assert plan_only(replace(request, max_model_len=planned.max_context)).verdict == "fits"


@settings(max_examples=100, deadline=None)
@given(request=requests)
def test_the_parts_of_a_gpu_add_up_to_its_budget(request: FitRequest) -> None:
    planned = plan_only(request)
    if planned.per_gpu is None or planned.per_gpu.budget_gib is None:
        return
    for stage in planned.stages:
        if stage.kv_gib[0] > 0:
            parts = stage.weights_gib + stage.overhead_gib[1] + stage.kv_gib[0]
            assert abs(parts - planned.per_gpu.budget_gib) < 0.02


@settings(max_examples=150, deadline=None)
@given(request=requests, mode=st.sampled_from([None, "data"]), spread=st.booleans())
def test_every_flag_that_is_emitted_exists(request: FitRequest, mode: str | None, spread: bool) -> None:
    planned = fit(replace(request, mm_encoder_tp_mode=mode, expert_parallel=spread, engine_version="0.33.0"))
    known = engine_flags(EngineName.VLLM)
    flags = [argument.split("=")[0] for argument in planned.engine_args if argument.startswith("--")]
    assert flags
    assert {flag.replace("--no-", "--", 1) for flag in flags} <= set(known.flags)
    parsers = dict(zip(planned.engine_args, planned.engine_args[1:], strict=False))
    assert parsers.get("--tool-call-parser", "hermes") in known.tool_parsers
    assert parsers.get("--reasoning-parser", "qwen3") in known.reasoning_parsers


@settings(max_examples=300, deadline=None)
@given(
    request=st.builds(
        FitRequest,
        model=st.sampled_from([*(checkpoint.name for model in models() for checkpoint in model.checkpoints), "none"]),
        gpu=st.sampled_from([*(gpu.name for gpu in gpus()), None, "none"]),
        nodes=st.sampled_from([1, 2, 3, 16]),
        gpus_per_node=st.sampled_from([0, 1, 3, 8]),
        tensor_parallel=st.sampled_from([None, 1, 3, 5, 6, 8, 12, 64, 128]),
        pipeline_parallel=st.sampled_from([None, 1, 3, 16, 61, 100]),
        data_parallel=st.sampled_from([None, 2, 3, 8]),
        expert_parallel=st.booleans(),
        prefill_context_parallel=st.sampled_from([None, None, 2, 5]),
        decode_context_parallel=st.sampled_from([None, 3, 8]),
        max_model_len=st.sampled_from([None, 1, 10**7]),
        max_num_batched_tokens=st.sampled_from([None, 1, 131_072]),
        kv_cache_dtype=st.sampled_from([None, "fp8", "fp8_ds_mla", "nvfp4", "q8_0", "none"]),
        quantization=st.sampled_from([None, "fp8", "int8"]),
        engine=st.sampled_from(["vllm", "llama.cpp"]),
        engine_version=st.sampled_from([None, "0.9.0", "0.20.1", "none"]),
        driver=st.sampled_from([None, "580", "none"]),
        language_model_only=st.booleans(),
        expert_offload=st.booleans(),
        available_kv_gib=st.sampled_from([None, 1000.0]),
        include=st.sampled_from([(), ("UD-Q2_K_XL/*",)]),
        enforce_eager=st.booleans(),
        redundant_experts=st.sampled_from([None, 0, 7, 32]),
        cpu_offload_gb=st.sampled_from([None, 10.0]),
        yarn_factor=st.sampled_from([None, 4.0]),
        extra_args=st.sampled_from(
            [
                (),
                ("--none",),
                ("--seed", "1"),
                ("--enable-prompt-embeds",),
                ("--dtype=float32",),
                ("-ts", "1,2"),
                ("-ot", "x=CPU"),
            ]
        ),
    )
)
def test_no_request_ends_in_a_traceback_and_every_problem_has_a_fix(request: FitRequest) -> None:
    planned = fit(request)
    time_limits(planned)
    assert json.loads(json.dumps(planned.as_dict()))["verdict"] == planned.verdict
    assert all(problem.fix for problem in planned.problems)
    assert bool(planned.problems) == (planned.verdict in ("rejected", "unknown"))
    assert summary(request, planned).startswith(planned.verdict)
    assert picture(request, planned).startswith("<svg")
    assert explain(request, fit(request))


def test_the_longest_context_counts_what_the_engine_reserves_for_it() -> None:
    """A short context leaves more of the GPU to the cache than the longest does: sparse attention with an fp8 cache
    reserves five contexts of keys."""
    request = FitRequest(model="glm-5-nvfp4", gpu="h100", gpus_per_node=8, max_model_len=1024)
    short = plan_only(request)
    assert short.max_context
    assert short.kv_tokens
    assert short.max_context < short.kv_tokens[0]
    assert plan_only(replace(request, max_model_len=short.max_context)).verdict == "fits"
    assert plan_only(replace(request, max_model_len=short.max_context + 64)).verdict == "tight"
    assert plan_only(replace(request, max_model_len=None)).context == short.max_context
