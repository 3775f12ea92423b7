"""Environment variables that override keys of the stack file which differ between machines."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

KEYS = {
    "HEAVYLIFT_KUBECONFIG": ("cluster", "kubeconfig"),
    "HEAVYLIFT_KUBE_CONTEXT": ("cluster", "context"),
    "HEAVYLIFT_STAGE_IMAGE": ("stage", "image"),
    "HEAVYLIFT_ENGINE_IMAGE": ("engine", "image"),
    "HF_ENDPOINT": ("stage", "environment", "HF_ENDPOINT"),
}
"""The key that each variable stands in for."""


def overridden(sections: Mapping[str, Any], environment: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """The stack's values with the variables of `environment` applied, and a line about each one that was set.

    An empty variable counts as not set, and so do those of a kubeconfig for a stack on AWS, which names its cluster.
    A section that is not an object is left alone: reading it says so.
    """
    result = deepcopy(dict(sections))
    notes = []
    for variable, path in KEYS.items():
        value = environment.get(variable)
        if path[0] == "cluster" and "aws" in sections:
            continue
        if value and _replace(result, path, value):
            notes.append(f"{variable} overrides heavylift:{'.'.join(path)}: {value}")
    return result, notes


def _replace(values: Any, path: tuple[str, ...], value: str) -> bool:
    for key in path[:-1]:
        values = values.setdefault(key, {})
        if not isinstance(values, dict):
            return False
    values[path[-1]] = value
    return True
