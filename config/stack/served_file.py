"""Which of a repository's GGUF files llama.cpp serves."""

from collections.abc import Sequence

from config.catalogue import NotInCatalogueError, find_checkpoint
from config.checkpoint.gguf_header import shard_of
from config.engine_name import EngineName
from config.errors import StackError
from config.stack.sections import StackConfig


def served_file(stack: StackConfig, locked: Sequence[str] | None) -> str | None:
    """The file to serve: the stack's own word, the only model among the `locked` or included files, or the catalogue's.

    Shards are one model, of which the server wants the first. None for another engine. Raises StackError where the
    choice is not one model.
    """
    engine, files = stack.engine, stack.model.include if locked is None else locked
    if engine.name is not EngineName.LLAMA_CPP or engine.model_file is not None:
        return engine.model_file
    models = [file for file in files if file.endswith(".gguf") and not _names_no_model(file)]
    file = models[0] if len(models) == 1 else _in_catalogue(stack)
    if file is None:
        raise StackError(
            [
                "heavylift:engine.model_file: is missing: expected the GGUF file to serve, or the first of its shards; "
                f"heavylift:model.include names {', '.join(models) or 'none'}"
            ]
        )
    return file


def _names_no_model(file: str) -> bool:
    is_pattern = any(character in file for character in "*?[")
    return is_pattern or shard_of(file)[0] > 1


def _in_catalogue(stack: StackConfig) -> str | None:
    """The first shard of a known quantisation that one of the patterns names."""
    patterns = tuple(stack.model.include)
    try:
        _, checkpoint = find_checkpoint(stack.model.repository, patterns)
    except NotInCatalogueError:
        return None
    gguf = checkpoint.gguf
    return gguf.first_shard if gguf and any(gguf.quantization in pattern for pattern in patterns) else None
