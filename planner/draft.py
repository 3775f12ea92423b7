"""A stack file drafted from a recommendation, to be completed by hand.

What nobody but the reader knows, the nodes' names and the path of their disks, stands in angle brackets: such a stack
is refused with the keys to fill in. Nothing is written over a file that is there, or away from the program.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from config.catalogue import Checkpoint, find_gpu
from config.errors import StackError
from config.stack.file import checked_stack_name, stack_file
from engines.registry import engine_of
from planner.recommend import Recommendation

_STAGE_IMAGE = "python:3.12-slim"


def write_draft(best: Recommendation, stack: str, program: Path = Path()) -> Path:
    """Writes the stack file `Pulumi.<stack>.yaml` into the folder of the program, and returns its path.

    Raises StackError for a name that no stack can have, a folder that is not the program's, or a file that exists.
    """
    file = stack_file(checked_stack_name(stack), program)
    if not (program / "Pulumi.yaml").exists():
        raise StackError([f"{file}: there is no Pulumi.yaml beside it: expected to run in the program's folder"])
    try:
        with file.open("x", encoding="utf-8") as handle:
            handle.write(draft(best, stack))
    except FileExistsError:
        raise StackError([f"{file}: exists, and is not written over: expected the name of a new stack"]) from None
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
    yield f"# {best.model.title} ({best.checkpoint.format}) on {nodes} with {gpus}: the smallest that holds it."
    yield f"# Fill in what stands in angle brackets, then: pulumi stack init {stack}"
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
    yield '    # driver: "580" # of the nodes, to be compared with the CUDA of the image below'
    yield "    nvme_path: <where the nodes' NVMe is mounted>"
    if request.nodes > 1:
        yield "    # fabric: # between the nodes, see docs/multi-node.md"
    if request.usd_per_gpu_hour is not None:
        yield f"    usd_per_gpu_hour: {request.usd_per_gpu_hour:g}"


def _weights(best: Recommendation) -> Iterator[str]:
    yield "  heavylift:model:"
    yield f"    repository: {best.checkpoint.repository}"
    yield from _revision(best.checkpoint)
    if best.checkpoint.gguf:
        yield "    include:"
        yield f'      - "{best.checkpoint.gguf.pattern}"'
    yield "  heavylift:weights:"
    yield f"    kind: {'local' if best.request.nodes == 1 else 'host-path'}"
    yield "  heavylift:stage:"
    yield f"    image: {_STAGE_IMAGE}"
    yield "    # bandwidth: 10 Gbit/s # of the line to the hub; the Job's deadline follows from it"


def _revision(checkpoint: Checkpoint) -> Iterator[str]:
    if checkpoint.commit:
        yield f'    revision: "{checkpoint.commit}"'
    else:
        yield "    allow_unpinned: true"
        yield "    revision: main # commit not known to us; pin before use"


def _engine(best: Recommendation) -> Iterator[str]:
    request, layout, engine = best.request, best.plan.layout, engine_of(best.request.engine)
    yield "  heavylift:engine:"
    yield f"    name: {request.engine}"
    yield f"    version: {engine.default_version}"
    yield f"    image: {engine.default_image}"
    if "tensor_parallel" not in engine.missing_settings:
        yield f"    tensor_parallel: {layout.tp}"
    if "pipeline_parallel" not in engine.missing_settings and layout.pp > 1:
        yield f"    pipeline_parallel: {layout.pp}"
    if request.expert_parallel:
        yield "    expert_parallel: true"
    yield f"    max_model_len: {request.max_model_len}"
