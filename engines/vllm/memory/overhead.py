"""Memory beside weights and KV cache on one GPU, as a range.

Three parts: memory outside torch (communication, context), the activation peak of the engine's profiling run, and
CUDA graphs. The peak is the larger of two: a layer's intermediate states for a whole batch of tokens, or the copies of
the logits that sampling makes for every sequence, which only the last pipeline stage does. The workspace of the experts
comes on top of either. Constants and their sources are in `config/data/overheads.json`.
"""

from __future__ import annotations

from dataclasses import dataclass

from config.catalogue import NonTorch, Overheads, overheads
from config.units import GIB
from engines.versions import Version

_ROW_ALIGNMENT = 128
"""Grouped FP8 kernels give each expert a multiple of this many rows."""


@dataclass(frozen=True, slots=True)
class Workload:
    """The inputs of the overhead of one GPU."""

    tp: int
    pp: int
    dp: int
    expert_parallel: bool
    last_stage: bool
    hidden: int
    dense_width: int
    """Intermediate size of the dense layers. 0: none."""
    vocabulary: int
    experts_active: int
    """Experts per token; 0 for a dense model."""
    expert_width: int
    experts_local: int
    """Routed experts on the GPU where the kernels align their rows (block FP8 on Hopper and later), else 0."""
    vision: bool
    batched_tokens: int
    sequences: int
    graphs: bool = True
    """Whether CUDA graphs are captured."""


@dataclass(frozen=True, slots=True)
class Overhead:
    """Bytes of one GPU by part."""

    non_torch: float
    activation: float
    graphs_low: float
    graphs_high: float
    weights_share: float
    reserve: float
    """Needed, but not measured by the engine's profiling."""
    widening: float = 0.0
    """Added to the high ratio, because no observation is near (`engines.vllm.memory.nearness`)."""

    @property
    def base(self) -> float:
        """The part that the calibrated ratios scale."""
        return self.non_torch + self.activation

    @property
    def likely(self) -> float:
        """The likely end of the range."""
        return overheads().low_ratio * self.base + self.graphs_low + self.reserve

    @property
    def worst(self) -> float:
        """The worst end of the range."""
        scaled = (overheads().high_ratio + self.widening) * self.base
        return scaled + self.graphs_high + self.weights_share + self.reserve


def overhead(workload: Workload, version: Version, weights: float, reserve: float = 0.0) -> Overhead:
    """The overhead of one GPU with `weights` bytes of weights, under that vLLM release."""
    constants = overheads()
    older = version < Version.parse(constants.older_activation_before)
    activation = _activation(workload, constants, older=older)
    graphs = constants.graphs_gib
    captured = min(1.0, workload.sequences / graphs.at_sequences)
    if not workload.graphs or version < Version.parse(constants.graphs_counted_since):
        captured = 0.0
    return Overhead(
        non_torch=_non_torch(workload, constants.non_torch_gib) * GIB,
        activation=activation,
        graphs_low=captured * graphs.low * GIB,
        graphs_high=captured * graphs.high * GIB,
        weights_share=constants.weights_share * weights,
        reserve=reserve,
    )


def _non_torch(workload: Workload, gib: NonTorch) -> float:
    if workload.tp > 1 or workload.dp > 1:
        return gib.tensor
    return gib.pipeline if workload.pp > 1 else gib.single


def _activation(workload: Workload, constants: Overheads, *, older: bool) -> float:
    """Bytes of the profiling run's peak. Older releases keep more copies, but have no aligned expert kernels."""
    received = constants.pipeline_hidden_copies * workload.hidden if workload.pp > 1 else 0
    dense = 0.0
    if workload.dense_width:
        states = constants.dense_width_copies * workload.dense_width / workload.tp
        dense = 2 * workload.batched_tokens * (constants.dense_hidden_copies * workload.hidden + states + received)
    workspace = _expert_workspace(workload, aligned=workload.experts_local > 0 and not older)
    experts = 2 * workload.batched_tokens * (constants.expert_hidden_copies * workload.hidden + received)
    sampling = 0.0
    if workload.last_stage:
        sampling = constants.sampler_copies * 4 * workload.sequences * workload.vocabulary
    copies = constants.older_activation_factor if older else 1.0
    states = max(sampling, experts if workspace else dense)
    peak = max(copies * dense, copies * states + workspace)
    return float(peak + (constants.vision_gib * GIB if workload.vision else 0.0))


def _expert_workspace(workload: Workload, *, aligned: bool) -> float:
    """Bytes of the buffers between the experts' two matrix products.

    Data-parallel ranks gather their tokens, so each works on those of all (chunking was removed in vLLM 0.20,
    github.com/vllm-project/vllm/pull/39107).
    """
    if not workload.experts_active:
        return 0.0
    rows = workload.batched_tokens * workload.dp * workload.experts_active
    width = workload.expert_width / (1 if workload.expert_parallel else workload.tp)
    if aligned:
        rows += workload.experts_local * (_ROW_ALIGNMENT - 1)
        return 2 * rows * 2 * max(2 * width, workload.hidden)
    return 2 * rows * (max(2 * width, workload.hidden) + width)
