"""The pairs that are judged: a model's configuration, a kind of GPU, and the engine's arguments."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[1] / "data" / "oracle"
GIB = 2**30

_SHORT = {
    "tensor_parallel_size": "tp",
    "tp_size": "tp",
    "pp_size": "pp",
    "ep_size": "ep",
    "mm_enable_dp_encoder": "dp_encoder",
    "pipeline_parallel_size": "pp",
    "data_parallel_size": "dp",
    "prefill_context_parallel_size": "pcp",
    "decode_context_parallel_size": "dcp",
    "enable_expert_parallel": "ep",
    "kv_cache_dtype": "kv",
    "max_model_len": "context",
    "speculative_config": "draft",
    "enable_lora": "lora",
    "max_loras": "adapters",
    "max_lora_rank": "rank",
}
"""Arguments as a pair's key names them."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One model in one layout on one kind of GPU."""

    model: str
    """Repository, a key of `configs.json`."""
    gpu: str
    """As the catalogue names it."""
    arguments: dict[str, Any] = field(default_factory=dict)
    """Engine arguments, as vLLM's `EngineArgs` or SGLang's `ServerArgs` names them."""
    kv_gib: float = 32
    """KV cache per GPU whose tokens are asked for."""

    @property
    def key(self) -> str:
        """Its name, by which results are sorted."""
        said = (f"{_SHORT.get(name, name)}={_word(value)}" for name, value in sorted(self.arguments.items()))
        return " ".join((self.model, self.gpu, *said))

    @property
    def draft(self) -> str | None:
        """Repository of the draft model, a key of `configs.json`. None: there is none."""
        model: str | None = self.arguments.get("speculative_config", {}).get("model")
        return model

    @property
    def stages(self) -> list[int]:
        """The first rank of each pipeline stage."""
        tensor = self.arguments.get("tensor_parallel_size") or self.arguments.get("tp_size", 1)
        stages = self.arguments.get("pipeline_parallel_size") or self.arguments.get("pp_size", 1)
        ranks = tensor * self.arguments.get("prefill_context_parallel_size", 1)
        return [stage * ranks for stage in range(stages)]


def _word(value: Any) -> str:
    if isinstance(value, dict):
        return f"{value.get('model', value['method'])}"
    return str(value).lower() if isinstance(value, bool) else str(value)


def read_pairs(path: Path) -> list[Pair]:
    """The pairs of a file, sorted by key."""
    entries = json.loads(path.read_text(encoding="utf-8"))["pairs"]
    return sorted((Pair(**entry) for entry in entries), key=lambda pair: pair.key)


def read_configs() -> dict[str, dict[str, Any]]:
    """`config.json` and `hf_quant_config.json` by repository, with their source."""
    entries = json.loads((DATA / "configs.json").read_text(encoding="utf-8"))["models"]
    return {entry["repository"]: entry for entry in entries}


def write_checkpoint(entry: dict[str, Any], directory: Path) -> Path:
    """Writes a model's configuration as a checkpoint's directory has it, without weights."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(entry["config"]), encoding="utf-8")
    if "hf_quant_config" in entry:
        (directory / "hf_quant_config.json").write_text(json.dumps(entry["hf_quant_config"]), encoding="utf-8")
    return directory


def write_lines(path: Path, head: dict[str, Any], name: str, entries: list[dict[str, Any]]) -> None:
    """Writes JSON with one entry of a list a line, so that a change shows as a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(entry, sort_keys=True, ensure_ascii=False) for entry in entries]
    first = json.dumps(head, ensure_ascii=False)[:-1]
    path.write_text(f'{first}, "{name}": [\n' + ",\n".join(lines) + "\n]}\n", encoding="utf-8")
