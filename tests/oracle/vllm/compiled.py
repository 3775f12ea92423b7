"""vLLM's compiled operators, which are not there.

An operator answers from vLLM's own shape function, as vLLM registers it for compilation; one without such a function
fails when it is called, and the module that called it is recorded as not processed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

PACKAGES = {"deep_gemm", "tilelang", "flashinfer", "cutlass", "quack", "humming"}
EXTENSIONS = re.compile(r"vllm\.(.*\.)?_\w*C(_stable_libtorch|_extension)?")
"""Packages and modules that the environment does not have."""

_NAMESPACE = re.compile(r"_C$|_C_|_moe_C|_vllm_fa|_flashmla|_qutlass|_deepselect|_flashkda")
_NEEDS = {
    "cutlass_scaled_mm_supports_fp8": 89,
    "cutlass_scaled_mm_supports_block_fp8": 90,
    "cutlass_group_gemm_supported": 90,
    "cutlass_scaled_mm_supports_fp4": 100,
    "mxfp4_experts_quant_supported": 100,
    "moe_permute_unpermute_supported": 0,
}
"""Operators that say whether they support a GPU, and the compute capability from which they do."""


_IN_PLACE = (
    "gptq_shuffle", "per_token_group_fp8_quant_packed", "static_scaled_fp8_quant", "dynamic_scaled_fp8_quant",
    "dynamic_per_token_scaled_fp8_quant",
)  # fmt: skip
"""Operators that write into an argument and return nothing."""


def install(capability: int) -> None:
    """Makes the operators present, for a compute capability such as 90. To be called before vLLM is imported."""
    import torch

    operators = Operators(capability, torch)
    torch._ops._OpNamespace.__getattr__ = lambda namespace, name: operators.find(namespace, name)
    torch.library.register_fake = operators.register


class Operators:
    """The compiled operators of vLLM's extensions, by PyTorch's own look-up for all others."""

    def __init__(self, capability: int, torch: Any) -> None:
        self._capability = capability
        self._found, self._registered = torch._ops._OpNamespace.__getattr__, torch.library.register_fake
        self._shapes: dict[str, Callable[..., Any]] = {"_flashkda_C::get_workspace_size": lambda *_: 0}
        self._shapes |= {f"_C::{name}": lambda *_, **__: None for name in _IN_PLACE}

    def find(self, namespace: Any, name: str) -> Any:
        """An operator of a namespace."""
        try:
            return self._found(namespace, name)
        except AttributeError:
            if _NAMESPACE.match(namespace.name) and not name.startswith("__"):
                return Operator(self, namespace.name, name)
            raise

    def register(self, op: Any, func: Any = None, /, **kwargs: Any) -> Any:
        """Takes a shape function, called or used as a decorator."""
        if not (isinstance(op, str) and _NAMESPACE.match(op.split("::")[0])):
            return self._registered(op, func, **kwargs) if func is not None else self._registered(op, **kwargs)
        if func is None:
            return lambda function: self._shapes.setdefault(op, function)
        return self._shapes.setdefault(op, func)

    def call(self, space: str, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What an operator answers. Raises RuntimeError for one without a shape function."""
        if name in _NEEDS:
            return _NEEDS[name] <= self._capability
        key = f"{space}::{name}"
        if key not in self._shapes:
            raise RuntimeError(f"operator {key} has no shape function")
        return self._shapes[key](*args, **kwargs)


class Operator:
    """One compiled operator, and its overloads."""

    def __init__(self, operators: Operators, space: str, name: str) -> None:
        self._operators, self._space, self._name = operators, space, name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._operators.call(self._space, self._name, args, kwargs)
