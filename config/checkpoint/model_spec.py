"""The model of a request, ready for arithmetic: its shape, its quantisation and its tensors.

From the catalogue, or from a directory with a checkpoint. Reading is done once per model and process.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from config.catalogue import Checkpoint, ModelFamily, ServingRecipe, find_checkpoint
from config.checkpoint.attention import CompressedAttention
from config.checkpoint.directory import DirectoryError, read_directory
from config.checkpoint.quantization import FP8, Quantization, Scheme, read_quantization, with_expert_type
from config.checkpoint.rotary import with_yarn
from config.checkpoint.shape import Shape, read_shape
from config.checkpoint.tensors import Place, TensorGroup, derived_groups, first_expert, measured_groups, shared_module

_ITS_VISION = "its vision encoder (vision_config)"
"""Not known where its tensors would have to be derived; serving the language model alone does not need it."""


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A checkpoint that can be planned."""

    family: ModelFamily
    checkpoint: Checkpoint
    shape: Shape
    quantization: Quantization
    groups: tuple[TensorGroup, ...]
    """Empty where the tensors are not known."""
    unknown: tuple[str, ...]
    """What the planner does not know about it; a plan of it says so."""
    measured: bool
    """The groups come from the files' headers, not from the configuration."""

    @property
    def name(self) -> str:
        """How messages call it."""
        return self.checkpoint.repository

    @property
    def serving(self) -> ServingRecipe:
        return self.family.serving

    @property
    def is_gguf(self) -> bool:
        return self.checkpoint.format == "gguf"

    @property
    def staged_bytes(self) -> int | None:
        """Bytes of its files: as published, else the sum of its tensors."""
        if self.checkpoint.staged_bytes is not None:
            return self.checkpoint.staged_bytes
        return sum(group.bytes for group in self.groups) or None

    @property
    def expert_scheme(self) -> Scheme:
        """How the routed experts are stored."""
        return self.quantization.scheme(first_expert(self.shape))

    @property
    def shared_expert_scheme(self) -> Scheme:
        """How the shared expert is stored."""
        name = shared_module(self.shape.experts) if self.shape.experts else ""
        return self.quantization.scheme(first_expert(self.shape).replace("experts.0", name))

    @property
    def dense_scheme(self) -> Scheme:
        """How the dense networks are stored."""
        return self.quantization.scheme("model.layers.0.mlp.gate_proj")

    def is_stored_as(self, scheme: str) -> bool:
        """Whether some of its weights are stored in a scheme whose name begins so."""
        return any(found.name.startswith(scheme) for _, found in self.quantization.schemes)

    def without_vision(self) -> ModelSpec:
        """The language model alone, of the same files."""
        return replace(
            self,
            checkpoint=self._with_its_files(),
            shape=replace(self.shape, vision=None),
            unknown=tuple(what for what in self.unknown if what != _ITS_VISION),
            groups=tuple(group for group in self.groups if group.place is not Place.VISION),
        )

    def with_yarn(self, factor: float, original: int | None) -> tuple[ModelSpec, dict[str, Any]]:
        """The same with its context stretched by YaRN, and the fields of its `config.json` that say so.

        `original`: the context that is stretched; unset: the model's own.
        """
        config = self.family.config
        fields = with_yarn(config, factor, original or self.shape.max_context)
        shape = read_shape({**config, **fields})
        stretched = replace(self.shape, max_context=shape.max_context, rotary_table=shape.rotary_table)
        return replace(self, shape=stretched), fields

    def quantized_online(self) -> ModelSpec:
        """An unquantised checkpoint whose linear layers the engine turns into fp8 while loading, of the same files."""
        quantization = Quantization(method="fp8", schemes=((None, FP8),))
        groups = derived_groups(self.shape, quantization)
        return replace(self, checkpoint=self._with_its_files(), quantization=quantization, groups=groups)

    def _with_its_files(self) -> Checkpoint:
        """The checkpoint with the bytes that are staged, whatever the engine holds of them."""
        return replace(self.checkpoint, staged_bytes=self.staged_bytes)


def find_model(name: str, include: tuple[str, ...] = ()) -> ModelSpec:
    """The model of a name, a repository or a directory.

    Raises NotInCatalogueError, or DirectoryError for a directory that cannot be read.
    """
    try:
        if Path(name).is_dir():
            return _model_spec(*read_directory(Path(name)))
    except OSError as fault:
        raise DirectoryError(f"{name} cannot be read: {fault.strerror}") from fault
    return _of_catalogue(name, include)


@cache
def _of_catalogue(name: str, include: tuple[str, ...]) -> ModelSpec:
    return _model_spec(*find_checkpoint(name, include))


def _model_spec(family: ModelFamily, checkpoint: Checkpoint) -> ModelSpec:
    shape = read_shape(family.config)
    if checkpoint.max_context:
        table = shape.rotary_table * checkpoint.max_context // shape.max_context if shape.max_context else 0
        shape = replace(shape, max_context=checkpoint.max_context, rotary_table=table)
    quantization = read_quantization(checkpoint.quantization_config)
    if isinstance(shape.attention, CompressedAttention):
        quantization = with_expert_type(quantization, family.config, checkpoint.quantization_config or {})
    unknown = list(shape.unknown)
    if checkpoint.unknown:
        unknown.append(checkpoint.unknown)
    if quantization.unknown:
        unknown.append(f"its quantisation: {quantization.unknown}")
    groups: tuple[TensorGroup, ...] = ()
    if checkpoint.tensors:
        groups = measured_groups(checkpoint.tensors)
    elif shape.derivable and not unknown and checkpoint.format != "gguf":
        groups = derived_groups(shape, quantization)
        if family.config.get("vision_config") and shape.vision is None:
            unknown.append(_ITS_VISION)
    elif not unknown and checkpoint.format != "gguf":
        kind = family.config.get("model_type")
        unknown.append(f"the tensors of model type {kind!r}: they need the headers of its safetensors files")
    return ModelSpec(family, checkpoint, shape, quantization, groups, tuple(unknown), bool(checkpoint.tensors))
