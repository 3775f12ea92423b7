"""What the world is like: models, GPUs, instance types and engines, each fact with its source.

Typed reading of the files in `config/data`. Whoever adds a GPU, an instance type or a model edits one data file. A file
is read when it is first asked for, so that a plan pays for nothing that it does not use. A name that is not known is
refused with the names that are close to it.
"""

from config.catalogue.engine import (
    CudaCompatibility,
    EngineFacts,
    EngineFlags,
    EngineImage,
    ReleaseRange,
    cuda_of_drivers,
    engine_facts,
    engine_flags,
    release_ranges,
)
from config.catalogue.gpu import (
    CollectiveLibrary,
    Gpu,
    GpuVendor,
    VendorName,
    described_gpu,
    find_gpu,
    gpus,
)
from config.catalogue.instance import (
    CapacityKind,
    Instance,
    InterfaceType,
    NetworkCard,
    NetworkInterface,
    Price,
    cluster_prices,
    find_instance,
    instances,
)
from config.catalogue.measured import (
    GroundTruth,
    Log,
    NonTorch,
    Overheads,
    Profile,
    PublishedCache,
    PublishedSize,
    Run,
    ground_truth,
    overheads,
)
from config.catalogue.model import Checkpoint, Gguf, ModelFamily, ServingRecipe, find_checkpoint, models
from config.catalogue.reading import DATA, Fields, NotInCatalogueError
from config.catalogue.vllm_release import BackendFacts, CacheRules, VllmRelease, vllm_releases

__all__ = [
    "DATA",
    "BackendFacts",
    "CacheRules",
    "CapacityKind",
    "Checkpoint",
    "CollectiveLibrary",
    "CudaCompatibility",
    "EngineFacts",
    "EngineFlags",
    "EngineImage",
    "Fields",
    "Gguf",
    "Gpu",
    "GpuVendor",
    "GroundTruth",
    "Instance",
    "InterfaceType",
    "Log",
    "ModelFamily",
    "NetworkCard",
    "NetworkInterface",
    "NonTorch",
    "NotInCatalogueError",
    "Overheads",
    "Price",
    "Profile",
    "PublishedCache",
    "PublishedSize",
    "ReleaseRange",
    "Run",
    "ServingRecipe",
    "VendorName",
    "VllmRelease",
    "cluster_prices",
    "cuda_of_drivers",
    "described_gpu",
    "engine_facts",
    "engine_flags",
    "find_checkpoint",
    "find_gpu",
    "find_instance",
    "gpus",
    "ground_truth",
    "instances",
    "models",
    "overheads",
    "release_ranges",
    "vllm_releases",
]
