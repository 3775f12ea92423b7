"""The SHA-256 of all staged files, as the first stage reported it, for stacks without a lock.

Such a stack knows its files only after the first stage. The hash is kept in a ConfigMap, which the users of the volume
cannot change, and the check before serving compares later manifests with it.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
from pulumi_kubernetes.core.v1 import ConfigMap

from components.cluster.api import ClusterUnreachable
from components.rollout.stage_progress import Staging

FILES_SHA256 = "files_sha256"
_JOB_LABEL = "batch.kubernetes.io/job-name"
_MESSAGE = re.compile(rf"stager: {FILES_SHA256} ([0-9a-f]{{64}})")
"""The stager's termination message after success (`stager/__main__.py`)."""


def reported(staging: Staging, jobs: Sequence[str] | None = None) -> str:
    """Returns the hash that the pods of these Jobs reported. Empty: none did, because their pods are gone, or the
    cluster does not answer. `jobs` None: all pods that the stage's labels select.

    Raises pulumi.RunError if two volumes hold different files.
    """
    path = f"/api/v1/namespaces/{staging.namespace}/pods"
    try:
        pods = staging.api.read(path, labelSelector=staging.selector)["items"]
    except ClusterUnreachable:
        return ""
    of_jobs = [pod for pod in pods if jobs is None or pod["metadata"].get("labels", {}).get(_JOB_LABEL) in jobs]
    found = {pod["metadata"]["name"]: sha256 for pod in of_jobs if (sha256 := _reported_by(pod))}
    if len(set(found.values())) > 1:
        lines = [f"pod {name}: {FILES_SHA256} {sha256}" for name, sha256 in sorted(found.items())]
        raise pulumi.RunError(
            "\n  ".join(["the volumes hold different files of one revision:", *lines, "To do: commit a weights lock."])
        )
    return next(iter(found.values()), "")


def _reported_by(pod: Mapping[str, Any]) -> str | None:
    status = pod.get("status", {})
    for container in [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]:
        ended = container["state"].get("terminated", {})
        match = _MESSAGE.fullmatch(ended.get("message", "").strip())
        if match and ended.get("exitCode") == 0:
            return match[1]
    return None


def kept(
    name: str, metadata: Mapping[str, Any], now: pulumi.Output[str], parent: pulumi.Resource
) -> pulumi.Output[str]:
    """Returns the hash of the first stage, from a ConfigMap that keeps its first content. Empty: none was reported.

    Fails with pulumi.RunError if a later stage reports another hash (`now`).
    """
    first = ConfigMap(
        name,
        metadata=metadata,
        data={FILES_SHA256: now},
        opts=pulumi.ResourceOptions(parent=parent, ignore_changes=["data"]),
    )
    return pulumi.Output.all(first.metadata["name"], first.data[FILES_SHA256], now).apply(lambda all_: _same(*all_))


def _same(name: str, first: str, now: str) -> str:
    if first and now and first != now:
        raise pulumi.RunError(
            f"the weights on the volume are not those that this stack staged first: {FILES_SHA256} is {now}, expected "
            f"{first}. To do: if the branch moved on purpose, delete ConfigMap {name} and run `pulumi up --refresh`; "
            "if not, delete the directory on the volume and stage again"
        )
    return first
