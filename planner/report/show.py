"""Lists the tensor groups of a model and the cost of a token of context."""

from __future__ import annotations

from collections.abc import Iterator

from config.catalogue import models
from config.checkpoint.attention import CompressedAttention, GroupedAttention, LatentAttention
from config.checkpoint.model_spec import ModelSpec
from config.checkpoint.tensors import Place


def show(model: ModelSpec) -> str:
    """A table of tensor groups with parameters, bytes, type and share, and the facts that memory depends on."""
    return "\n".join(_lines(model))


def list_models() -> str:
    """Names of all checkpoints of the catalogue, by model."""
    return "\n".join(
        f"{model.title:<20} {', '.join(checkpoint.name for checkpoint in model.checkpoints)}" for model in models()
    )


def _lines(model: ModelSpec) -> Iterator[str]:
    shape = model.shape
    yield f"{model.name} ({model.checkpoint.format}), {shape.layers} layers, context {shape.max_context:,}"
    yield f"  attention  {_attention(model)}"
    if shape.experts:
        dense = f", {len(shape.experts.dense_layers)} layers dense" if shape.experts.dense_layers else ""
        size = f"{shape.experts.count} of width {shape.experts.width}"
        yield f"  experts    {size}, {shape.experts.active} per token{dense}"
    for what in model.unknown:
        yield f"  not known  {what}"
    total = sum(group.bytes for group in model.groups)
    if total:
        yield f"  {'group':<18}{'parameters':>20}{'bytes':>20}  {'share':>6}  type, sharding"
    for group in sorted(model.groups, key=lambda group: -group.bytes):
        name = f"{group.group} (MTP)" if group.place is Place.MTP else group.group
        share = group.bytes / total
        yield f"  {name:<18}{group.parameters:>20,}{group.bytes:>20,}  {share:>6.1%}  {group.dtype}, {group.sharding}"
    if total:
        parameters = sum(group.parameters for group in model.groups)
        yield f"  {'total':<18}{parameters:>20,}{total:>20,}  = {total / 1e9:.2f} GB = {total / 2**30:.2f} GiB"
        how = "from the headers of its files" if model.measured else f"from {model.family.config_source}"
        yield f"  source     {how}"
    if model.staged_bytes:
        yield f"  staged     {model.staged_bytes:,} bytes ({model.checkpoint.staged_bytes_source or 'its tensors'})"


def _attention(model: ModelSpec) -> str:
    shape = model.shape
    others = {
        kind: shape.layer_kinds.count(kind)
        for kind in ("linear", "mamba", "sliding", "chunked")
        if kind in shape.layer_kinds
    }
    rest = "".join(f", {count} {kind} layers" for kind, count in others.items())
    match shape.attention:
        case LatentAttention() as latent:
            sparse = ", sparse with an indexer" if latent.indexer else ""
            return f"latent: {latent.heads} heads, {latent.kv_rank}+{latent.rope_dim} per token and layer{sparse}{rest}"
        case CompressedAttention() as compressed:
            window = f"a window of {compressed.window} tokens"
            return f"compressed: {compressed.heads} heads over {window} and entries of several tokens"
        case GroupedAttention() as grouped:
            return f"{grouped.heads} heads, {grouped.kv_heads} key-value heads of {grouped.head_dim}{rest}"
        case _:
            return "not known"
