"""Every component can be used from other languages: Pulumi infers its schema, and its host constructs it from plain
values."""

import inspect
import re
from typing import Any, get_type_hints

import pulumi
import pytest
from pulumi.provider.experimental.analyzer import Analyzer, PropertyDefinition
from pulumi.provider.experimental.component import ComponentProvider

from components.__main__ import Host
from components.package import COMPONENTS, PACKAGE
from components.package.reference import REFERENCE_FILE, reference
from tests.recording_engine import Recording, record
from tests.unit.components.samples import COMMIT

PLACEMENT = {
    "nodes": 2.0,
    "hostnames": ["h200-0", "h200-1"],
    "taints": [{"key": "gpu", "effect": "NoSchedule"}],
    "gpuResource": "nvidia.com/gpu",
    "fabric": {"kind": "infiniband", "resource": "rdma/ib", "count": 8.0, "gpuDirect": "PXB"},
    "nvmePath": "/mnt/nvme",
}
MODEL = {"repository": "moonshotai/Kimi-K2.5", "revision": COMMIT}
ON_DISK = {"hostPath": "/mnt/nvme"}
INPUTS: dict[str, dict[str, Any]] = {
    "BareMetalGpuNodes": {key: PLACEMENT[key] for key in ("hostnames", "taints", "gpuResource", "fabric", "nvmePath")},
    "WeightVolume": {
        "kind": "local",
        "namespace": "serving",
        "path": "/mnt/nvme",
        "sizeBytes": 1e12,
        "placement": PLACEMENT,
    },
    "WeightStage": {
        "namespace": "serving",
        "model": MODEL,
        "volume": ON_DISK,
        "placement": PLACEMENT,
        "image": "python:3.12-slim",
        "deadlineSeconds": 900.0,
    },
    "InferenceServer": {
        "namespace": "serving",
        "model": MODEL,
        "volume": ON_DISK,
        "placement": PLACEMENT,
        "engine": {"name": "vllm", "image": "vllm/vllm-openai:v0.33.0", "arguments": ["--tensor-parallel-size", "8"]},
        "pods": {"nodesPerServer": 2.0, "gpusPerPod": 8.0, "sharedMemoryBytes": 2.0**34},
        "limits": {"awaitSeconds": 1800.0},
        "verifierImage": "python:3.12-slim",
        "verify": "full",
    },
    "WeightPrune": {
        "namespace": "serving",
        "model": MODEL,
        "keepNewest": 1.0,
        "volume": ON_DISK,
        "placement": PLACEMENT,
        "image": "python:3.12-slim",
        "program": "stage-program-0123abcd",
        "owner": "serving/h200-stage",
    },
    "ServedModel": {
        "nodes": {"names": ["h200-0"], "gpu": "h200", "gpusPerNode": 8.0, "nvmePath": "/mnt/nvme"},
        "model": MODEL,
        "weights": {"kind": "local", "keepRevisions": 2.0},
        "stage": {"image": "python:3.12-slim"},
        "engine": {
            "name": "vllm",
            "version": "0.33.0",
            "image": "vllm/vllm-openai:v0.33.0",
            "tensorParallel": 8.0,
            "gpuMemoryUtilization": 0.92,
            "mmEncoderTpMode": "data",
        },
        "namespace": "serving",
    },
}


def undescribed(owner: str, properties: dict[str, PropertyDefinition]) -> list[str]:
    return [f"{owner}.{name}" for name, definition in properties.items() if not definition.description]


def test_every_input_and_output_is_described() -> None:
    found = Analyzer(PACKAGE).analyze(list(COMPONENTS))
    missing: list[str] = []
    for name, component in found["component_definitions"].items():
        assert component.outputs
        missing += undescribed(name, {**component.inputs, **component.outputs})
    for name, definition in found["type_definitions"].items():
        missing += undescribed(name, definition.properties)
    assert missing == []


@pytest.mark.parametrize("component", COMPONENTS)
def test_every_component_is_made_by_name_args_and_options(component: type[Any]) -> None:
    parameters = list(inspect.signature(component.__init__).parameters)
    assert parameters == ["self", "name", "args", "opts"]
    assert get_type_hints(component.__init__)["args"].__name__ == f"{component.__name__}Args"


def constructed(component: str, inputs: dict[str, Any], *, preview: bool = False) -> Recording:
    """What Pulumi's component host makes of the values of a program in another language."""
    host = ComponentProvider(list(COMPONENTS), PACKAGE)

    def construct() -> None:
        host.construct("sample", f"{PACKAGE}:index:{component}", inputs)

    return record(construct, preview=preview, stack="h200")


@pytest.mark.parametrize("preview", [True, False])
@pytest.mark.parametrize("component", COMPONENTS)
def test_the_component_host_makes_each_of_them_from_plain_values(
    component: type[pulumi.ComponentResource], preview: bool
) -> None:
    recording = constructed(component.__name__, INPUTS[component.__name__], preview=preview)
    (made,) = recording.of_type(f":{component.__name__}")
    assert made.type == f"{PACKAGE}:index:{component.__name__}", "as the package calls it"
    (outputs,) = recording.outputs_of(component.__name__)
    assert outputs
    texts = str([each.inputs.get("spec") for each in recording.registrations])
    assert ".0" not in re.sub(r"v0\.33\.0|\d+\.\d+\.\d+\.\d+", "", texts), "numbers that stand in texts are whole"


def test_values_of_another_language_mean_what_they_mean_in_python() -> None:
    recording = constructed("InferenceServer", INPUTS["InferenceServer"])
    spec = recording.only(":LeaderWorkerSet").inputs["spec"]["leaderWorkerTemplate"]
    assert spec["size"] == 2
    (engine,) = spec["leaderTemplate"]["spec"]["containers"]
    assert engine["resources"]["limits"] == {"nvidia.com/gpu": "8", "rdma/ib": "8"}
    assert "--full" in spec["leaderTemplate"]["spec"]["initContainers"][-1]["command"]
    assert recording.only(":Service").inputs["metadata"]["name"] == "h200-sample"


def test_what_a_component_refuses_is_shown_without_a_stack_of_calls() -> None:
    host = Host(list(COMPONENTS), PACKAGE)
    inputs = {**INPUTS["WeightVolume"], "sizeBytes": None}

    def construct() -> None:
        host.construct("sample", f"{PACKAGE}:index:WeightVolume", inputs)

    with pytest.raises(pulumi.InputPropertiesError) as refusal:
        record(construct, stack="h200")
    assert str(refusal.value).endswith("size_bytes: is missing: kind local needs it")
    assert refusal.value.errors == [], "the SDK does not send a message without them"


def test_the_committed_page_of_components_is_what_the_schema_says() -> None:
    assert REFERENCE_FILE.read_text() == reference(), "run `make schema`"
