"""Rules for disk, host memory, shared memory and start-up time."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from config.catalogue import find_instance
from config.units import GIB
from engines.finding import Finding, rejected, unknown, warning
from engines.request import FitRequest

DISK_MARGIN = 0.1
"""Share of one revision beside the kept ones: headers, tokenizer, file system. A volume that is 4% larger than 621 GB
of weights is too small (github.com/Mesh-LLM/mesh-llm/issues/311)."""

SHARED_MEMORY_PER_GPU = 2 * GIB
"""`/dev/shm` per GPU. 64 MiB, the container's default, is too little for two ranks
(github.com/vllm-project/production-stack/issues/276)."""

PROCESS_MEMORY_PER_GPU = 12 * GIB
"""Host memory of one rank: CUDA context, and a shard of the weights on its way to the GPU (the largest are 10 GB)."""

BASE_MEMORY = 16 * GIB
"""Host memory of the API server and the engine's core."""

ALLOCATABLE_SHARE = 0.9
"""Share of an instance's memory and of its NVMe disks that pods get: our own choice. The kernel, the kubelet and its
eviction threshold take about 1.3 GiB of 16, and less of more; the kubelet evicts pods below 10 % of free disk."""

_LEAST_STARTUP_SECONDS = 600
"""github.com/kserve/kserve/issues/5062: a mid-size model alone takes 10 minutes."""


def disk_bytes(weights: int, keep_revisions: int) -> int:
    """Bytes that the weights volume needs. The stager makes no second copy, so no hub cache comes on top."""
    return weights * keep_revisions + round(weights * DISK_MARGIN)


def shared_memory_bytes(gpus: int) -> int:
    """Size of `/dev/shm` for `gpus` GPUs in one pod; a single GPU needs none."""
    return SHARED_MEMORY_PER_GPU * gpus if gpus > 1 else 0


def kept_in_host_memory(request: FitRequest, gpus: int) -> int:
    """Bytes of weights that a pod with `gpus` GPUs keeps in host memory."""
    return round((request.cpu_offload_gb or 0) * GIB) * gpus


def host_memory_bytes(gpus: int, shared: int) -> int:
    """Memory of a pod with `gpus` GPUs, including its `/dev/shm`. The read of the weights also fills the page cache,
    which the kernel reclaims."""
    return BASE_MEMORY + PROCESS_MEMORY_PER_GPU * gpus + shared


def check_disk(request: FitRequest, weights: int) -> Iterator[Finding]:
    """Rejects a volume that is too small for the kept revisions."""
    needed = disk_bytes(weights, request.keep_revisions)
    if request.volume_bytes is not None and request.volume_bytes < needed:
        revisions = f"{request.keep_revisions} revisions" if request.keep_revisions > 1 else "one revision"
        fix = f"Set weights.size to {ceil(needed / GIB)}Gi"
        smallest = disk_bytes(weights, 1)
        if request.keep_revisions > 1 and request.volume_bytes >= smallest:
            fix += ", or weights.keep_revisions to 1"
        yield rejected(
            "disk_too_small",
            f"The weights volume has {request.volume_bytes / 1e9:.1f} GB; {revisions} of {weights / 1e9:.1f} GB and a "
            f"margin of {DISK_MARGIN:.0%} need {needed / 1e9:.1f} GB. The stager keeps no hub cache beside them.",
            f"{fix}.",
        )


def check_instance_disk(request: FitRequest, weights: int) -> Iterator[Finding]:
    """Rejects weights for which the disks of the stack's instance type are too small."""
    if request.instance_type is None or request.deployment is None:
        return
    disks, needed = find_instance(request.instance_type).nvme_bytes, disk_bytes(weights, request.keep_revisions)
    if needed > ALLOCATABLE_SHARE * disks:
        smaller = ", or set weights.keep_revisions to a smaller number" if request.keep_revisions > 1 else ""
        yield rejected(
            "instance_disk_too_small",
            f"The weights volume needs {needed / 1e9:.1f} GB, and pods get at most "
            f"{ALLOCATABLE_SHARE * disks / 1e9:.1f} of the {disks / 1e9:.0f} GB of NVMe of {request.instance_type}.",
            f"Take a type with more{smaller}.",
        )


def check_host(request: FitRequest, gpus_in_pod: int, load_seconds: float) -> Iterator[Finding]:
    """Rejects too little memory, shared memory or start-up time."""
    shared = request.shared_memory_bytes
    if shared is not None and shared < shared_memory_bytes(gpus_in_pod):
        yield warning(
            "shared_memory_small",
            f"Shared memory has {shared / GIB:.1f} GiB; the plan gives "
            f"{shared_memory_bytes(gpus_in_pod) / GIB:.0f} GiB to {gpus_in_pod} GPUs that share tensors.",
        )
    needed = host_memory_bytes(gpus_in_pod, shared if shared is not None else shared_memory_bytes(gpus_in_pod))
    kept = kept_in_host_memory(request, gpus_in_pod)
    needed += kept
    yield from _keeps(request, kept)
    yield from _instance_room(request, needed)
    if request.host_memory_bytes is not None and request.host_memory_bytes < needed:
        yield warning(
            "host_memory_small",
            f"The node or container has {request.host_memory_bytes / GIB:.0f} GiB of memory; {gpus_in_pod} ranks, "
            f"their loading buffers and shared memory need {needed / GIB:.0f} GiB. The kernel may kill the engine "
            "while it loads.",
        )
    if request.startup_seconds is not None and request.startup_seconds < max(load_seconds, _LEAST_STARTUP_SECONDS):
        yield warning(
            "startup_limit_short",
            f"The server has {request.startup_seconds:.0f} s to start; loading takes {load_seconds:.0f} s, and a limit "
            f"below {_LEAST_STARTUP_SECONDS} s ends healthy servers.",
        )


def _instance_room(request: FitRequest, needed: int) -> Iterator[Finding]:
    """A pod that no instance of the stack's type has the memory or the CPUs for: it would stay pending."""
    if request.instance_type is None or request.deployment is None:
        return
    instance = find_instance(request.instance_type)
    if request.deployment.cpus is not None and request.deployment.cpus >= instance.vcpus:
        yield rejected(
            "instance_cpus_too_few",
            f"The server's pods request {request.deployment.cpus} CPUs, and {request.instance_type} has "
            f"{instance.vcpus}, of which the node needs some.",
            f"Set engine.cpus to at most {instance.vcpus - 1}, or take a larger type.",
        )
    memory = instance.memory_bytes
    room, asked = ALLOCATABLE_SHARE * memory, request.host_memory_bytes or needed
    if asked > room:
        yield rejected(
            "instance_memory_too_small",
            f"The server's pods ask for {asked / GIB:.0f} GiB of memory, and pods get at most {room / GIB:.0f} of the "
            f"{memory / GIB:.0f} GiB of {request.instance_type}.",
            f"Set engine.memory to at most {int(room / GIB)}Gi, or take a larger type.",
        )


def _keeps(request: FitRequest, kept: int) -> Iterator[Finding]:
    """Weights in host memory against the memory of the node. A stack's container requests the memory that it needs."""
    given = request.host_memory_bytes
    if not kept:
        return
    if given is None and request.deployment is None:
        text = f"cpu_offload_gb keeps {kept / GIB:.0f} GiB in host memory, and the memory of the node is not stated."
        yield unknown("host_memory_not_known", text, "State the memory of the node.")
    elif given is not None and given < kept:
        yield rejected(
            "host_memory_too_small",
            f"cpu_offload_gb keeps {kept / GIB:.0f} GiB in host memory, and {given / GIB:.0f} are given.",
            "Give more memory, or keep less in it.",
        )
