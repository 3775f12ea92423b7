"""Drafts a stack file from a recommendation.

Node names and disk paths are placeholders in angle brackets; heavylift refuses a stack until they are replaced. An
existing file is never overwritten.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from config.catalogue import Checkpoint, VendorName, engine_facts, find_gpu
from config.errors import StackError
from config.stack.file import stack_file
from engines.registry import engine_of
from planner.recommend import Recommendation

_STAGE_IMAGE = "python:3.12-slim"


def new_stack_file(stack: str, program: Path = Path()) -> Path:
    """The path of `Pulumi.<stack>.yaml` in the program's directory, where a draft can be written.

    Raises StackError for an invalid name, a directory without Pulumi.yaml, or a file that exists.
    """
    file = stack_file(stack, program)
    if not (program / "Pulumi.yaml").exists():
        raise StackError([f"{file}: no Pulumi.yaml in this directory: run the command in the program's directory"])
    if file.exists():
        raise StackError([f"{file}: already exists: use the name of a new stack"])
    return file


def write_draft(best: Recommendation, stack: str, program: Path = Path()) -> Path:
    """Writes `Pulumi.<stack>.yaml` to the program's directory. Returns its path.

    Raises StackError as `new_stack_file` does, or if the file cannot be written.
    """
    file = new_stack_file(stack, program)
    try:
        with file.open("x", encoding="utf-8") as handle:
            handle.write(draft(best, stack))
    except OSError as fault:
        raise StackError([f"{file}: cannot be written ({fault.strerror})"]) from None
    return file


def draft(best: Recommendation, stack: str) -> str:
    """The text of the stack file."""
    lines = (*_opening(best, stack), *_nodes(best), *_weights(best), *_engine(best))
    return "\n".join(lines) + "\n"


def _opening(best: Recommendation, stack: str) -> Iterator[str]:
    request = best.request
    nodes = "one node" if request.nodes == 1 else f"{request.nodes} nodes"
    gpus = f"{request.gpus_per_node} {find_gpu(request.gpu or '').title}"
    yield "# yaml-language-server: $schema=docs/stack.schema.json"
    yield f"# {best.model.title} ({best.checkpoint.format}) on {nodes} with {gpus}, the smallest machine that holds it."
    yield f"# Fill in the values in angle brackets, then: pulumi stack init {stack}"
    yield "config:"
    yield "  heavylift:cluster:"
    yield "    kubeconfig: ~/.kube/config"


def _nodes(best: Recommendation) -> Iterator[str]:
    request = best.request
    yield "  heavylift:nodes:"
    yield "    kind: bare-metal"
    yield "    names: # as `kubectl get nodes` prints them"
    yield from (f"      - <name of node {number}>" for number in range(1, request.nodes + 1))
    yield f"    gpu: {request.gpu}"
    yield f"    gpus_per_node: {request.gpus_per_node}"
    if find_gpu(request.gpu or "").vendor.name is VendorName.NVIDIA:
        yield '    # driver: "580" # of the nodes; checked against the CUDA version of the image'
    yield "    nvme_path: <where the nodes' NVMe is mounted>"
    if request.nodes > 1:
        yield "    # fabric: # between the nodes, see docs/multi-node.md"
    if request.usd_per_gpu_hour is not None:
        yield f"    usd_per_gpu_hour: {request.usd_per_gpu_hour:g}"


def _weights(best: Recommendation) -> Iterator[str]:
    yield "  heavylift:model:"
    from_directory = Path(best.checkpoint.repository).is_dir()
    repository = "<repository of this checkpoint>" if from_directory else best.checkpoint.repository
    yield f"    repository: {repository}"
    yield from _revision(best.checkpoint)
    if best.checkpoint.gguf:
        yield "    include:"
        yield f'      - "{best.checkpoint.gguf.pattern}"'
    yield "  heavylift:weights:"
    yield f"    kind: {'local' if best.request.nodes == 1 else 'host-path'}"
    yield "  heavylift:stage:"
    yield f"    image: {_STAGE_IMAGE}"
    yield "    # bandwidth: 10 Gbit/s # to the hub; sets the deadline of the Job"


def _revision(checkpoint: Checkpoint) -> Iterator[str]:
    if checkpoint.commit:
        yield f'    revision: "{checkpoint.commit}"'
    else:
        yield "    allow_unpinned: true"
        yield "    revision: main # commit not known to us; pin before use"


def _engine(best: Recommendation) -> Iterator[str]:
    request, layout = best.request, best.plan.layout
    engine, facts = engine_of(request.engine), engine_facts(request.engine)
    yield "  heavylift:engine:"
    yield f"    name: {request.engine}"
    yield f"    version: {facts.default_version}"
    yield f"    image: {facts.image[find_gpu(request.gpu or '').vendor.name]}"
    if "tensor_parallel" not in engine.missing_settings:
        yield f"    tensor_parallel: {layout.tp}"
    if "pipeline_parallel" not in engine.missing_settings and layout.pp > 1:
        yield f"    pipeline_parallel: {layout.pp}"
    if layout.dp > 1:
        yield f"    data_parallel: {layout.dp}"
    if request.expert_parallel:
        yield "    expert_parallel: true"
    if layout.pcp > 1:
        yield f"    prefill_context_parallel: {layout.pcp}"
    if layout.dcp > 1:
        yield f"    decode_context_parallel: {layout.dcp}"
    yield f"    max_model_len: {request.max_model_len}"
