"""Rules about weights: which ones, and that they stay as they were verified."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from policy.resources import Container, Resource, at, containers, models, pods
from policy.rules.rule import Rule, Violation

_COMMIT = re.compile(r"[0-9a-f]{40}")
_VOLUME = "weights"


def _pinned(resources: Sequence[Resource], _: Mapping[str, Any]) -> Iterator[Violation]:
    for container in containers(resources):
        revision = container.option("--revision") if container.pod.is_stager else None
        if revision is not None and not _COMMIT.fullmatch(revision):
            yield Violation(
                f"{container.option('--repository')} is staged at '{revision}', which may be another model tomorrow. "
                "Name a full commit of 40 hex digits.",
                container.pod.owner,
            )


def _locked(resources: Sequence[Resource], _: Mapping[str, Any]) -> Iterator[Violation]:
    for model in models(resources):
        sets = {"weights": ("stage.lock", at(model.properties, "release", "lock_sha256"))}
        if at(model.properties, "release", "draft"):
            sets["draft model"] = ("stage.draft_lock", at(model.properties, "release", "draft", "lock_sha256"))
        for what, (key, sha256) in sets.items():
            if not sha256:
                yield Violation(
                    f"{model.name} has no lock of its {what}: what is staged is not compared with reviewed hashes. "
                    f"Write one with `python -m stager lock`, and name it in {key}.",
                    model,
                )


def _read_only(resources: Sequence[Resource], _: Mapping[str, Any]) -> Iterator[Violation]:
    for container in containers(resources):
        pod = container.pod
        writes = any(mount.get("name") == _VOLUME and not mount.get("readOnly") for mount in _mounts(container))
        if pod.is_server and writes:
            yield Violation(
                f"{container.name} of {pod.owner.name} can write to the weights: they would no longer be those that "
                "were verified. Mount them with readOnly: true.",
                pod.owner,
            )


def _retained(resources: Sequence[Resource], _: Mapping[str, Any]) -> Iterator[Violation]:
    for resource in resources:
        policy = at(resource.properties, "spec", "persistentVolumeReclaimPolicy")
        if resource.type == "kubernetes:core/v1:PersistentVolume" and policy != "Retain":
            yield Violation(
                f"The volume {resource.name} is deleted with its claim, and the weights with it. Set "
                "persistentVolumeReclaimPolicy: Retain.",
                resource,
            )


def _verified_fully(resources: Sequence[Resource], _: Mapping[str, Any]) -> Iterator[Violation]:
    for pod in pods(resources):
        for container in pod.started_first if pod.is_server else ():
            if any(word.endswith("verify.py") for word in container.words) and "--full" not in container.words:
                yield Violation(
                    f"{pod.owner.name} checks large files by size and times only. Set weights.verify: full.", pod.owner
                )


def _mounts(container: Container) -> Sequence[Mapping[str, Any]]:
    return container.fields.get("volumeMounts") or ()


RULES = (
    Rule("weights-pinned-by-commit", "Weights are staged at a commit.", _pinned),
    Rule("weights-locked", "A lock has the hash of each file of the weights.", _locked, is_mandatory=False),
    Rule("weights-mounted-read-only", "No server can write to its weights.", _read_only),
    Rule("weights-retained", "Volumes of weights outlive their claims.", _retained),
    Rule("full-verification", "Each start of a server reads every byte.", _verified_fully, is_mandatory=False),
)
