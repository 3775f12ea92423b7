"""The GPU that is not there: what PyTorch and Triton answer about it."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from tests.oracle.engine.absent import Void


@dataclass(frozen=True, slots=True)
class Gpu:
    """A kind of GPU."""

    name: str
    """As the driver names it."""
    capability: tuple[int, int]
    memory: int
    """Bytes, as PyTorch reports them."""
    units: int
    """Streaming multiprocessors."""

    @property
    def level(self) -> int:
        """Compute capability as one number, such as 90."""
        return self.capability[0] * 10 + self.capability[1]


GPUS = {
    "a100-80gb": Gpu("NVIDIA A100-SXM4-80GB", (8, 0), 85_095_874_560, 108),
    "l40s": Gpu("NVIDIA L40S", (8, 9), 47_674_163_200, 142),
    "h100": Gpu("NVIDIA H100 80GB HBM3", (9, 0), 85_024_112_640, 132),
    "h200": Gpu("NVIDIA H200", (9, 0), 150_754_820_096, 132),
    "b200": Gpu("NVIDIA B200", (10, 0), 191_509_299_200, 148),
}
"""By the catalogue's names. Memory only decides defaults here, such as the batched tokens."""


class Handle(Void):
    """A stream or an event: made with anything, does nothing."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass


def install(gpu: Gpu) -> None:
    """Makes a GPU of that kind present. To be called before the engine is imported."""
    _install_torch(gpu)
    _install_triton(gpu)


def _install_torch(gpu: Gpu) -> None:
    import torch

    properties = SimpleNamespace(
        name=gpu.name,
        major=gpu.capability[0],
        minor=gpu.capability[1],
        total_memory=gpu.memory,
        multi_processor_count=gpu.units,
        is_integrated=False,
        shared_memory_per_block_optin=232_448,
        warp_size=32,
        L2_cache_size=50 * 2**20,
    )
    answers = {
        "is_available": lambda: True,
        "device_count": lambda: 64,
        "current_device": lambda: 0,
        "set_device": lambda _: None,
        "get_device_capability": lambda _=None: gpu.capability,
        "get_device_name": lambda _=None: gpu.name,
        "get_device_properties": lambda _=None: properties,
        "synchronize": lambda _=None: None,
        "empty_cache": lambda: None,
        "mem_get_info": lambda _=None: (gpu.memory, gpu.memory),
        "_lazy_init": lambda: None,
        "is_current_stream_capturing": lambda: False,
        "Stream": Handle,
        "Event": Handle,
        "current_stream": Handle,
        "stream": Handle,
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, answer)
    torch.accelerator.synchronize = torch.accelerator.empty_cache = lambda *_: None
    torch.accelerator.current_device_index = lambda: 0


def _install_triton(gpu: Gpu) -> None:
    import torch
    import triton

    class Driver(Void):
        """Triton's driver of a GPU that compiles nothing."""

        def get_current_target(self) -> Any:
            return triton.backends.compiler.GPUTarget("cuda", gpu.level, 32)

        def get_active_torch_device(self) -> Any:
            return torch.device("meta")

        def get_current_device(self) -> int:
            return 0

        def get_current_stream(self, _: Any = None) -> int:
            return 0

        def is_active(self) -> bool:
            return True

    triton.runtime.driver.set_active(Driver())
