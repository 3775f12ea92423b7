"""What a stack adds to its pods: keys for common fields, and a patch for the others.

A patch adds fields. It cannot change what the program sets, or what another key of the stack file is for.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from components.arguments import read_section
from components.pods.labels import labels
from components.pods.manifest import manifest
from config.stack import arguments
from config.stack.sections.pod import PodSettings

SERVER, STAGE = "heavylift:pod.server", "heavylift:pod.stage"
"""Keys of the stack file."""

_LISTS = {"containers": "name", "initContainers": "name", "volumes": "name", "env": "name", "volumeMounts": "mountPath"}
"""The field that identifies the entries of a list (kubernetes.io, strategic merge patch)."""

_OTHER_KEYS = {
    "affinity": "heavylift:nodes",
    "automountServiceAccountToken": "heavylift:stage.service_account",
    "hostIPC": None,
    "hostNetwork": "heavylift:nodes.fabric.network",
    "hostPID": None,
    "imagePullSecrets": "heavylift:pod",
    "nodeName": "heavylift:nodes.names",
    "nodeSelector": "heavylift:nodes.names",
    "priorityClassName": "heavylift:pod",
    "restartPolicy": None,
    "runtimeClassName": "heavylift:pod",
    "securityContext": "heavylift:security",
    "serviceAccountName": "heavylift:stage.service_account",
    "tolerations": "heavylift:nodes.taints",
}
"""Fields of a pod's spec that a patch cannot set, and the key that sets them. None: no key does."""

_OWN_ANNOTATIONS = ("heavylift.", "leaderworkerset.sigs.k8s.io/", "k8s.v1.cni.cncf.io/networks")
_OWN_LABELS = (*labels("", ""), "leaderworkerset.sigs.k8s.io/", "batch.kubernetes.io/")


@dataclass(frozen=True)
class Additions:
    """The additions of one kind of pod."""

    settings: PodSettings
    key: str
    """Key in the stack file, for messages."""
    runs_to_completion: bool = False
    """Whether the pods are those of a Job."""

    @classmethod
    def of_jobs(cls, settings: arguments.PodSettings | None) -> "Additions":
        """Reads the argument of a component that makes Jobs. Raises pulumi.RunError with every fault."""
        return cls(read_section(PodSettings, "pod", settings or {}), STAGE, runs_to_completion=True)

    @classmethod
    def of_server(cls, settings: arguments.PodSettings | None) -> "Additions":
        """Reads the argument of a component that makes servers. Raises pulumi.RunError with every fault."""
        return cls(read_section(PodSettings, "pod", settings or {}), SERVER)

    def template(self, metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, Any]:
        """Returns a pod template with the additions, as the API spells it. Raises pulumi.RunError with every fault."""
        settings, merged = self.settings, manifest(dict(spec))
        merge = _Merge(f"{self.key}.patch", merged, self.runs_to_completion)
        merge.objects(merged, settings.patch, merge.root)
        if faults := [*self._faults(metadata), *merge.faults]:
            raise pulumi.RunError("\n  ".join(["nothing was created:", *faults]))
        if settings.cpu_limit:
            _limit_cpus(merged, str(settings.cpu_limit))
        fields = {
            "imagePullSecrets": [{"name": name} for name in settings.pull_secrets],
            "runtimeClassName": settings.runtime_class,
            "priorityClassName": settings.priority_class,
        }
        annotations = {**metadata.get("annotations", {}), **settings.annotations}
        return {
            "metadata": {
                "labels": {**metadata["labels"], **settings.labels},
                **({"annotations": annotations} if annotations else {}),
            },
            "spec": merged | {name: value for name, value in fields.items() if value},
        }

    def _faults(self, metadata: Mapping[str, Any]) -> Iterator[str]:
        for kind, own in (("labels", _OWN_LABELS), ("annotations", _OWN_ANNOTATIONS)):
            for name in getattr(self.settings, kind):
                if name.startswith(own) or name in metadata.get(kind, {}):
                    yield f"{self.key}.{kind}: '{name}' is set by the program: expected another name"


NONE_TO_SERVERS = Additions(PodSettings(), SERVER)
NONE_TO_JOBS = Additions(PodSettings(), STAGE, runs_to_completion=True)


def _limit_cpus(spec: Mapping[str, Any], limit: str) -> None:
    for container in [*spec.get("initContainers", []), *spec["containers"]]:
        resources = container.get("resources", {})
        container["resources"] = {**resources, "limits": {"cpu": limit, **resources.get("limits", {})}}


class _Merge:
    """Merges a patch into a pod's spec, and collects a fault for each field that it cannot set."""

    def __init__(self, root: str, spec: Mapping[str, Any], runs_to_completion: bool) -> None:
        self.root, self.faults = root, list[str]()
        self._volumes = {volume["name"] for volume in spec["volumes"]}
        security = spec["containers"][0].get("securityContext")
        self._security = {} if security is None else {"securityContext": security}
        self._runs_to_completion = runs_to_completion

    def objects(self, owned: dict[str, Any], patch: Mapping[str, Any], path: str) -> None:
        """Merges `patch` into the object `owned`, which has this path in the stack file."""
        for name, value in patch.items():
            here = f"{path}.{name}"
            if name == "securityContext" or (path == self.root and name in _OTHER_KEYS):
                self._refuse(here, _OTHER_KEYS[name])
            elif name in _LISTS and isinstance(value, Sequence) and isinstance(owned.get(name, []), list):
                self._lists(name, owned.setdefault(name, []), value, here)
            elif name not in owned:
                owned[name] = value
            elif isinstance(owned[name], dict) and isinstance(value, Mapping) and not name.endswith("Probe"):
                owned[name] = dict(owned[name])  # can be shared by several pods
                self.objects(owned[name], value, here)
            elif owned[name] != value:
                self.faults.append(f"{here}: {value!r} is refused: the program sets this field")

    def _lists(self, name: str, owned: list[Any], patch: Sequence[Any], path: str) -> None:
        known = {entry[_LISTS[name]]: entry for entry in owned}
        for entry in patch:
            which = entry.get(_LISTS[name]) if isinstance(entry, Mapping) else None
            here = f"{path}[{which}]"
            if which is None:
                self.faults.append(f"{path}: {entry!r} is refused: expected an object with {_LISTS[name]}")
            elif which in known:
                self.objects(known[which], entry, here)  # its name is equal
            elif name == "containers" and self._runs_to_completion:
                self._refuse(here, "initContainers with restartPolicy: Always; a Job waits for all its containers")
            elif name == "volumeMounts" and entry.get("name") in self._volumes:
                self._refuse(here, "a volume that the patch adds")
            else:
                added = dict(self._security) if name.lower().endswith("containers") else {}
                owned.append(added)
                self.objects(added, entry, here)

    def _refuse(self, path: str, other: str | None) -> None:
        expected = f"expected {other}" if other else "the program needs it as it is"
        self.faults.append(f"{path}: is refused: {expected}")
