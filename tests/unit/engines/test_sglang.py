"""SGLang: its arithmetic against what its logs print, its rules, its process."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from config.catalogue import PublishedPool, engine_flags, find_gpu, ground_truth, models
from config.checkpoint.model_spec import find_model
from config.engine_name import EngineName
from engines.process import ProcessStart, Role
from engines.request import FitRequest
from engines.rules.arguments import check_arguments
from engines.sglang.arguments import reasoning_parser, tool_parser
from engines.sglang.evidence import predicted_pool
from engines.sglang.flags import FLAGS
from engines.sglang.memory import cache_bytes, memory_of, stage_layers
from engines.sglang.process import LAUNCH, sglang_process
from engines.sglang.release_facts import newest_release, sglang_defaults
from engines.sglang.resolved_request import resolve
from planner.report.oracle import all_results, requests_of
from tests.unit.planner.asking import GIB, codes, plan, texts, warning_codes

_FRACTION_STEP = 0.001
"""SGLang rounds to three decimals, and what it takes for images afterwards not at all."""

START = ProcessStart(
    directory="/weights/0",
    served_name="acme/model",
    host="0.0.0.0",
    model_file=None,
    arguments=("--tp-size", "8"),
    nodes=2,
    ready_seconds=600,
    drain_seconds=60,
)


def sglang(model: str, gpu: str = "h200", **settings: Any) -> Any:
    return plan(model, gpu, engine=EngineName.SGLANG, **settings)


@pytest.mark.parametrize(
    ("before", "after", "fraction", "gib"),
    [
        # Logs of SGLang: QwQ-32B on 4 L4 (0.4.3), Qwen3-30B-A3B on an MI355X (pull 18263).
        (21.63, 6.09, 0.85, 2 * 1.4224),
        (287.18, 230.20, 0.911, 204.63),
        # DeepSeek-V4-Pro on 8 H200 (InferenceX, issue 2128): nothing is left up to 0.9113.
        (137.90, 12.25, 0.9111, 0.0),
    ],
)
def test_the_cache_is_what_logs_print_for_the_memory_before_and_after_the_load(
    before: float, after: float, fraction: float, gib: float
) -> None:
    assert cache_bytes(before * GIB, after * GIB, fraction) / GIB == pytest.approx(gib, abs=0.02)


@pytest.mark.parametrize("entry", ground_truth().pools, ids=lambda entry: entry.id)
def test_published_caches_lie_between_the_two_ends_of_the_plan(entry: PublishedPool) -> None:
    worst, likely = predicted_pool(entry)
    assert worst <= entry.tokens <= likely
    assert likely / worst < 1.16


def test_the_default_fraction_is_what_sglangs_own_code_resolves() -> None:
    results = next(each for each in all_results() if each.engine is EngineName.SGLANG)
    wrong = {}
    # Of an H200, nvidia-smi prints what torch reports, which SGLang's code takes where nvidia-smi is absent.
    of_h200 = [pair for pair in results.built if pair["gpu"] == "h200"]
    assert len(of_h200) >= 60
    for pair, request in requests_of(results.engine, of_h200):
        own = resolve(request, find_model(request.model), find_gpu(pair["gpu"])).fraction
        if own != pytest.approx(pair["stages"][0]["fraction"], abs=_FRACTION_STEP):
            wrong[pair["key"]] = (own, pair["stages"][0]["fraction"])
    assert wrong == {}


def test_weights_are_what_a_log_prints() -> None:
    # "mem usage=56.98 GB" of Qwen3-30B-A3B on one GPU (sgl-project/sglang, pull 18263).
    request = FitRequest(model="qwen3-30b-a3b", gpu="h200", gpus_per_node=1, engine=EngineName.SGLANG)
    resolved = resolve(request, find_model(request.model), find_gpu("h200"))
    memory = memory_of(resolved, find_gpu("h200").memory_bytes or 0)
    assert memory.stages[0].weights / GIB == pytest.approx(56.98, rel=0.003)


@pytest.mark.parametrize(
    ("layers", "stages", "sizes"),
    # sglang/srt/distributed/utils.py get_pp_indices, run by hand: the last stages have one layer more.
    [(61, 2, [30, 31]), (61, 4, [15, 15, 15, 16]), (80, 2, [40, 40]), (94, 4, [23, 23, 24, 24])],
)
def test_the_last_stages_have_the_surplus_layers(layers: int, stages: int, sizes: list[int]) -> None:
    assert [len(stage) for stage in stage_layers(layers, stages)] == sizes


@pytest.mark.parametrize(
    ("model", "gpu", "tp", "fraction"),
    [
        # Published server_args: mem_fraction_static of text models on 80 and 141 GB by the formula of 0.5.23,
        # (memory - 512 - 8192 x 1.5 - tp / 8 x 1024 - 2 x graph requests - graphs of prompts) / memory.
        ("llama-3.1-70b", "h200", 8, round((143771 - 512 - 12288 - 1024 - 1024 - 8 * 58) / 143771, 3)),
        ("deepseek-r1", "h200", 8, round((143771 - 512 - 12288 - 1024 - 1024 - 1536) / 143771, 3)),
        ("llama-3.1-8b", "h100", 1, round((81559 - 512 - 12288 - 128 - 512 - 8 * 58) / 81559, 3)),
    ],
)
def test_the_fraction_is_sglangs_own(model: str, gpu: str, tp: int, fraction: float) -> None:
    arguments = sglang(model, gpu, gpus_per_node=tp).engine_args
    assert arguments[arguments.index("--mem-fraction-static") + 1] == f"{fraction:g}"


def test_an_encoder_of_images_lowers_the_fraction() -> None:
    # 27 layers of 1,152: 0.95 x (1 - 0.1 x (27 x 1152^2 / (24 x 1024^2) - 1)) of 0.886.
    planned = sglang("kimi-k2.5")
    assert planned.engine_args[planned.engine_args.index("--mem-fraction-static") + 1] == "0.806"


def test_the_setup_of_the_stack_is_derived() -> None:
    planned = sglang("moonshotai/Kimi-K2.5", max_model_len=262_144, mm_encoder_tp_mode="data")
    assert planned.verdict == "fits"
    assert planned.engine_args == (
        "--tp-size", "8",
        "--context-length", "262144",
        "--mem-fraction-static", "0.806",
        "--kv-cache-dtype", "bfloat16",
        "--mm-enable-dp-encoder",
        "--enable-metrics",
        "--trust-remote-code",
        "--tool-call-parser", "kimi_k2",
        "--reasoning-parser", "kimi_k2",
    )  # fmt: skip
    assert planned.sequences == 2048
    assert planned.cache_blocks is not None
    assert planned.cache_blocks.requests(262_144) == 2
    assert planned.speed is not None
    assert planned.speed.at[0].likely is not None


def test_two_nodes_get_their_stages_and_the_cache_of_the_fullest() -> None:
    planned = sglang("kimi-k2.5", "h100", nodes=2, fabric="infiniband")
    assert (planned.layout.tp, planned.layout.pp) == (8, 2)
    assert [stage.layers for stage in planned.stages] == [30, 31]
    assert [stage.kv_bytes_per_token for stage in planned.stages] == [30 * 1152, 31 * 1152]


@pytest.mark.parametrize(
    ("model", "gpu", "settings", "code", "words"),
    [
        ("kimi-k2.5", "h100", {}, "weights_do_not_fit", "mem_fraction_static"),
        ("kimi-k2.5", "h200", {"gpu_memory_utilization": 0.55}, "context_does_not_fit", "70,272 B per token"),
        ("kimi-k2.5", "h200", {"max_model_len": 300_000}, "context_beyond_model", "262,144"),
        # Refused by SGLang 0.4.6 (QwenLM/Qwen3, issue 1485).
        ("qwen3-235b-a22b-fp8", "h100", {"gpus_per_node": 8}, "width_not_in_blocks", "192"),
        ("llama-3.1-70b", "h200", {"tensor_parallel": 3}, "heads_not_divisible", "64 attention heads"),
        ("kimi-k2.5-gguf", "h200", {}, "gguf_needs_llama_cpp", "llama.cpp"),
        ("llama-3.1-8b", None, {}, "gpu_needed", "nodes.gpu"),
        ("kimi-k2.5", "h200", {"extra_args": ("--api-key", "x")}, "argument_is_secret", "api_key"),
        ("kimi-k2.5", "h200", {"extra_args": ("--tp-size", "4")}, "argument_of_the_plan", "tensor_parallel"),
        ("kimi-k2.5", "h200", {"extra_args": ("--max-num-seqs", "4")}, "argument_not_known", "not a flag"),
        ("kimi-k2.5", "h200", {"extra_args": ("--nnodes", "2")}, "argument_of_the_server", "--nnodes"),
        ("kimi-k2.5", "h200", {"keep_cache": True}, "cache_not_supported", "weights.cache"),
    ],
)
def test_what_cannot_work_is_rejected(
    model: str, gpu: str | None, settings: dict[str, Any], code: str, words: str
) -> None:
    settings = {"max_model_len": 262_144, **settings} if code == "context_does_not_fit" else settings
    planned = plan(model, gpu, engine=EngineName.SGLANG, **settings)
    assert planned.verdict == "rejected"
    assert code in codes(planned)
    assert words in texts(planned)


@pytest.mark.parametrize(
    ("model", "gpu", "settings", "code", "words"),
    [
        ("kimi-k2.5", "h200", {"data_parallel": 2, "tensor_parallel": 4}, "setting_not_known", "data_parallel"),
        ("llama-3.1-70b", "h200", {"max_loras": 4}, "setting_not_known", "max_loras"),
        ("gpt-oss-120b", "h200", {}, "cache_not_known", "sliding"),
        ("qwen3.5-35b-a3b", "h200", {}, "cache_not_known", "linear"),
        ("deepseek-v4-pro", "b200", {}, "cache_not_known", "compressed"),
        ("kimi-k2.5", "mi300x", {}, "attention_not_known", "AITER"),
        ("kimi-k2.5-nvfp4", "h200", {}, "format_not_known", "10.0"),
        ("llama-3.1-70b", "h200", {"kv_cache_dtype": "nvfp4"}, "cache_type_not_known", "fp8"),
        ("llama-3.1-70b", "h200", {"engine_version": "0.5.19"}, "release_not_known", "0.5.23"),
        ("mistral-small-3.1", "h200", {"pipeline_parallel": 2}, "stages_not_known", "pipeline_parallel"),
        ("glm-5-fp8", "b200", {"kv_cache_dtype": "fp8"}, "cache_layout_not_known", "bfloat16"),
        ("llama-3.1-8b", "h200", {"extra_args": ("--enable-symm-mem",)}, "argument_not_counted", "--enable-symm-mem"),
    ],
)
def test_what_is_not_known_is_named(model: str, gpu: str, settings: dict[str, Any], code: str, words: str) -> None:
    planned = sglang(model, gpu, **settings)
    assert code in codes(planned)
    assert words in texts(planned)
    assert planned.verdict in ("unknown", "rejected")


def test_little_room_for_activations_is_said_and_makes_a_plan_tight() -> None:
    little, enough = sglang("llama-3.1-70b", gpu_memory_utilization=0.97), sglang("llama-3.1-70b")
    assert "little_headroom" in warning_codes(little)
    assert "little_headroom" not in warning_codes(enough)
    assert (little.verdict, enough.verdict) == ("tight", "fits")


def test_flags_and_parsers_are_those_of_the_release() -> None:
    flags, release = engine_flags(EngineName.SGLANG), newest_release()
    assert (flags.version, flags.flags) == (release.release, release.flags)
    assert flags.short_forms == release.short_forms
    assert (flags.tool_parsers, flags.reasoning_parsers) == (release.tool_parsers, release.reasoning_parsers)
    assert {*FLAGS.of_the_plan, *FLAGS.harmless, *FLAGS.only_add, *FLAGS.of_the_server} <= {*release.flags}
    defaults = sglang_defaults()
    assert {*defaults.tool_parsers.values()} <= {*release.tool_parsers}
    assert {*defaults.reasoning_parsers.values()} <= {*release.reasoning_parsers}


def test_every_flag_of_a_plan_exists() -> None:
    known = {*newest_release().flags}
    settings = {"max_num_seqs": 4, "max_num_queued_reqs": 8, "max_num_batched_tokens": 4096, "block_size": 64}
    planned = sglang("kimi-k2.5", "h100", nodes=2, enable_prefix_caching=False, expert_parallel=True, **settings)
    given = {word for word in planned.engine_args if word.startswith("--")}
    process = sglang_process(START, Role.WORKER)
    given |= {word for word in process.arguments if word.startswith("--")}
    assert given <= known
    assert not [each for each in check_arguments(FLAGS, ("--log-level", "debug")) if each.code]


@pytest.mark.parametrize("model", models(), ids=lambda model: model.name)
def test_parsers_of_the_catalogue_are_sglangs_or_are_said_to_be_missing(model: Any) -> None:
    release = newest_release()
    assert tool_parser(model.serving) in (None, *release.tool_parsers)
    assert reasoning_parser(model.serving) in (None, *release.reasoning_parsers)


@pytest.mark.parametrize(
    ("role", "group", "pre_stop"),
    [
        (Role.ALONE, (), ("sleep", "15")),
        (Role.LEADER, ("--nnodes", "2", "--node-rank", "$(LWS_WORKER_INDEX)"), ("sleep", "15")),
        (Role.WORKER, ("--nnodes", "2", "--node-rank", "$(LWS_WORKER_INDEX)"), ()),
    ],
)
def test_a_pod_knows_its_rank_and_its_leader(role: Role, group: tuple[str, ...], pre_stop: tuple[str, ...]) -> None:
    process = sglang_process(START, role)
    assert process.arguments[:8] == (
        *("--model-path", "/weights/0", "--served-model-name", "acme/model"),
        *("--host", "0.0.0.0", "--port", "30000"),
    )
    leader = ("--dist-init-addr", "$(LWS_LEADER_ADDRESS):25000") if group else ()
    assert process.arguments[10:] == (*group, *leader)
    assert tuple(process.pre_stop) == pre_stop
    assert "SGL_FORCE_SHUTDOWN" not in process.environment
    assert process.pod_fields == ({} if role is Role.ALONE else {"SGLANG_HOST_IP": "status.podIP"})


@pytest.mark.parametrize(("key", "given"), [(None, []), ("a b$c'", ["--api-key", "a b$c'"])])
def test_the_key_becomes_an_argument_and_nothing_else_is_changed(
    tmp_path: Path, key: str | None, given: list[str]
) -> None:
    python = tmp_path / "python3"
    python.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    python.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"} | ({"SGLANG_API_KEY": key} if key else {})
    command = ["sh", "-c", LAUNCH.read_text(), "sglang", "--model-path", "/weights/a b"]
    said = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.splitlines()
    assert said == ["-m", "sglang.launch_server", "--model-path", "/weights/a b", *given]
