"""What an environment does not have: an engine's compiled extensions, and the kernel packages of its CUDA image.

Both are there for the code that asks for them, and hold nothing.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import re
import sys
from collections.abc import Collection, Mapping, Sequence
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


Answers = Mapping[str, Mapping[str, Any]]
"""What is not nothing, by package: functions that do something."""


class VoidPackages(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the packages and extensions that are absent, and makes them of `Void`."""

    def __init__(self, packages: Collection[str], extensions: re.Pattern[str], answers: Answers) -> None:
        self._packages, self._extensions, self._answers = packages, extensions, answers

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> Any:
        if name.split(".")[0] in self._packages or self._extensions.fullmatch(name):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        answers = self._answers.get(module.__name__.split(".")[0], {})

        def attribute(name: str) -> Any:
            return answers[name] if name in answers else getattr(Void(), name)

        module.__getattr__ = attribute  # type: ignore[method-assign]


def install(packages: Collection[str], extensions: re.Pattern[str], answers: Answers) -> None:
    """Makes absent packages and extension modules present. To be called before the engine is imported."""
    sys.meta_path[:0] = [VoidPackages(packages, extensions, answers)]
