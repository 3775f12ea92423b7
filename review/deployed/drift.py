"""Whether what runs is what the stack's state says: the engine's refresh, and who else wrote fields of the objects."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from components.cluster.api import ClusterApi, ClusterUnreachable
from config.errors import StackError
from config.stack.file import read_sections, stack_file
from config.stack.kubeconfig import read_kubeconfig
from config.stack.overrides import overridden
from config.stack.sections import StackConfig
from review.checkout import ReviewError
from review.deployed.events import Step, run_engine
from review.deployed.writers import ForeignWrite, foreign_writes

_CLUSTER_WIDE = ("Namespace", "PersistentVolume", "Node")


@dataclass(frozen=True)
class Drift:
    """How a stack differs from its state. Empty: it does not."""

    stack: str
    steps: Sequence[Step] = ()
    """What a refresh would change in the state."""
    writes: Sequence[ForeignWrite] = ()
    """Fields that others wrote, which a refresh does not see."""

    @property
    def is_clean(self) -> bool:
        """Whether nothing differs."""
        return not (self.steps or self.writes)


def drift_of(stack: str, environment: Mapping[str, str]) -> Drift:
    """How a stack of the current directory has drifted.

    Raises ReviewError if that cannot be found out, such as when the cluster cannot be reached: that is no drift.
    """
    run = run_engine("refresh", "--preview-only", "--stack", stack)
    if run.failed:
        raise ReviewError(f"pulumi refresh fails: {' '.join(' '.join(run.errors).split()) or 'it gives no reason'}")
    try:
        api = _api(stack, environment)
        objects = [found for path in _paths(stack) if (found := api.find(path))]
    except StackError as error:
        raise ReviewError("\n  ".join(["the stack cannot be read:", *error.faults])) from None
    except ClusterUnreachable as error:
        raise ReviewError(f"the cluster cannot be reached: {error}") from None
    return Drift(stack, run.steps, foreign_writes(objects))


def _api(stack: str, environment: Mapping[str, str]) -> ClusterApi:
    sections, _ = overridden(read_sections(stack_file(stack)), environment)
    return ClusterApi(read_kubeconfig(StackConfig.parse(sections).cluster))


def _paths(stack: str) -> Iterator[str]:
    """The API paths of the stack's objects. Patches of nodes are left out: others own most of a node."""
    command = ["pulumi", "stack", "export", "--stack", stack, "--non-interactive", "--color=never"]
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise ReviewError(f"pulumi stack export fails: {ended.stderr.strip()}")
    for resource in json.loads(ended.stdout)["deployment"].get("resources") or ():
        kind = str(resource["type"]).rpartition(":")[2]
        if resource["type"].startswith("kubernetes:") and not kind.endswith("Patch"):
            yield _path(resource["outputs"])


def _path(thing: Mapping[str, Any]) -> str:
    version, kind, metadata = thing["apiVersion"], thing["kind"], thing["metadata"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    place = "" if kind in _CLUSTER_WIDE else f"/namespaces/{metadata['namespace']}"
    return f"{root}{place}/{_plural(kind.lower())}/{metadata['name']}"


def _plural(kind: str) -> str:
    """The resource of a kind, as Kubernetes names its own: `ingresses`, `networkpolicies`, `services`."""
    if kind.endswith("s"):
        return f"{kind}es"
    return f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s"
