"""Adds a model to the catalogue from the model hub.

Reads the file list, `config.json` and the headers of the weight files with range requests, and writes one file to
`config/data/models`. Refuses to overwrite an entry, an unknown revision, and a GGUF set with missing shards.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import httpx2
from huggingface_hub import HfApi, HfFileSystem
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, NotASafetensorsRepoError

from config.catalogue import DATA, models
from config.checkpoint.config_fields import config_faults
from config.checkpoint.directory import INDEX_FILE, MODELOPT_FILE, quantization_config
from config.checkpoint.gguf_header import GgufError, read_gguf, shard_of
from config.checkpoint.safetensors import Header, header_groups
from stager.listing import matches

_CONNECTIONS = 8
_WEIGHT_SUFFIXES = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack")
_GGUF_BLOCK_BYTES = 4 * 2**20
"""Bytes of one ranged request: the tokenizer's tables make a GGUF header several megabytes long."""


class AddError(Exception):
    """Why no entry was written."""


@dataclass(frozen=True, slots=True)
class _File:
    path: str
    size: int


@dataclass(frozen=True, slots=True)
class Added:
    """An entry that was written."""

    path: Path
    advice: str = ""
    """What to stage, where the repository holds the weights twice; empty: all of it."""


def add(
    repository: str, revision: str, *, include: Sequence[str] = (), quality: str = "", data: Path = DATA / "models"
) -> Added:
    """Writes the entry for a repository at a revision.

    `include` chooses one quantisation of a GGUF repository. Raises AddError.
    """
    for model in models():
        for checkpoint in model.checkpoints:
            if checkpoint.repository.lower() == repository.lower() and not include:
                raise AddError(f"{repository} is in the catalogue as {checkpoint.name}: expected a new repository")
    try:
        entry, advice = _entry(repository, revision, tuple(include), quality)
    except HfHubHTTPError as error:
        raise AddError(f"{repository} at {revision}: {error.server_message or error}") from error
    except httpx2.HTTPError as error:
        hub = HfApi().endpoint
        raise AddError(f"{hub} cannot be reached (HF_ENDPOINT names the hub): {error}") from error
    except (HFValidationError, NotASafetensorsRepoError, GgufError, OSError, KeyError, TypeError, ValueError) as error:
        raise AddError(f"{repository} at {revision} cannot be read: {error}") from error
    path = data / f"{entry['name']}.json"
    if path.exists():
        raise AddError(f"{path} exists: remove it first to write it anew")
    path.write_text(json.dumps(entry, indent=1) + "\n", encoding="utf-8")
    return Added(path, advice)


def _entry(repository: str, revision: str, include: tuple[str, ...], quality: str) -> tuple[dict[str, Any], str]:
    """The entry, and what to stage of the repository where that is not all."""
    info = HfApi().model_info(repository, revision=revision, files_metadata=True)
    files = [_File(sibling.rfilename, sibling.size or 0) for sibling in info.siblings or ()]
    wanted = [file for file in files if not include or any(matches(file.path, pattern) for pattern in include)]
    gguf = [file.path for file in wanted if file.path.endswith(".gguf")]
    commit = info.sha or revision
    if gguf:
        config, checkpoint = _gguf(repository, commit, gguf)
    else:
        config, checkpoint = _safetensors(repository, commit, wanted)
    name = re.sub(r"[^a-z0-9.]+", "-", repository.split("/")[-1].lower()).strip("-")
    if gguf:
        name = f"{name}-{checkpoint['gguf']['quantization'].lower()}"
    checkpoint |= {
        "name": name,
        "repository": repository,
        "staged_bytes": sum(file.size for file in wanted),
        "staged_bytes_source": f"file list at commit {commit}",
        "revisions": {commit: "read by `python -m config add`"},
    }
    advice = "" if gguf else _advice(repository, commit, wanted)
    return {
        "name": name,
        "title": repository.split("/")[-1],
        "quality": quality,
        "config": config,
        "config_source": f"{repository} at {commit}",
        "serving": {"source": "none: added from the hub"},
        "checkpoints": [dict(sorted(checkpoint.items(), key=lambda field: field[0] == "tensors"))],
    }, advice


def _advice(repository: str, commit: str, files: Sequence[_File]) -> str:
    beside, patterns = second_copy(files, _weight_files(repository, commit, files))
    if not beside:
        return ""
    return (
        f"{repository} holds {beside / 1e9:.1f} GB of weights that the model does not need: set `include` of the stack "
        f"to {json.dumps(patterns)}, and lock it"
    )


def _safetensors(repository: str, commit: str, files: Sequence[_File]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Configuration and checkpoint of a repository with `config.json` and safetensors files."""
    weights = _weight_files(repository, commit, files)
    if not weights:
        raise AddError(f"{repository} has neither safetensors nor GGUF files among those chosen")
    config = _json(repository, commit, "config.json")
    if faults := config_faults(config):
        raise AddError(f"{repository} at {commit}: config.json: {'; '.join(faults)}")
    listed = any(file.path == MODELOPT_FILE for file in files)
    quantization = quantization_config(config, _json(repository, commit, MODELOPT_FILE) if listed else None)
    text = {**config, **(config.get("text_config") or {})}
    with ThreadPoolExecutor(_CONNECTIONS) as pool:
        headers = list(pool.map(lambda path: _header(repository, commit, path), weights))
    groups = header_groups(headers, int(text["num_hidden_layers"]))
    checkpoint = {
        "format": str(text.get("dtype") or text.get("torch_dtype") or "bf16").replace("bfloat16", "bf16"),
        "shards": len(weights),
        "tensors": [group.as_fields() for group in groups],
    }
    if quantization:
        checkpoint |= {
            "format": str(quantization.get("quant_algo") or quantization.get("quant_method")).lower(),
            "quantization_config": quantization,
            "quantization_source": MODELOPT_FILE if listed else "config.json",
        }
    return config, checkpoint


def _weight_files(repository: str, commit: str, files: Sequence[_File]) -> list[str]:
    """The weight files of the model: those that its index names, else those beside `config.json`.

    Without an index, `consolidated` files are Mistral's second copy, which vLLM leaves out too.
    """
    present = [file.path for file in files if file.path.endswith(".safetensors")]
    if any(file.path == INDEX_FILE for file in files):
        named = set(_json(repository, commit, INDEX_FILE).get("weight_map", {}).values())
        if missing := sorted(named - set(present)):
            raise AddError(
                f"{repository}: the index names {', '.join(missing[:3])}, which the repository does not have"
            )
        return [path for path in present if path in named]
    beside = [path for path in present if "/" not in path]
    return [path for path in beside if not path.startswith("consolidated")] or beside or present


def second_copy(files: Sequence[_File], weights: Sequence[str]) -> tuple[int, tuple[str, ...]]:
    """Bytes of weight files that the model does not need, and patterns that stage the others only."""
    others = [file for file in files if file.path.endswith(_WEIGHT_SUFFIXES) and file.path not in weights]
    if not others:
        return 0, ()
    numbered = {re.sub(r"-\d{5}-of-", "-*-of-", path) for path in weights}
    suffixes = {PurePosixPath(file.path).suffix for file in files if not file.path.endswith(_WEIGHT_SUFFIXES)}
    beside = {f"*{suffix}" for suffix in suffixes if suffix}
    return sum(file.size for file in others), tuple(sorted(numbered | beside))


def _json(repository: str, commit: str, path: str) -> dict[str, Any]:
    with HfFileSystem().open(f"{repository}@{commit}/{path}", "rb") as file:
        loaded: dict[str, Any] = json.loads(file.read())
    return loaded


def _header(repository: str, commit: str, path: str) -> Header:
    metadata = HfApi().parse_safetensors_file_metadata(repository, path, revision=commit)
    return {
        name: {"dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": tensor.data_offsets}
        for name, tensor in metadata.tensors.items()
    }


def _gguf(repository: str, commit: str, paths: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Configuration and checkpoint of one quantisation of a GGUF repository."""
    _, count = shard_of(paths[0])
    missing = sorted(set(range(1, count + 1)) - {shard_of(path)[0] for path in paths})
    if missing or len(paths) > count:
        found = ", ".join(paths[:3])
        raise AddError(
            f"{repository}: {len(paths)} GGUF files ({found}, …) are not one set of {count}: expected a pattern for "
            f"one quantisation, such as --include '{paths[0].split('/')[0]}/*'"
        )
    first = sorted(paths)[0]
    with HfFileSystem().open(f"{repository}@{commit}/{first}", "rb", block_size=_GGUF_BLOCK_BYTES) as file:
        header = read_gguf(file)
    stem = Path(first).stem.split("-00001-of-")[0]
    quantization = re.split(r"[-.](?=(?:UD-)?[A-Z]+\d)", stem)[-1]
    gguf = {"quantization": quantization, "shards": count, "first_shard": first}
    return header.config(), {"format": "gguf", "gguf": gguf}
