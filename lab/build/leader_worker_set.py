"""Writes components/manifests/leader_worker_set.json from the pinned source of the controller.

`python -m lab.build.leader_worker_set`, after a change of the pin. The lab builds the same source.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from lab.build.cache import ensure
from lab.build.pieces import LEADER_WORKER_SET, LEADER_WORKER_SET_PIECE

MANIFEST = Path(__file__).parents[2] / "components" / "manifests" / "leader_worker_set.json"

_IMAGE = "registry.k8s.io/lws/lws"
"""The released image (lws.sigs.k8s.io/docs/installation); the source names that of its own builds."""


def manifest() -> dict[str, Any]:
    """The controller's objects, as its release has them, without the schema's descriptions, which are four fifths."""
    version = LEADER_WORKER_SET.module_directory("sigs.k8s.io/lws").name.partition("@")[2]
    text = (ensure(LEADER_WORKER_SET_PIECE) / "manifests.yaml").read_text()
    documents = [_without_descriptions(document) for document in yaml.safe_load_all(text)]
    (deployment,) = [document for document in documents if document["kind"] == "Deployment"]
    deployment["spec"]["template"]["spec"]["containers"][0]["image"] = f"{_IMAGE}:{version}"
    about = (
        f"LeaderWorkerSet {version} (sigs.k8s.io/lws, Apache-2.0): config/default, as `kubectl kustomize` renders it."
    )
    return {"about": about, "objects": documents}


def manifest_text() -> str:
    """The content of the file: one object on each line."""
    made = manifest()
    lines = ",\n".join(json.dumps(document, separators=(",", ":")) for document in made["objects"])
    return f'{{"about": {json.dumps(made["about"])},\n"objects": [\n{lines}\n]}}\n'


def _without_descriptions(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: inner for key, inner in value.items() if not (key == "description" and isinstance(inner, str))}
        return {key: _without_descriptions(inner) for key, inner in kept.items()}
    return [_without_descriptions(inner) for inner in value] if isinstance(value, list) else value


if __name__ == "__main__":
    MANIFEST.write_text(manifest_text())
    print(f"wrote {MANIFEST}")
