"""What a refused plan offers instead, pasted into the stack file as it is printed."""

import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from config.catalogue import CapacityKind
from config.stack.file import read_sections
from config.stack.sections import StackConfig
from engines.request import Deployment
from planner import Plan, fit
from planner.stack_request import request_of_stack
from tests.unit.planner.asking import codes, plan, texts, warning_codes

_PROGRAM = Path(__file__).parents[3]


def stack(name: str, **changes: dict[str, Any]) -> dict[str, Any]:
    """The sections of a committed stack file, with some keys changed."""
    sections = deepcopy(read_sections(_PROGRAM / f"Pulumi.{name}.yaml"))
    for section, values in changes.items():
        sections[section] |= values
    return sections


def planned(sections: dict[str, Any]) -> Plan:
    return fit(request_of_stack(StackConfig.parse(sections), None))


def pasted(sections: dict[str, Any], section: str, *lines: str) -> Plan:
    """The plan after these lines went into the stack file."""
    return planned(sections | {section: sections[section] | yaml.safe_load("\n".join(lines))})


def settings_offered(refused: Plan) -> list[list[str]]:
    """The suggestions that are settings of the engine, as lines of its section: `tensor_parallel: 8`."""
    [offered] = {problem.fix for problem in refused.problems if problem.fix.startswith("What fits instead")}
    suggestions = offered.removeprefix("What fits instead: ").removesuffix(".").split("; ")
    return [
        [setting.replace(" ", ": ", 1) for setting in suggestion.removesuffix(", which is tight").split(" and ")]
        for suggestion in suggestions
        if suggestion.split()[0].islower()
    ]


@pytest.mark.parametrize(
    ("name", "engine"),
    [
        ("h200", {"tensor_parallel": 3}),
        ("h200", {"tensor_parallel": 4}),
        ("h200", {"max_model_len": 10**9}),
        ("h200", {"tensor_parallel": 3, "data_parallel": 2, "decode_context_parallel": 3}),
        ("h100x16", {"tensor_parallel": 3}),
        ("h100x16", {"tensor_parallel": 3, "pipeline_parallel": 1}),
        ("h100x16", {"tensor_parallel": 8, "pipeline_parallel": 1}),
    ],
)
def test_a_suggested_setting_is_accepted_when_it_is_pasted(name: str, engine: dict[str, int]) -> None:
    sections = stack(name, engine=engine)
    offered = settings_offered(planned(sections))
    assert offered
    for lines in offered:
        assert pasted(sections, "engine", *lines).verdict in ("fits", "tight"), lines


def test_where_another_width_does_no_second_node_is_suggested() -> None:
    said = texts(planned(stack("h200", engine={"tensor_parallel": 3})))
    assert "What fits instead: tensor_parallel 8." in said
    assert "Use one of 1, 2, 4, 8." in said, "and no width that one node does not have"
    assert "No flag can help" not in texts(planned(stack("h200", engine={"tensor_parallel": 4})))


def test_the_size_of_a_volume_is_suggested_in_the_stacks_notation() -> None:
    sections = stack("h200", weights={"size": "700G"})
    [problem] = planned(sections).problems
    found = re.search(r"Set weights\.size to (\w+), or weights\.keep_revisions to 1\.", problem.fix)
    assert found is not None, problem.fix
    assert pasted(sections, "weights", f"size: {found[1]}").verdict == "fits"
    assert pasted(sections, "weights", "keep_revisions: 1").verdict == "fits"


def test_host_memory_is_suggested_in_the_stacks_notation() -> None:
    sections = stack("dev", engine={"memory": "200Mi"})
    [problem] = planned(sections).problems
    found = re.search(r"Set memory to (\w+),", problem.fix)
    assert found is not None, problem.fix
    assert pasted(sections, "engine", f"memory: {found[1]}").verdict == "fits"


@pytest.mark.parametrize("name", ["h200", "h200-gguf"])
def test_the_longest_context_of_the_model_is_suggested_in_the_stacks_notation(name: str) -> None:
    sections = stack(name, engine={"max_model_len": 10**8})
    found = re.search(r"Set max_model_len to (\d+) or less", texts(planned(sections)))
    assert found is not None
    assert "context_beyond_model" not in codes(pasted(sections, "engine", f"max_model_len: {found[1]}"))


@pytest.mark.parametrize(
    ("include", "file"),
    [("nosuch.gguf", "nosuch.gguf"), ("nope*", "nope.gguf"), ("UD-Q4_K_XL/*.gguf", "UD-Q4_K_XL/other.gguf")],
)
def test_a_quantisation_that_the_catalogue_does_not_list_is_unknown_and_those_that_it_lists_are_named(
    include: str, file: str
) -> None:
    """Like an unknown repository: what is staged is not counted, and need not be wrong."""
    sections = stack("h200-gguf", model={"include": [include]}, engine={"model_file": file}, weights={"size": "2Ti"})
    open_plan = planned(sections)
    assert (open_plan.verdict, codes(open_plan)) == ("unknown", {"nothing_included"})
    assert open_plan.weights_bytes is None
    assert open_plan.model_file == file
    assert "Use Q4_K_M/*.gguf or UD-Q2_K_XL/*.gguf, or add another one" in texts(open_plan)
    assert planned(stack("h200-gguf")).verdict == "fits"


@pytest.mark.parametrize("name", ["h200", "h200-gguf"])
def test_a_gpu_that_the_catalogue_does_not_list_is_unknown(name: str) -> None:
    open_plan = planned(stack(name, nodes={"gpu": "h2000"}))
    assert (open_plan.verdict, codes(open_plan)) == ("unknown", {"gpu_not_in_catalogue"})
    assert open_plan.weights_bytes == planned(stack(name)).weights_bytes
    assert "the pods ask for nvidia.com/gpu" in texts(open_plan)
    assert "expected one of h200" in texts(open_plan)


def test_a_single_file_is_suggested_by_its_own_name() -> None:
    sections = stack("dev", model={"include": ["nosuch.gguf"]})
    assert "Use gemma-3-270m-q4_k_m.gguf," in texts(planned(sections))
    assert pasted(sections, "model", "include: [gemma-3-270m-q4_k_m.gguf]").verdict == "fits"


@pytest.mark.parametrize("include", [("UD-Q2_K_XL/",), ("UD-Q2_K_XL/*.gguf",), ("*",), ("*Q2*", "README.md")])
def test_patterns_are_read_as_the_stager_reads_them(include: tuple[str, ...]) -> None:
    assert plan("unsloth/Kimi-K2.5-GGUF", engine="llama.cpp", include=include).verdict == "fits"


@pytest.mark.parametrize("include", [("nope*",), ("*.safetensors",)])
def test_patterns_without_the_configuration_of_the_model_are_refused_for_vllm(include: tuple[str, ...]) -> None:
    assert "config_not_included" in codes(plan("kimi-k2.5", include=include))
    assert plan("kimi-k2.5", include=("*.safetensors", "*.json", "*.py", "*.model")).verdict == "fits"


@pytest.mark.parametrize(
    ("include", "stages_weights"),
    [
        (("*.json",), False),
        (("*.json", "*.py", "tokenizer*.model"), False),
        (("*.json", "model.safetensors.index.json"), False),
        (("*",), True),
        (("*.json", "model-*"), True),
        (("*.json", "*-0000[1-9]-of-*.safetensors"), True),
    ],
)
def test_patterns_without_weights_are_refused_for_vllm(include: tuple[str, ...], stages_weights: bool) -> None:
    expected = set() if stages_weights else {"weights_not_included"}
    assert codes(plan("kimi-k2.5", include=include)) == expected


@pytest.mark.parametrize("name", ["CUDA_VISIBLE_DEVICES", "VLLM_MLA_DISABLE"])
def test_a_variable_that_changes_what_the_plan_counts_is_unknown(name: str) -> None:
    open_plan = planned(stack("h200", engine={"environment": {name: "1", "VLLM_LOGGING_LEVEL": "DEBUG"}}))
    assert (open_plan.verdict, codes(open_plan)) == ("unknown", {"environment_not_counted"})
    assert f"engine.environment sets {name}" in texts(open_plan)


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("h200", "VLLM_SERVER_DEV_MODE"),
        ("h200", "VLLM_API_KEY"),
        ("h200-sglang", "SGLANG_API_KEY"),
        ("h200-gguf", "LLAMA_API_KEY"),
        ("h200", "HF_HUB_OFFLINE"),
        ("h200-gguf", "HF_TOKEN"),
    ],
)
def test_a_variable_that_opens_the_server_or_shows_a_secret_is_refused(name: str, variable: str) -> None:
    refused = planned(stack(name, engine={"environment": {variable: "1"}}))
    assert (refused.verdict, codes(refused)) == ("rejected", {"environment_refused"})
    assert f"engine.environment sets {variable}" in texts(refused)


def test_a_variable_that_sets_a_flag_of_llama_cpp_is_unknown() -> None:
    open_plan = planned(stack("h200-gguf", engine={"environment": {"LLAMA_ARG_CTX_SIZE": "4096"}}))
    assert (open_plan.verdict, codes(open_plan)) == ("unknown", {"environment_not_counted"})


@pytest.mark.parametrize(
    ("name", "image", "warned"),
    [
        ("h200", "vllm/vllm-openai:v0.19.0", True),
        ("h200", "vllm/vllm-openai:v0.33.0@sha256:" + "0" * 64, False),
        ("h200", "vllm/vllm-openai:latest", False),
        ("h200", "registry.example/own:1.2.3", False),
        ("h200-gguf", "ghcr.io/ggml-org/llama.cpp:server-cuda-b1", True),
    ],
)
def test_an_image_of_another_release_than_the_plan_is_named(name: str, image: str, warned: bool) -> None:
    assert ("image_of_another_release" in warning_codes(planned(stack(name, engine={"image": image})))) is warned


@pytest.mark.parametrize(
    ("name", "image"),
    [
        ("mi300x", "vllm/vllm-openai:v0.33.0"),
        ("mi300x", "vllm/vllm-openai@sha256:" + "0" * 64),
        ("h200", "vllm/vllm-openai-rocm:nightly"),
        ("h200-gguf", "ghcr.io/ggml-org/llama.cpp:server-rocm-b10920"),
    ],
)
def test_an_image_for_another_vendors_gpus_is_refused(name: str, image: str) -> None:
    assert codes(planned(stack(name, engine={"image": image}))) == {"image_of_another_vendor"}
    assert "image_of_another_vendor" not in codes(planned(stack(name)))


def test_a_model_file_that_is_not_staged_is_refused() -> None:
    refused = planned(stack("h200-gguf", engine={"model_file": "other.gguf"}))
    assert codes(refused) == {"model_file_not_staged"}
    assert "other.gguf is not among the files that are staged: UD-Q2_K_XL/*.gguf." in texts(refused)


@pytest.mark.parametrize(("name", "count"), [("h200", 4), ("mi300x", 2)])
def test_the_image_of_a_stack_hides_no_other_gpus(name: str, count: int) -> None:
    nodes, engine = {"gpus_per_node": count}, {"tensor_parallel": count}
    own = planned(stack(name, nodes=nodes, engine=engine | {"image": "registry.example/own:1"}))
    assert "What fits instead" in texts(own)
    assert planned(stack(name, nodes=nodes, engine=engine)).problems == own.problems


def test_in_aws_what_fits_instead_names_instance_types_that_are_sold_in_the_same_way() -> None:
    """p5 has eight H100 and p5e eight H200 (EC2, DescribeInstanceTypes); p5e is the cheaper one with H200 in blocks."""
    on_p5 = {"instance_type": "p5.48xlarge", "capacity": CapacityKind.CAPACITY_BLOCK, "max_model_len": 262_144}
    said = texts(plan("kimi-k2.5", "h100", mm_encoder_tp_mode="data", **on_p5))
    assert "2 x p5.48xlarge (16 H100" in said
    assert "1 x p5e.48xlarge (8 H200" in said
    deployed = Deployment(nodes=1, volume_has_size=False, image="vllm/vllm-openai:v0.33.0")
    said = texts(plan("kimi-k2.5", "h100", mm_encoder_tp_mode="data", deployment=deployed, **on_p5))
    assert "2 x p5.48xlarge (16 H100 SXM), with an image that has EFA libraries" in said


def test_in_aws_one_gpu_has_larger_instances_and_instances_with_a_larger_gpu() -> None:
    """g6.12xlarge has four L4 and g6e.xlarge one L40S (EC2, DescribeInstanceTypes)."""
    asked = {"gpus_per_node": 1, "instance_type": "g6.xlarge", "max_model_len": 131_072}
    said = texts(plan("meta-llama/Llama-3.1-8B-Instruct", "l4", **asked))
    assert "1 x g6.12xlarge (4 L4)" in said
    assert "1 x g6e.xlarge (1 L40S)" in said
