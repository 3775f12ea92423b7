"""Arguments and environment that follow from a plan, against the flags of the pinned engine."""

import pytest

from config.catalogue import ModelFamily, engine_flags, models
from config.engine_name import EngineName
from engines.llama_cpp.flags import FLAGS as LLAMA_CPP_FLAGS
from engines.rules.arguments import FlagRules, check_arguments
from engines.vllm.flags import FLAGS as VLLM_FLAGS
from tests.unit.planner.asking import codes, plan, texts, warning_codes


def test_the_production_setup_of_the_first_article_is_derived() -> None:
    planned = plan("moonshotai/Kimi-K2.5", kv_cache_dtype="fp8", mm_encoder_tp_mode="data", max_model_len=262_144)
    assert planned.engine_args == (
        "--tensor-parallel-size", "8",
        "--max-model-len", "262144",
        "--gpu-memory-utilization", "0.92",
        "--kv-cache-dtype", "fp8",
        "--mm-encoder-tp-mode", "data",
        "--enable-prefix-caching",
        "--trust-remote-code",
        "--enable-auto-tool-choice", "--tool-call-parser", "kimi_k2",
        "--reasoning-parser", "kimi_k2",
    )  # fmt: skip


def test_two_nodes_get_their_layout() -> None:
    arguments = plan("kimi-k2.5", "h100", nodes=2).engine_args
    assert arguments[:4] == ("--tensor-parallel-size", "8", "--pipeline-parallel-size", "2")


@pytest.mark.parametrize("model", models(), ids=lambda model: model.name)
def test_the_parsers_of_every_model_exist(model: ModelFamily) -> None:
    flags = engine_flags(EngineName.VLLM)
    for parser, known in (
        (model.serving.tool_call_parser, flags.tool_parsers),
        (model.serving.reasoning_parser, flags.reasoning_parsers),
    ):
        assert parser is None or parser in known
    for argument in model.serving.args:
        assert argument.split("=")[0] in flags.flags


def test_an_argument_that_vllm_does_not_have_is_refused_with_what_is_meant() -> None:
    planned = plan("kimi-k2.5", extra_args=("--max-num-seq=4", "--swap-space", "4"))
    assert codes(planned) == {"argument_not_known", "argument_gone"}
    assert "--max-num-seqs" in texts(planned)


def test_an_argument_of_the_plan_is_refused_with_the_setting_to_use() -> None:
    planned = plan("kimi-k2.5", extra_args=("--max-model-len", "8192", "-tp", "4"))
    assert codes(planned) == {"argument_of_the_plan"}
    assert "max_model_len" in texts(planned)
    assert "tensor_parallel" in texts(planned)


def test_a_known_argument_its_negation_and_nested_values_are_passed_on() -> None:
    extra = ("--seed", "-1", "--no-enable-flashinfer-autotune", "--reasoning-config.budget", "4")
    planned = plan("kimi-k2.5", extra_args=extra)
    assert planned.verdict == "fits"
    assert planned.engine_args[-len(extra) :] == extra


@pytest.mark.parametrize(
    "arguments",
    [
        ("--speculative-config", '{"method": "eagle3"}'),
        ("--speculative-config.method", "mtp"),
        ("--dtype", "float32"),
        ("--enable-elastic-ep",),
        ("--limit-mm-per-prompt", '{"image": 8}'),
        ("--hf_overrides", "{}"),
        ("--no-enable-chunked-prefill",),
        ("-O3",),
        ("-cc.mode=3",),
    ],
)
def test_an_argument_that_can_change_memory_leaves_the_verdict_open_and_is_named(arguments: tuple[str, ...]) -> None:
    planned = plan("kimi-k2.5", extra_args=arguments)
    assert planned.verdict == "unknown"
    assert codes(planned) <= {"argument_not_counted", "argument_adds_memory"}
    assert arguments[0].split("=")[0] in texts(planned)


@pytest.mark.parametrize("rules", [VLLM_FLAGS, LLAMA_CPP_FLAGS], ids=lambda rules: rules.engine)
def test_every_flag_of_the_table_exists_and_has_one_meaning(rules: FlagRules) -> None:
    sets = [rules.harmless, rules.counted, rules.only_add, rules.of_the_server, frozenset(rules.of_the_plan)]
    assert frozenset().union(*sets) <= set(engine_flags(rules.engine).flags)
    assert sum(map(len, sets)) == len(frozenset().union(*sets))


@pytest.mark.parametrize("rules", [VLLM_FLAGS, LLAMA_CPP_FLAGS], ids=lambda rules: rules.engine)
def test_every_flag_of_the_engine_that_is_not_known_as_harmless_leaves_the_verdict_open(rules: FlagRules) -> None:
    flags = engine_flags(rules.engine)
    answered = rules.harmless | rules.counted | rules.of_the_server | rules.of_the_plan.keys() | {"--api-key"}
    for flag in (*flags.flags, *flags.short_forms):
        meant = flags.short_forms.get(flag, flag)
        [*found] = check_arguments(rules, (flag,))
        if meant in answered:
            assert "unknown" not in {each.severity for each in found}, flag
        else:
            assert [each.severity for each in found] == ["unknown"], flag
            assert flag in found[0].message


def test_prefix_caching_is_a_setting() -> None:
    assert codes(plan("kimi-k2.5", extra_args=("--no-enable-prefix-caching",))) == {"argument_of_the_plan"}


def test_fp4_switches_are_for_gpus_that_have_fp4() -> None:
    assert dict(plan("kimi-k2.5-nvfp4", "h200").engine_env) == {}
    assert dict(plan("kimi-k2.5-nvfp4", "b200").engine_env) == {"VLLM_USE_FLASHINFER_MOE_FP4": "1"}


@pytest.mark.parametrize(
    ("model", "arguments", "code"),
    [
        ("kimi-k2.5", ("8192",), "argument_without_flag"),
        ("kimi-k2.5", ("--seed=1", "2"), "argument_without_flag"),
        ("kimi-k2.5", ("--port", "9000"), "argument_of_the_server"),
        ("kimi-k2.5", ("--api-key=sesame",), "argument_is_secret"),
        ("kimi-k2.5-gguf", ("-m", "other.gguf"), "argument_of_the_server"),
        ("kimi-k2.5-gguf", ("-c", "4096"), "argument_of_the_plan"),
        ("kimi-k2.5-gguf", ("--cpu-moe",), "argument_of_the_plan"),
    ],
)
def test_an_argument_that_the_engine_would_stumble_over_is_refused(
    model: str, arguments: tuple[str, ...], code: str
) -> None:
    engine = "llama.cpp" if "gguf" in model else "vllm"
    assert codes(plan(model, engine=engine, extra_args=arguments)) == {code}


def test_values_of_a_flag_that_takes_several_are_let_through() -> None:
    assert plan("kimi-k2.5", extra_args=("--seed", "-1", "--allowed-origins", "a", "b")).verdict == "fits"


def test_a_setting_of_the_other_engine_is_said_to_do_nothing() -> None:
    gguf = plan("kimi-k2.5-gguf", engine="llama.cpp", tensor_parallel=4, gpu_memory_utilization=0.5)
    [message] = [each.message for each in gguf.warnings if each.code == "setting_not_used"]
    assert message.startswith("tensor_parallel, gpu_memory_utilization: llama.cpp has no such setting")
    assert "setting_not_used" in warning_codes(plan("kimi-k2.5", expert_offload=True))
    assert "setting_not_used" not in warning_codes(plan("kimi-k2.5", tensor_parallel=8))


def test_a_context_that_gives_a_slot_no_token_is_refused() -> None:
    settings = {"engine": "llama.cpp", "max_model_len": 4, "max_num_seqs": 8}
    assert codes(plan("kimi-k2.5-gguf", **settings)) == {"context_below_slots"}


@pytest.mark.parametrize(
    "extra",
    [
        ("-O3",),
        ("-O", "3"),
        ("-cc.mode=3",),
        ("--kv_transfer_config", "{}"),
        ("--kv_transfer_config={}",),
        ("--compilation_config.mode=3",),
    ],
)
def test_a_flag_is_read_as_vllms_parser_reads_it(extra: tuple[str, ...]) -> None:
    planned = plan("kimi-k2.5", extra_args=extra)
    assert codes(planned) == {"argument_not_counted"}, "known, and not refused"
    assert planned.engine_args[-len(extra) :] == extra


@pytest.mark.parametrize("flag", ["--headless", "--nnodes=2", "-n", "--node_rank=1", "--master-addr=x"])
def test_a_flag_that_the_server_sets_for_groups_is_refused(flag: str) -> None:
    assert codes(plan("kimi-k2.5", extra_args=(flag,))) == {"argument_of_the_server"}


def test_what_does_not_fit_is_unknown_beside_an_argument_that_can_free_memory() -> None:
    short = plan("kimi-k2.5", "h100")
    assert short.verdict == "rejected"
    offloaded = plan("kimi-k2.5", "h100", extra_args=("--offload-group-size", "8"))
    assert offloaded.verdict == "unknown"
    assert codes(offloaded) == codes(short) | {"argument_not_counted"}, "the reason is still told"
    adapters = plan("kimi-k2.5", "h100", extra_args=("--enable-prompt-embeds",))
    assert adapters.verdict == "rejected", "they only take more"
