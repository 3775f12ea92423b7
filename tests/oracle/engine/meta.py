"""Tensors without values: what would be on the GPU is on the `meta` device, and its bytes are counted."""

from __future__ import annotations

import collections
import gc
from math import ceil
from typing import Any

import torch

ALLOCATION_BYTES = 512
"""PyTorch's CUDA allocator gives out multiples of this."""

_VALUES = {"item", "tolist", "__bool__", "cpu", "numpy", "__int__", "__float__", "equal", "allclose"}
"""What asks a tensor for its values."""

_NEVER = {"isnan", "isinf"}
"""What is never true of weights that were loaded."""


class OnMeta(torch.overrides.TorchFunctionMode):
    """What asks for a CUDA device gets `meta`; what asks a meta tensor for its values gets ones, and is counted."""

    def __init__(self) -> None:
        super().__init__()
        self.assumed: collections.Counter[str] = collections.Counter()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = dict(kwargs or {}), getattr(func, "__name__", "")
        kwargs.pop("pin_memory", None)
        if _is_cuda(kwargs.get("device"), number=True):
            kwargs["device"] = "meta"
        if name == "to":
            args = tuple("meta" if _is_cuda(each) else each for each in args)
            name = "cpu" if any(str(each) == "cpu" for each in (*args[1:], kwargs.get("device"))) else name
        if name == "cuda":
            return args[0].to("meta")
        if name in _VALUES and isinstance(args[0], torch.Tensor) and args[0].is_meta:
            return self._ones(name, args[0])
        if name in _NEVER and args[0].is_meta:
            return torch.zeros((), dtype=torch.bool, device="cpu")
        if name == "__setitem__" and _has_no_values(args[2]) and not args[0].is_meta:
            return None  # a copy into host memory, where only the size matters
        if name == "unique" and args[0].is_meta:
            return args[0].new_empty(1)
        return func(*args, **kwargs)

    def _ones(self, name: str, tensor: Any) -> Any:
        self.assumed[name] += 1
        if name in ("__bool__", "equal", "allclose"):
            return True
        ones = torch.ones(tensor.shape, dtype=tensor.dtype, device="cpu")
        return ones if name == "cpu" else getattr(ones, name)()


def _has_no_values(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_meta


def _is_cuda(device: Any, *, number: bool = False) -> bool:
    if number and type(device) is int:
        return True
    return isinstance(device, str | torch.device) and str(device).startswith("cuda")


def live_bytes() -> int:
    """Bytes of the live meta storages, as the allocator would give them out."""
    gc.collect()
    tensors = (found for found in gc.get_objects() if issubclass(type(found), torch.Tensor) and found.is_meta)
    storages = {storage._cdata: storage.nbytes() for storage in (tensor.untyped_storage() for tensor in tensors)}
    return sum(ceil(size / ALLOCATION_BYTES) * ALLOCATION_BYTES for size in storages.values())
