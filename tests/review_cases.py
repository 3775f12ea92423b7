"""Changes of a deployed stack, for the lab test that previews them and the golden comments of their events."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

EVENTS = Path(__file__).parent / "data" / "review"
DEPLOYED: Mapping[str, Mapping[str, Any]] = {
    "nodes": {"usd_per_gpu_hour": 3.2},
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
    "preview-new-revision": Preview({"model": {"revision": "0123456789abcdef0123456789abcdef01234567"}}),
    "preview-two-h100-nodes": Preview(TWO_NODES),
    "preview-engine-upgrade": Preview({"engine": {"version": "0.30.0", "image": "vllm/vllm-openai:v0.30.0"}}),
    "preview-policy-violation": Preview({"engine": {"max_model_len": 262144}}, fails=True, production=True),
    "preview-rejected": Preview({"nodes": {"gpus_per_node": 4}, "engine": {"tensor_parallel": 4}}, fails=True),
}


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
        elif (text := event.get("diagnosticEvent")) and text["severity"] in ("error", "warning"):
            kept.append({"diagnosticEvent": {"severity": text["severity"], "message": text["message"]}})
    return kept
