"""Weights by group and per GPU, against figures worked out apart from the planner and against published sizes."""

import pytest

from config.checkpoint.model_spec import find_model
from engines.plan import Layout
from engines.vllm.memory.sharding import stage_layers
from planner.report.accuracy import GATE, Comparison, size_comparisons, weight_comparisons
from tests.unit.planner.asking import derivation, weights_gib

_GROUPS = {"dense_mlp", "shared_experts", "indexer", "router"}


@pytest.mark.parametrize("name", sorted(derivation()["models"]))
def test_parameters_and_bytes_equal_the_independent_derivation(name: str) -> None:
    expected = derivation()["models"][name]
    groups = find_model(name).groups
    assert sum(group.parameters for group in groups) == expected["total_parameters"]
    parameters = dict.fromkeys(_GROUPS & expected["groups"].keys(), 0)
    for found in groups:
        if found.group in parameters:
            parameters[found.group] += found.parameters
    assert parameters == {group: expected["groups"][group]["parameters"] for group in parameters}
    routed = sum(found.bytes for found in groups if found.group == "routed_experts")
    if "routed_experts" in expected["groups"]:
        assert routed == expected["groups"]["routed_experts"]["bytes"]
    assert sum(found.bytes for found in groups) == expected["total_bytes"]


@pytest.mark.parametrize(
    ("name", "tp", "gib"),
    [
        (name, int(tp), gib)
        for name, model in derivation()["models"].items()
        for tp, gib in model["per_gpu_gib"].items()
    ],
)
def test_weights_per_gpu_equal_the_independent_derivation(name: str, tp: int, gib: float) -> None:
    # vLLM holds Kimi's patch embedding and positions whole on each GPU; the derivation cuts them (8 MB).
    assert weights_gib(name, gpus_per_node=tp) == pytest.approx(gib, abs=0.015)


@pytest.mark.parametrize(("tp", "gib"), [(4, 175.27), (8, 88.67), (16, 45.37)])
def test_an_mtp_layer_is_not_loaded(tp: int, gib: float) -> None:
    # The derivation takes the indexer's small projection for fp8; the checkpoint leaves it in 16 bits (15 MB).
    assert weights_gib("glm-5-fp8", gpus_per_node=tp) == pytest.approx(gib, abs=0.025)
    mtp = [group for group in find_model("glm-5-fp8").groups if group.place == "mtp"]
    assert sum(group.bytes for group in mtp) > 9e9


def test_a_data_parallel_vision_encoder_is_whole_on_each_gpu() -> None:
    assert weights_gib("kimi-k2.5") == pytest.approx(71.15, abs=0.015)
    assert weights_gib("kimi-k2.5", mm_encoder_tp_mode="data") == pytest.approx(71.83, abs=0.005)
    assert weights_gib("kimi-k2.5", language_model_only=True) == pytest.approx(70.95, abs=0.005)


@pytest.mark.parametrize(
    ("mode", "published"), [(None, (35.74, 35.40)), ("data", (36.42, 35.40))], ids=["split", "data-parallel"]
)
def test_pipeline_stages_hold_their_layers_and_their_ends(mode: str | None, published: tuple[float, float]) -> None:
    found = [
        weights_gib("kimi-k2.5", stage, gpu="h100", nodes=2, tensor_parallel=8, mm_encoder_tp_mode=mode)
        for stage in (0, 1)
    ]
    # 35.405 GiB lies on the edge between two printed values.
    assert found == pytest.approx(published, abs=0.015)


def test_expert_parallel_spreads_experts_and_copies_the_rest_on_each_data_parallel_rank() -> None:
    layout = {"tensor_parallel": 1, "data_parallel": 8, "expert_parallel": True}
    assert weights_gib("kimi-k2.5", **layout) == pytest.approx(89.16, abs=0.005)
    assert weights_gib("kimi-k2.5", **layout, language_model_only=True) == pytest.approx(88.28, abs=0.005)


def test_key_and_value_projections_stop_splitting_at_the_number_of_heads() -> None:
    # Qwen3-235B has 4 key-value heads: at TP8 each rank holds as much of them as at TP4.
    def key_value(tp: int) -> float:
        groups = [group for group in find_model("qwen3-235b-a22b").groups if group.sharding == "key_value"]
        return sum(group.bytes for group in groups) / min(tp, 4)

    eight, four = (weights_gib("qwen3-235b-a22b", gpus_per_node=tp) for tp in (8, 4))
    assert 2 * eight - four > key_value(8) / 2**30


@pytest.mark.parametrize(
    ("layers", "stages", "sizes"),
    [(61, 2, [31, 30]), (61, 4, [15, 15, 16, 15]), (78, 4, [19, 20, 20, 19]), (32, 4, [8, 8, 8, 8])],
)
def test_layers_left_over_go_to_the_stages_before_the_last(layers: int, stages: int, sizes: list[int]) -> None:
    assert [len(stage) for stage in stage_layers(layers, stages)] == sizes


@pytest.mark.parametrize("comparison", weight_comparisons(), ids=lambda comparison: comparison.what)
def test_weights_per_gpu_are_within_a_percent_of_the_log(comparison: Comparison) -> None:
    limit = GATE if comparison.not_gated is None else 0.035
    assert abs(comparison.error) < limit, f"{comparison.what}: {comparison.published} against {comparison.predicted}"


@pytest.mark.parametrize("comparison", size_comparisons(), ids=lambda comparison: comparison.what)
def test_checkpoints_are_as_large_as_published(comparison: Comparison) -> None:
    assert abs(comparison.error) < 0.002


def test_every_byte_of_the_checkpoint_is_on_some_gpu() -> None:
    loaded = sum(group.bytes for group in find_model("kimi-k2.5").groups if group.place != "mtp")
    for layout in (Layout(tp=8), Layout(tp=8, pp=2), Layout(tp=4, pp=4)):
        held = sum(
            weights_gib("kimi-k2.5", stage, nodes=layout.pp, gpus_per_node=layout.tp) * 2**30 * layout.tp
            for stage in range(layout.pp)
        )
        assert held >= loaded
