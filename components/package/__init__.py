"""The components of the Pulumi package."""

from collections.abc import Sequence

import pulumi

from components.bare_metal_gpu_nodes import BareMetalGpuNodes
from components.inference_server import InferenceServer
from components.served_model import ServedModel
from components.weight_prune import WeightPrune
from components.weight_stage import WeightStage
from components.weight_volume import WeightVolume

PACKAGE = "heavylift"
"""Name of the package: the first part of each component's type."""

COMPONENTS: Sequence[type[pulumi.ComponentResource]] = (
    ServedModel,
    BareMetalGpuNodes,
    WeightVolume,
    WeightStage,
    InferenceServer,
    WeightPrune,
)
