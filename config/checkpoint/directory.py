"""Reads a checkpoint from a directory with `config.json` and safetensors, or with GGUF files.

Reads headers, never weights. Raises DirectoryError for unreadable files and for GGUF sets with missing shards.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from config.catalogue import Checkpoint, Gguf, ModelFamily, ServingRecipe
from config.checkpoint.config_fields import config_faults, quantization_faults
from config.checkpoint.gguf_header import GgufError, GgufHeader, read_gguf, shard_of
from config.checkpoint.layers import layer_count
from config.checkpoint.quantization import read_quantization
from config.checkpoint.safetensors import (
    LENGTH_BYTES,
    Header,
    header_groups,
    header_length,
    parse_header,
    unknown_tensors,
)

INDEX_FILE = "model.safetensors.index.json"
"""Which file each tensor is in."""

_MOST_SHARDS = 99_999
"""As many as five digits count."""

MODELOPT_FILE = "hf_quant_config.json"
"""Where ModelOpt's older checkpoints declare their quantisation."""


class DirectoryError(Exception):
    """A directory that is not a readable checkpoint."""


def read_directory(directory: Path) -> tuple[ModelFamily, Checkpoint]:
    """The model and checkpoint in a directory. Raises DirectoryError."""
    if (directory / "config.json").is_file():
        return _safetensors_checkpoint(directory)
    if files := _gguf_files(directory):
        return _gguf_checkpoint(directory, files)
    raise DirectoryError(f"{directory} has neither config.json nor a .gguf file: expected a checkpoint's directory")


def _gguf_files(directory: Path) -> list[Path]:
    """GGUF files in the directory, or one level below in a directory for each quantisation."""
    try:
        return sorted([*directory.glob("*.gguf"), *directory.glob("*/*.gguf")])
    except OSError as fault:
        raise DirectoryError(f"{directory} cannot be read: {fault}") from fault


def _model(name: str, config: dict[str, Any], source: Path) -> ModelFamily:
    return ModelFamily(name, name, "", config, str(source), ServingRecipe(source="none: not in the catalogue"))


def _safetensors_checkpoint(directory: Path) -> tuple[ModelFamily, Checkpoint]:
    try:
        config = _config(directory / "config.json")
        text = {**config, **(config.get("text_config") or {})}
        layers = layer_count(text)
        declared = _quantization(directory, config)
        files = _safetensors_files(directory)
        headers = [_header(path) for path in files]
        groups = header_groups(headers, layers) if headers else ()
        strange = unknown_tensors(headers, layers)
        staged = _staged_bytes(directory)
    except (OSError, KeyError, TypeError, ValueError, AttributeError) as fault:
        raise DirectoryError(f"{directory} cannot be read: {fault!r}") from fault
    name = str(directory)
    checkpoint = Checkpoint(
        name=name,
        repository=name,
        format=str(text.get("dtype") or text.get("torch_dtype") or "bf16").replace("bfloat16", "bf16"),
        staged_bytes=staged,
        staged_bytes_source="its files" if headers else "model.safetensors.index.json",
        quantization_config=declared,
        tensors=tuple(group.as_fields() for group in groups),
        unread=_unread(directory),
        unknown=f"how its tensors {', '.join(strange)} are sharded" if strange else None,
    )
    return _model(name, config, directory / "config.json"), checkpoint


def _config(path: Path) -> dict[str, Any]:
    config = json.loads(path.read_text(encoding="utf-8"))
    faults = config_faults(config)
    if faults:
        raise DirectoryError(f"{path}: {'; '.join(faults)}")
    checked: dict[str, Any] = config
    return checked


def _quantization(directory: Path, config: Mapping[str, Any]) -> dict[str, Any] | None:
    """The declared quantisation, if it can be read. An unknown method is not an error here; the verdict reports it."""
    declared = quantization_config(config, _modelopt(directory))
    faults = quantization_faults(declared)
    if faults:
        raise DirectoryError(f"{directory}: {'; '.join(faults)}")
    try:
        read_quantization(declared)
    except (AttributeError, TypeError, ValueError, re.error) as fault:
        raise DirectoryError(f"{directory}: quantization_config cannot be read: {fault}") from fault
    return declared


def quantization_config(config: Mapping[str, Any], modelopt: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The quantisation that a checkpoint declares: in `config.json`, within its text model, or in ModelOpt's file."""
    text = {**config, **(config.get("text_config") or {})}
    declared = config.get("quantization_config") or text.get("quantization_config")
    if modelopt is None or (declared and declared.get("quant_method")):
        return declared
    return {"quant_method": "modelopt", **modelopt["quantization"]} if _is_modelopts(modelopt) else declared


def _is_modelopts(file: Mapping[str, Any]) -> bool:
    """Whether engines take the file for ModelOpt's: by its producer, as vLLM does."""
    return (file.get("producer") or {}).get("name") == "modelopt"


def _unread(directory: Path) -> str | None:
    file = _modelopt(directory)
    if file is None or _is_modelopts(file):
        return None
    return f"{MODELOPT_FILE} names no producer 'modelopt': engines do not read it, and take the weights for unquantised"


def _modelopt(directory: Path) -> dict[str, Any] | None:
    """The content of `hf_quant_config.json`."""
    path = directory / MODELOPT_FILE
    if not path.is_file():
        return None
    loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return loaded


def _safetensors_files(directory: Path) -> list[Path]:
    """The files of the model: those that its index names, else all. Raises DirectoryError where only some are there."""
    present = {path.name: path for path in sorted(directory.glob("*.safetensors"))}
    # Mistral's repositories hold a second copy under another name, which vLLM leaves out by the index too.
    others = [name for name in present if not name.startswith("consolidated")]
    wanted = _indexed_files(directory) or _numbered_files(others or present)
    missing = sorted(wanted - present.keys())
    if present and missing:
        raise DirectoryError(
            f"{directory} has {len(wanted) - len(missing)} of {len(wanted)} safetensors files: "
            f"{', '.join(missing)} are missing. Stage the whole checkpoint"
        )
    return [path for name, path in present.items() if name in wanted]


def _indexed_files(directory: Path) -> set[str]:
    index = _index(directory)
    return set(index.get("weight_map", {}).values()) if index else set()


def _numbered_files(names: Iterable[str]) -> set[str]:
    """The files of the sets whose numbers the names give, such as model-00001-of-00030.safetensors; others as well."""
    wanted = set()
    for name in names:
        number, count = shard_of(name)
        shard = f"-{number:05}-of-{count:05}"
        wanted |= {name.replace(shard, f"-{each:05}-of-{count:05}") for each in range(1, min(count, _MOST_SHARDS) + 1)}
        wanted.add(name)
    return wanted


def _index(directory: Path) -> dict[str, Any] | None:
    path = directory / INDEX_FILE
    if not path.is_file():
        return None
    loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return loaded


def _header(path: Path) -> Header:
    with path.open("rb") as file:
        length = header_length(file.read(LENGTH_BYTES))
        header = parse_header(file.read(length))
    end = LENGTH_BYTES + length + max((int(tensor["data_offsets"][1]) for tensor in header.values()), default=0)
    if path.stat().st_size < end:
        raise DirectoryError(f"{path} ends early: {path.stat().st_size:,} of {end:,} bytes. Stage it again")
    return header


def _staged_bytes(directory: Path) -> int | None:
    """Size of the files; without weight files, the size that the index states."""
    if any(directory.glob("*.safetensors")):
        return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
    index = _index(directory)
    return int(index["metadata"]["total_size"]) if index else None


def _gguf_checkpoint(directory: Path, files: Sequence[Path]) -> tuple[ModelFamily, Checkpoint]:
    _, count = shard_of(files[0].name)
    numbers = {shard_of(path.name)[0] for path in files}
    missing = sorted(set(range(1, count + 1)) - numbers)
    if missing:
        raise DirectoryError(f"{directory} has {len(numbers)} of {count} GGUF shards: {missing} are missing")
    first = files[0]
    headers = [(path, _gguf_header(path)) for path in files]
    config = _gguf_config(first, headers[0][1])
    name = str(directory)
    checkpoint = Checkpoint(
        name=name,
        repository=name,
        format="gguf",
        staged_bytes=sum(path.stat().st_size for path in files),
        staged_bytes_source="its files",
        gguf=Gguf(first.stem, count, str(first.relative_to(directory))),
        gguf_tensors=tuple(size for path, header in headers for size in header.tensor_sizes(path.stat().st_size)),
    )
    return _model(name, config, first), checkpoint


def _gguf_header(path: Path) -> GgufHeader:
    try:
        with path.open("rb") as file:
            header = read_gguf(file)
    except (GgufError, OSError, TypeError) as fault:
        raise DirectoryError(f"{path} is not a GGUF file that can be read: {fault}") from fault
    if any(size < 0 for _, size in header.tensor_sizes(path.stat().st_size)):
        raise DirectoryError(f"{path} ends before its last tensor. Stage it again")
    return header


def _gguf_config(path: Path, header: GgufHeader) -> dict[str, Any]:
    try:
        config = header.config()
    except TypeError as fault:
        raise DirectoryError(f"{path} is not a GGUF file that can be read: {fault}") from fault
    if faults := config_faults(config):
        raise DirectoryError(f"{path}: {'; '.join(faults)}")
    return config
