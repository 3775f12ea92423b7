"""Models: families of checkpoints that share a shape, with what their makers say of serving them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

from config.catalogue.reading import DATA, Fields, NotInCatalogueError, load


@dataclass(frozen=True, slots=True)
class Gguf:
    """Files of one quantisation in a GGUF repository."""

    quantization: str
    shards: int
    first_shard: str

    @property
    def pattern(self) -> str:
        """The pattern that stages every shard: their folder, their common beginning, or the one file."""
        folder, slash, _ = self.first_shard.rpartition("/")
        if slash:
            return f"{folder}/*.gguf"
        return self.first_shard if self.shards == 1 else self.first_shard.replace("-00001-of-", "-*-of-")


@dataclass(frozen=True, slots=True)
class ServingRecipe:
    """How the model's makers and vLLM's recipes say to serve it."""

    source: str
    vllm_works_since: str | None = None
    """Oldest vLLM release known to serve it."""
    vllm_recipe_minimum: str | None = None
    """Oldest release that vLLM's recipe names."""
    tool_call_parser: str | None = None
    reasoning_parser: str | None = None
    trust_remote_code: bool = False
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One repository of weights of a model."""

    name: str
    repository: str
    format: str
    """`bf16`, `fp8`, `nvfp4`, `int4`, `mxfp4` or `gguf`."""
    staged_bytes: int | None = None
    """Bytes of its files as published. `None`: only what the tensors add up to is known."""
    staged_bytes_source: str | None = None
    commit: str | None = None
    """A full commit of the repository that public files name; `None`: none is known."""
    quantization_config: Fields | None = None
    kv_cache_dtype: str | None = None
    """What the recipe gives this checkpoint's KV cache."""
    env: tuple[tuple[str, str], ...] = ()
    gguf: Gguf | None = None
    max_context: int | None = None
    """Its own maximum where it differs from the family's configuration."""
    unknown: str | None = None
    """What is not known about it, when a plan cannot be made."""
    gguf_tensors: tuple[tuple[str, int], ...] = ()
    """Names and bytes of the tensors that GGUF files list; empty: not read."""
    unread: str | None = None
    """A file of it that engines do not read, and why."""
    tensors: tuple[Fields, ...] = ()
    """Tensor groups as measured from the files' headers; empty: derived from the configuration."""


@dataclass(frozen=True, slots=True)
class ModelFamily:
    """A family of checkpoints that share a shape."""

    name: str
    title: str
    quality: str
    """`small`, `good`, `high` or `frontier`; empty: not rated."""
    config: Fields
    """The published `config.json`: the text model's fields, and `vision_config` beside them."""
    config_source: str
    serving: ServingRecipe
    checkpoints: tuple[Checkpoint, ...] = field(default=())


@cache
def models() -> tuple[ModelFamily, ...]:
    """Every model of the catalogue, by name."""
    return tuple(_model(load(path)) for path in sorted((DATA / "models").glob("*.json")))


def find_checkpoint(name: str, include: tuple[str, ...] = ()) -> tuple[ModelFamily, Checkpoint]:
    """The model and checkpoint of a name (`kimi-k2.5`) or repository (`moonshotai/Kimi-K2.5`).

    Where a repository holds several GGUF quantisations, `include` chooses: the one whose name occurs in a pattern.
    Raises NotInCatalogueError.
    """
    wanted = name.lower()
    matches = [
        (model, checkpoint)
        for model in models()
        for checkpoint in model.checkpoints
        if wanted in (checkpoint.name, checkpoint.repository.lower())
    ]
    if not matches:
        raise NotInCatalogueError("model", name, _repositories() if "/" in name else [model.name for model in models()])
    for model, checkpoint in matches:
        if checkpoint.gguf and any(checkpoint.gguf.quantization in pattern for pattern in include):
            return model, checkpoint
    return matches[0]


def _repositories() -> list[str]:
    return sorted({checkpoint.repository for model in models() for checkpoint in model.checkpoints})


def _model(entry: Fields) -> ModelFamily:
    return ModelFamily(
        name=entry["name"],
        title=entry["title"],
        quality=entry["quality"],
        config=entry["config"],
        config_source=entry["config_source"],
        serving=_serving(entry["serving"]),
        checkpoints=tuple(_checkpoint(checkpoint) for checkpoint in entry["checkpoints"]),
    )


def _serving(entry: Fields) -> ServingRecipe:
    return ServingRecipe(**{**entry, "args": tuple(entry.get("args", ())), "env": _pairs(entry)})


def _checkpoint(entry: Fields) -> Checkpoint:
    return Checkpoint(
        name=entry["name"],
        repository=entry["repository"],
        format=entry["format"],
        staged_bytes=entry.get("staged_bytes"),
        staged_bytes_source=entry.get("staged_bytes_source"),
        commit=next(iter(entry.get("revisions", {})), None),
        quantization_config=entry.get("quantization_config"),
        kv_cache_dtype=entry.get("kv_cache_dtype"),
        env=_pairs(entry),
        gguf=Gguf(**entry["gguf"]) if "gguf" in entry else None,
        max_context=entry.get("max_context"),
        unknown=entry.get("unknown"),
        tensors=tuple(entry.get("tensors", ())),
    )


def _pairs(entry: Fields) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(entry.get("env", {}).items()))
