"""Every component could be packaged for other languages: its schema can be inferred, and each input is explained."""

import inspect
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pulumi
import pytest
from pulumi.provider.experimental.analyzer import Analyzer

from components.bare_metal_gpu_nodes import BareMetalGpuNodes
from components.inference_server import InferenceServer
from components.weight_prune import WeightPrune
from components.weight_stage import WeightStage
from components.weight_volume import WeightVolume

COMPONENTS: list[type[pulumi.ComponentResource]] = [
    BareMetalGpuNodes,
    WeightVolume,
    WeightStage,
    InferenceServer,
    WeightPrune,
]


class PlainAnalyzer(Analyzer):
    """Pulumi's own, taught that `Annotated[str, ...]` is a `str`."""

    def analyze_property(self, arg: type, *args: Any, **options: Any) -> Any:
        return super().analyze_property(get_args(arg)[0] if get_origin(arg) is Annotated else arg, *args, **options)


def test_the_schema_of_all_components_can_be_inferred() -> None:
    definitions = PlainAnalyzer("heavylift").analyze(COMPONENTS)["component_definitions"]
    assert set(definitions) == {component.__name__ for component in COMPONENTS}


@pytest.mark.parametrize("component", COMPONENTS)
def test_every_input_and_output_is_explained(component: type[pulumi.ComponentResource]) -> None:
    definition = PlainAnalyzer("heavylift").analyze([component])["component_definitions"][component.__name__]
    unexplained = [name for name, field in {**definition.inputs, **definition.outputs}.items() if not field.description]
    assert definition.outputs
    assert unexplained == []


@pytest.mark.parametrize("component", COMPONENTS)
def test_every_component_is_made_by_name_args_and_options(component: type[Any]) -> None:
    parameters = list(inspect.signature(component.__init__).parameters)
    assert parameters == ["self", "name", "args", "opts"]
    assert get_type_hints(component.__init__)["args"].__name__ == f"{component.__name__}Args"
