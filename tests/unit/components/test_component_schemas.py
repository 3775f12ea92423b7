"""Every component can be used from other languages: its schema can be inferred, and each input is described."""

import inspect
from typing import Any, get_type_hints

import pulumi
import pytest
from pulumi.provider.experimental.analyzer import Analyzer, PropertyDefinition

from components.bare_metal_gpu_nodes import BareMetalGpuNodes
from components.weight_prune import WeightPrune
from components.weight_stage import WeightStage
from components.weight_volume import WeightVolume

COMPONENTS: list[type[pulumi.ComponentResource]] = [BareMetalGpuNodes, WeightVolume, WeightStage, WeightPrune]


def undescribed(owner: str, properties: dict[str, PropertyDefinition]) -> list[str]:
    return [f"{owner}.{name}" for name, definition in properties.items() if not definition.description]


def test_every_input_and_output_is_described() -> None:
    found = Analyzer("heavylift").analyze(COMPONENTS)
    assert set(found["component_definitions"]) == {component.__name__ for component in COMPONENTS}
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
