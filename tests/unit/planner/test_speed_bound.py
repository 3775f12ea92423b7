"""The bound of speed: by hand from public figures, and against the weights that other sources count."""

from __future__ import annotations

from dataclasses import replace

import pytest

from config.catalogue import find_gpu, gpus, ground_truth
from config.checkpoint.model_spec import find_model
from engines.plan import CacheBlocks, Layout, Plan
from engines.speed import Speed, Workload
from planner import FitRequest, fit
from planner.fit import with_workload
from planner.report.speed import speed_facts
from planner.speed.bound import decode_step, prefill
from planner.speed.work import Work, work_of
from tests.unit.planner.asking import plan

_A100, _H200, _B200 = (find_gpu(name).speed for name in ("a100-80gb", "h200", "b200"))


def _work(model: str, layout: Layout | None = None, kv_bytes_per_token: int = 0) -> Work:
    assert _H200 is not None
    work = work_of(find_model(model), _H200, layout or Layout(), kv_bytes_per_token)
    assert work is not None
    return work


def _speed(planned: Plan) -> Speed:
    assert planned.speed is not None
    return planned.speed


@pytest.mark.parametrize(
    ("model", "published"),
    [
        # Bytes that one token reads of the checkpoint, counted from the shapes in aiconfigurator's model_configs.
        ("deepseek-r1", 37_657_706_496),
        ("kimi-k2", 33_025_622_016),
        ("kimi-k2.5", 32_984_399_872),
        ("minimax-m2.5", 11_078_467_584),
        ("qwen3-235b-a22b", 43_135_270_912),
        ("qwen3-8b", 15_136_194_560),
        ("llama-3.1-70b", 139_003_428_864),
        ("llama-3.1-70b-instruct-fp8", 70_552_387_584),
        ("gpt-oss-120b", 4_999_403_520),
        ("glm-5-fp8", 41_901_490_176),
    ],
)
def test_one_token_reads_the_active_weights(model: str, published: int) -> None:
    assert _work(model).weights_read(1) == pytest.approx(published, rel=0.01)


@pytest.mark.parametrize(
    ("model", "billions"),
    # Active parameters as the model cards print them; cards count the embeddings that a token does not multiply.
    [("deepseek-r1", 37), ("kimi-k2", 32), ("qwen3-235b-a22b", 22), ("gpt-oss-120b", 5.1), ("minimax-m2.5", 10)],
)
def test_one_token_multiplies_the_active_parameters(model: str, billions: float) -> None:
    assert _A100 is not None
    work = work_of(find_model(model), _A100, Layout(), 0)  # every type at one peak: 312 TFLOPS
    assert work is not None
    operations = (work.dense_seconds + work.head_seconds + work.expert_seconds) * 312e12
    assert operations / 2e9 == pytest.approx(billions, rel=0.05)


def test_a_step_of_llama_by_hand() -> None:
    # Llama-3.1-70B in 16 bits over 8 GPUs: 80 layers of 2 x 8192^2 + 2 x 8192 x 1024 + 3 x 8192 x 28672 parameters,
    # two norms of 8192 each and one at the end, and a head of 128256 x 8192. Norms are on every GPU.
    matrices = 80 * (2 * 8192**2 + 2 * 8192 * 1024 + 3 * 8192 * 28672) + 128256 * 8192
    weights = 2 * (matrices / 8 + 80 * 2 * 8192 + 8192)
    # One of 8 key-value heads of 128 on each GPU: 80 x 2 x 128 x 2 bytes for each token.
    assert _H200 is not None
    step = decode_step(_work("llama-3.1-70b", Layout(tp=8), 80 * 2 * 128 * 2), _H200, users=4, context=1000)
    assert step.weights == pytest.approx(weights / 4.8e12)
    assert step.cache == pytest.approx(4 * 1000 * 40_960 / 4.8e12)
    assert step.compute == pytest.approx(4 * 2 * (matrices / 8 + 80 * 2 * 8192 + 8192) / 989e12)
    # Two sums in each layer of 8192 elements of 2 bytes, of which a rank sends seven eighths.
    assert step.link == pytest.approx(4 * 80 * 2 * 8192 * 2 * 7 / 8 / 450e9)
    assert step.seconds == pytest.approx(step.weights + step.cache)


def test_the_first_token_of_llama_by_hand() -> None:
    # 8000 tokens through all matrices but the head, and on average half of them attended by 64 heads of 128, twice.
    parameters = 80 * ((2 * 8192**2 + 2 * 8192 * 1024 + 3 * 8192 * 28672) / 8 + 2 * 8192)
    attention = 80 * 2 * 64 * (128 + 128) / 8 * 4000
    assert _H200 is not None
    first = prefill(_work("llama-3.1-70b", Layout(tp=8)), _H200, tokens=8000)
    assert first.compute == pytest.approx(8000 * (2 * parameters + attention) / 989e12)


def test_tokens_take_different_experts() -> None:
    # 64 tokens with 8 of 256 experts each take 256 x (1 - (31/32)^64) = 222.4 of them on average.
    work = _work("deepseek-r1")
    experts = work.weights_read(64) - work.dense_bytes
    assert experts / (work.expert_bytes / 256) == pytest.approx(222.4, abs=0.1)
    assert work.weights_read(1) - work.dense_bytes == pytest.approx(work.expert_bytes * 8 / 256)


def test_a_data_parallel_rank_reads_the_cache_of_its_own_users() -> None:
    assert _H200 is not None
    whole = decode_step(_work("deepseek-r1", Layout(tp=8), 70_272), _H200, users=64, context=8000)
    spread = decode_step(_work("deepseek-r1", Layout(dp=8, ep=8), 70_272), _H200, users=64, context=8000)
    assert spread.cache == pytest.approx(whole.cache / 8)
    assert spread.link == 0.0


def test_pipeline_stages_share_the_users_and_not_the_time_of_a_token() -> None:
    assert _H200 is not None
    one = decode_step(_work("llama-3.1-70b", Layout(tp=4)), _H200, users=1, context=1000)
    staged = decode_step(_work("llama-3.1-70b", Layout(tp=4, pp=2)), _H200, users=1, context=1000)
    assert staged.weights == pytest.approx(one.weights)


def test_a_window_and_a_sparse_attention_read_no_more_than_they_see() -> None:
    # 18 layers of gpt-oss see all, 18 the last 128 tokens; each token has 8 heads of 64, twice, in 2 bytes.
    cache = _work("gpt-oss-120b", kv_bytes_per_token=18 * 2048).cache
    assert cache.bytes_of(10_000) == pytest.approx(18 * 2048 * (10_000 + 128))
    # GLM-5 reads at most 2048 tokens of 576 elements in each of 78 layers, and all keys of the indexer: 132 bytes.
    own = 78 * 132
    sparse = _work("glm-5-fp8", kv_bytes_per_token=78 * 1152 + own).cache
    assert sparse.bytes_of(50_000) == pytest.approx(78 * 1152 * 2048 + own * 50_000)


def test_the_users_are_those_whose_requests_the_cache_holds() -> None:
    # A public log prints 715,072 tokens for 46.8 GiB: 77 requests of 9,216.
    log = next(entry for entry in ground_truth().caches if entry.id == "M01")
    planned = plan(
        log.checkpoint, log.gpu, gpus_per_node=log.tp, kv_cache_dtype=log.kv_cache_dtype, available_kv_gib=log.kv_gib
    )
    assert _speed(planned).most.users == log.tokens // 9216 == 77
    limited = plan("kimi-k2.5", kv_cache_dtype="fp8", max_num_seqs=12)
    assert _speed(limited).most.users == 12


def test_blocks_that_every_request_takes_count_too() -> None:
    # Two groups of layers with 64 tokens to a block: 2 x 144 blocks for 9,216 tokens, and 10 of fixed size.
    assert CacheBlocks(blocks=2000, tokens=64, growing_groups=2, fixed=10).requests(9216) == 6


def test_a_short_context_shortens_the_requests() -> None:
    speed = _speed(plan("kimi-k2.5", max_model_len=4608))
    assert speed.workload == Workload(4096, 512)


def test_the_price_is_of_the_gpus_that_serve() -> None:
    # 2 $ for each of 8 GPUs; the answers of the most users in an hour.
    speed = _speed(plan("kimi-k2.5", usd_per_gpu_hour=2.0))
    tokens = speed.most.tokens_per_second(speed.most.bound) * 3600
    assert speed.usd(speed.least_gpu_hours.answers) == pytest.approx(16 / tokens * 1e6)
    assert _speed(plan("kimi-k2.5")).usd(1.0) is None


def test_drafted_tokens_make_the_bound_no_tighter_than_all_of_them_accepted() -> None:
    alone = _speed(plan("deepseek-r1"))
    drafting = _speed(plan("deepseek-r1", speculative_tokens=3))
    assert "if every drafted token is accepted" in dict(speed_facts(drafting))["bound"]
    assert drafting.one.bound.tpot == pytest.approx(alone.one.bound.tpot / 4, rel=0.05)


def test_weights_that_are_quantised_while_they_load_are_read_so() -> None:
    as_stored, online = plan("llama-3.1-70b"), plan("llama-3.1-70b", quantization="fp8")
    # Half of 139 GB, but for the head, which keeps 16 bits: 128256 x 8192.
    head = 128256 * 8192
    expected = (139.003e9 - 2 * head) / 2 + 2 * head
    speeds = [_speed(each).one.bound.tpot for each in (as_stored, online)]
    assert speeds[1] / speeds[0] == pytest.approx(expected / 139.003e9, rel=0.02)


def test_a_rejected_plan_and_a_plan_without_gpu_have_no_speed() -> None:
    assert plan("kimi-k2.5", gpus_per_node=2).speed is None
    assert plan("gemma-3-270m-gguf", gpu=None, gpus_per_node=0).speed is None


def test_another_workload_keeps_the_rest_of_the_plan() -> None:
    request = FitRequest(model="kimi-k2.5", gpu="h200")
    planned = fit(request)
    other = with_workload(planned, request, Workload(1000, 1000))
    assert _speed(other).workload == Workload(1000, 1000)
    assert replace(other, speed=None) == replace(planned, speed=None)


@pytest.mark.parametrize("gpu", [gpu.name for gpu in gpus()])
def test_narrower_types_are_never_slower(gpu: str) -> None:
    speed = find_gpu(gpu).speed
    assert speed is not None
    assert speed.bf16_flops <= (speed.fp8_flops or speed.bf16_flops) <= (speed.fp4_flops or 1e18)
    assert speed.link_bytes_per_second < speed.memory_bytes_per_second
