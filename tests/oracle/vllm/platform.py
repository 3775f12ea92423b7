"""What vLLM's platform answers about the GPU that is not there."""

from __future__ import annotations

from typing import Any

from tests.oracle.engine.gpu import Gpu


def install(gpu: Gpu) -> None:
    """Makes vLLM's platform that of a GPU of a kind. To be called before anything else of vLLM is imported."""
    import vllm.platforms
    from vllm.platforms.cuda import CudaPlatformBase
    from vllm.platforms.interface import DeviceCapability

    answers = {
        "get_device_capability": DeviceCapability(*gpu.capability),
        "get_device_name": gpu.name,
        "get_device_total_memory": gpu.memory,
        "is_fully_connected": True,
        "device_count": 64,
        "current_device": 0,
        "is_integrated_gpu": False,
        "num_compute_units": gpu.units,
        "get_all_device_numa_nodes": None,
        "get_device_numa_node": None,
        "set_device": None,
        "is_pin_memory_available": False,
        "is_arch_support_pdl": gpu.level >= 90,
        "get_device_uuid": "GPU-0",
    }

    def answering(value: Any) -> Any:
        return classmethod(lambda cls, *args, **kwargs: value)

    methods = {name: answering(value) for name, value in answers.items()}
    vllm.platforms._current_platform = type("SaidGpu", (CudaPlatformBase,), methods)()
