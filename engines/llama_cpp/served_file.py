"""Which of a repository's GGUF files llama.cpp serves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from config.catalogue import NotInCatalogueError, find_checkpoint
from config.checkpoint.gguf_header import shard_of
from engines.finding import Finding, rejected
from engines.request import FitRequest
from engines.rules.included import stages

_SHOWN = 3


def served_file(request: FitRequest) -> str | None:
    """The file to serve: the stack's setting, the only model among the locked or included files, or the catalogue's.

    Shards are one model; the server gets the first. `None`: none or several models.
    """
    if request.model_file is not None:
        return request.model_file
    models = _models(_files(request))
    return models[0] if len(models) == 1 else _in_catalogue(request.model, request.include)


def check_served_file(request: FitRequest) -> Iterator[Finding]:
    """Rejects a stack that does not determine one file to serve, or that names a file that is not staged."""
    if request.deployment is not None and served_file(request) is None:
        models = ", ".join(_models(_files(request))) or "none"
        yield rejected(
            "model_file_not_known",
            f"Which GGUF file to serve is not known: the staged files name {models}.",
            "Set engine.model_file to the GGUF file to serve, or to the first of its shards.",
        )
    if request.deployment is not None and request.model_file is not None and not _is_staged(request):
        yield rejected(
            "model_file_not_staged",
            f"engine.model_file {request.model_file} is not among the files that are staged: {_some(_files(request))}.",
            "Correct it, or stage the file: with model.include, or in a new lock.",
        )


def _is_staged(request: FitRequest) -> bool:
    deployment = request.deployment
    if deployment is None or deployment.locked_files is None:
        return stages(request.include, request.model_file or "")
    return request.model_file in deployment.locked_files


def _some(files: Sequence[str]) -> str:
    """The first few names of files."""
    return ", ".join(files[:_SHOWN]) + (f" and {len(files) - _SHOWN} more" if len(files) > _SHOWN else "")


def _files(request: FitRequest) -> Sequence[str]:
    deployment = request.deployment
    return request.include if deployment is None or deployment.locked_files is None else deployment.locked_files


def _models(files: Sequence[str]) -> list[str]:
    return [file for file in files if file.endswith(".gguf") and not _names_no_model(file)]


def _names_no_model(file: str) -> bool:
    is_pattern = any(character in file for character in "*?[")
    return is_pattern or shard_of(file)[0] > 1


def _in_catalogue(name: str, patterns: tuple[str, ...]) -> str | None:
    """The first shard of a known checkpoint, or of the quantisation of a repository that one of the patterns names."""
    try:
        _, checkpoint = find_checkpoint(name, patterns)
    except NotInCatalogueError:
        return None
    gguf = checkpoint.gguf
    if gguf and (name == checkpoint.name or any(gguf.quantization in pattern for pattern in patterns)):
        return gguf.first_shard
    return None
