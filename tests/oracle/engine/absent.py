"""What the environment does not have: vLLM's compiled extensions, and the kernel packages of its CUDA image.

Both are there for the code that asks for them, and hold nothing. A compiled operator answers from vLLM's own shape
function, as vLLM registers it for compilation; one without such a function fails when it is called, and the module that
called it is recorded as not processed.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any


class Void:
    """Anything: every name is there, and can be called, indexed, entered and used as a decorator."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name not in ("__name__", "__version__"):
            raise AttributeError(name)
        return {"__name__": "void", "__version__": "99.0"}.get(name) or Void()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return Void()

    def __getitem__(self, key: Any) -> Any:
        return Void()

    def __mro_entries__(self, bases: tuple[type, ...]) -> tuple[type, ...]:
        return ()

    def __iter__(self) -> Any:
        return iter(())

    def __index__(self) -> int:
        return 1

    def __or__(self, other: Any) -> Any:
        return Void()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *args: object) -> None:
        pass

    __ror__ = __or__


_PACKAGES = {"deep_gemm", "tilelang", "flashinfer", "cutlass", "quack", "humming"}
_EXTENSIONS = re.compile(r"vllm\.(.*\.)?_\w*C(_stable_libtorch|_extension)?")


class VoidPackages(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the packages and extensions that are absent, and makes them of `Void`."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> Any:
        if name.split(".")[0] in _PACKAGES or _EXTENSIONS.fullmatch(name):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def __init__(self, answers: Mapping[str, Mapping[str, Callable[..., Any]]]) -> None:
        """`answers`: functions by package that do something."""
        self._answers = answers

    def create_module(self, spec: Any) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        answers = self._answers.get(module.__name__.split(".")[0], {})

        def attribute(name: str) -> Any:
            return answers[name] if name in answers else getattr(Void(), name)

        module.__getattr__ = attribute  # type: ignore[method-assign]


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


def install(capability: int, units: int) -> None:
    """Makes the absent packages and operators present, for a compute capability such as 90 and so many
    multiprocessors.

    To be called before vLLM is imported.
    """
    import torch

    from tests.oracle.engine.layouts import answers

    sys.meta_path[:0] = [VoidPackages(answers(capability, units))]
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
