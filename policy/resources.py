"""The resources of a stack as the rules see them, and the pods in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

_COMPONENT = "app.kubernetes.io/component"
_NAME = "app.kubernetes.io/name"
_TEMPLATES = {
    "Deployment": (("spec", "template"),),
    "StatefulSet": (("spec", "template"),),
    "DaemonSet": (("spec", "template"),),
    "Job": (("spec", "template"),),
    "CronJob": (("spec", "jobTemplate", "spec", "template"),),
    "Pod": ((),),
    "LeaderWorkerSet": (
        ("spec", "leaderWorkerTemplate", "leaderTemplate"),
        ("spec", "leaderWorkerTemplate", "workerTemplate"),
    ),
}
"""Where the pod templates of each kind of workload are."""


@dataclass(frozen=True)
class Resource:
    """One resource of a stack."""

    type: str
    """As Pulumi writes it, such as `kubernetes:apps/v1:Deployment`."""
    name: str
    properties: Mapping[str, Any]
    """Inputs; of a component, its outputs."""
    urn: str = ""
    parent: Resource | None = None

    @property
    def kind(self) -> str:
        """The last part of the type, such as `Deployment`."""
        return self.type.rsplit(":", 1)[-1]

    @property
    def is_of_kubernetes(self) -> bool:
        """Whether it is an object of Kubernetes."""
        return self.type.startswith("kubernetes:")

    @property
    def namespace(self) -> str:
        """Namespace of the object. Empty: the provider's own."""
        return str(at(self.properties, "metadata", "namespace") or "")


@dataclass(frozen=True)
class Container:
    """One container of a pod."""

    pod: Pod
    name: str
    fields: Mapping[str, Any]

    @property
    def words(self) -> list[str]:
        """Command and arguments."""
        return [str(word) for part in ("command", "args") for word in self.fields.get(part) or ()]

    @property
    def variables(self) -> Sequence[Mapping[str, Any]]:
        """Environment variables, as Kubernetes has them."""
        return self.fields.get("env") or ()

    def option(self, name: str) -> str | None:
        """The value of a command-line option, as `--name value` or `--name=value`. None: not given."""
        words = self.words
        for word, following in zip_longest(words, words[1:], fillvalue=""):
            if word == name:
                return following
            if word.startswith(f"{name}="):
                return word.partition("=")[2]
        return None


@dataclass(frozen=True)
class Pod:
    """A pod template, with the workload that it is part of."""

    owner: Resource
    labels: Mapping[str, str]
    spec: Mapping[str, Any]

    @property
    def is_server(self) -> bool:
        """Whether it serves a model."""
        return self._is("server")

    @property
    def is_stager(self) -> bool:
        """Whether it downloads weights."""
        return self._is("stage")

    @property
    def started_first(self) -> list[Container]:
        """Init containers."""
        return self._containers("initContainers")

    @property
    def containers(self) -> list[Container]:
        """Containers, without init containers."""
        return self._containers("containers")

    @property
    def all_containers(self) -> list[Container]:
        """All of them."""
        return [*self.started_first, *self.containers]

    def _is(self, component: str) -> bool:
        return self.labels.get(_NAME) == "heavylift" and self.labels.get(_COMPONENT) == component

    def _containers(self, key: str) -> list[Container]:
        return [Container(self, str(fields.get("name")), fields) for fields in self.spec.get(key) or ()]


def pods(resources: Sequence[Resource]) -> Iterator[Pod]:
    """Every pod template of the stack."""
    for resource in resources:
        for path in _TEMPLATES.get(resource.kind, ()) if resource.is_of_kubernetes else ():
            template = at(resource.properties, *path)
            if template:
                yield Pod(resource, at(template, "metadata", "labels") or {}, template.get("spec") or {})


def containers(resources: Sequence[Resource]) -> Iterator[Container]:
    """Every container of the stack's pods, with init containers."""
    for pod in pods(resources):
        yield from pod.all_containers


def models(resources: Sequence[Resource]) -> Iterator[Resource]:
    """The components `ServedModel`, which have a `plan` and a `release`."""
    return (resource for resource in resources if resource.type == "heavylift:index:ServedModel")


def model_of(resource: Resource) -> Resource | None:
    """The `ServedModel` that a resource belongs to. None: a component that is used alone."""
    above = resource.parent
    while above is not None and above.type != "heavylift:index:ServedModel":
        above = above.parent
    return above


def at(values: Any, *path: str) -> Any:
    """The value at a path of nested objects. None: a part of the path is missing."""
    for key in path:
        if not isinstance(values, Mapping):
            return None
        values = values.get(key)
    return values
