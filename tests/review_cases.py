"""Changes of a deployed stack, for the lab test that previews them and the golden comments of their events."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stager.listing import Listing, RemoteFile
from stager.lockfile import render_lock

EVENTS = Path(__file__).parent / "data" / "review"
OLD_COMMIT = "4d01dfe0332d63057c186e0b262165819efb6611"
"""The commit of the shipped stack `h200`."""
NEW_COMMIT = "0123456789abcdef0123456789abcdef01234567"
"""Of no real repository."""


def locked(commit: str, tokenizer: str, *more: str) -> str:
    """A lock with 64 shards of 9.3 GB, which every commit shares, and small files. The hashes are made up."""
    shards = [(f"model-{n:05}-of-00064.safetensors", 9_300_000_000, "shard") for n in range(1, 65)]
    small = [("tokenizer_config.json", 3_900, tokenizer), *((name, 1_200, name) for name in more)]
    files = (
        RemoteFile(path, size, hashlib.sha256(f"{path}{of}".encode()).hexdigest())
        for path, size, of in [*shards, *small]
    )
    return render_lock(Listing("moonshotai/Kimi-K2.5", commit, commit, tuple(files)))


LOCKS: Mapping[str, str] = {
    "deployed.lock.json": locked(OLD_COMMIT, "old", "gone.json"),
    "proposed.lock.json": locked(NEW_COMMIT, "new", "chat_template.jinja"),
}
"""Lock files beside the stack `h200`."""
DEPLOYED: Mapping[str, Mapping[str, Any]] = {
    "nodes": {"usd_per_gpu_hour": 3.2},
    "stage": {"lock": "deployed.lock.json"},
    "engine": {"max_model_len": 131072},
}
"""What is set in the stack `h200` before it is taken up."""


@dataclass(frozen=True)
class Preview:
    """One change of the deployed stack."""

    sections: Mapping[str, Mapping[str, Any]]
    fails: bool = False
    """Whether the engine refuses the preview."""
    production: bool = False
    """Whether the policies have the levels of production."""


TWO_NODES: Mapping[str, Mapping[str, Any]] = {
    "nodes": {
        "names": ["h100-0", "h100-1"],
        "gpu": "h100",
        "usd_per_gpu_hour": 2.4,
        "fabric": {"kind": "infiniband", "resource": "rdma/ib", "count": 8, "gpu_direct": "PXB"},
    },
    "weights": {"kind": "host-path"},
    "engine": {"pipeline_parallel": 2, "max_model_len": 131072},
}

PREVIEWS: Mapping[str, Preview] = {
    "preview-context-doubled": Preview({"engine": {"max_model_len": 262144}}),
    "preview-new-revision": Preview({"model": {"revision": NEW_COMMIT}, "stage": {"lock": "proposed.lock.json"}}),
    "preview-two-h100-nodes": Preview(TWO_NODES),
    "preview-engine-upgrade": Preview({"engine": {"version": "0.30.0", "image": "vllm/vllm-openai:v0.30.0"}}),
    "preview-policy-violation": Preview({"engine": {"max_model_len": 262144}}, fails=True, production=True),
    "preview-rejected": Preview({"nodes": {"gpus_per_node": 4}, "engine": {"tensor_parallel": 4}}, fails=True),
}


BLOCK = "preview-capacity-block"
"""The stack `aws-h200` before its first `pulumi up`, in a Capacity Block that ends soon."""


def reduced(events: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The parts of the events that a report reads; no inputs, outputs or times."""
    kept: list[dict[str, Any]] = []
    for event in events:
        if step := event.get("resourcePreEvent"):
            resource = step["metadata"]
            if resource["op"] != "same":
                keys = ("op", "urn", "type", "detailedDiff", "diffs")
                kept.append({"resourcePreEvent": {"metadata": {key: resource.get(key) for key in keys}}})
        elif policy := event.get("policyEvent"):
            said = {key: policy[key] for key in ("policyName", "message", "enforcementLevel")}
            kept.append({"policyEvent": said})
        elif (text := event.get("diagnosticEvent")) and _is_read(text):
            kept.append({"diagnosticEvent": {"severity": text["severity"], "message": text["message"]}})
    return kept


def _is_read(text: Mapping[str, Any]) -> bool:
    return text["severity"] in ("error", "warning") or text["message"].startswith("Capacity Block: ")
