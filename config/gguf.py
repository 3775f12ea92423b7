"""Which of a repository's GGUF files llama.cpp serves."""

import re
from collections.abc import Sequence

from config.errors import StackError
from config.stack import Engine, EngineName

_LATER_SHARD = re.compile(r"-(?!00001)\d{5}-of-\d{5}\.gguf")


def served_file(engine: Engine, files: Sequence[str]) -> str | None:
    """The file to serve out of `files`, the paths of a lock or the stack's own patterns; None for another engine.

    Shards are one model, of which the server wants the first. Raises StackError unless exactly one model is left.
    """
    if engine.name is not EngineName.LLAMA_CPP or engine.model_file is not None:
        return engine.model_file
    models = [file for file in files if file.endswith(".gguf") and not _names_no_model(file)]
    if len(models) != 1:
        raise StackError(
            [
                "heavylift:engine.model_file: is missing: expected the GGUF file to serve, or the first of its shards; "
                f"heavylift:model.include names {', '.join(models) or 'none'}"
            ]
        )
    return models[0]


def _names_no_model(file: str) -> bool:
    is_pattern = any(character in file for character in "*?[")
    return is_pattern or _LATER_SHARD.search(file) is not None
