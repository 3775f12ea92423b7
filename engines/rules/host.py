"""Rules for disk, host memory, shared memory and start-up time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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


CACHE_BYTES = 20 * GIB
"""What vLLM compiles and tunes, for the old and the new image: our own choice, no log shows more than a few GB."""
COMPILE_SECONDS = "38 to 166"
COMPILE_SOURCE = "github.com/vllm-project/vllm/issues/44881; github.com/mitchross/talos-argocd-proxmox/pull/1848"
"""What vLLM compiles in, which it need not do again: two public logs, each of one model on one machine."""


def disk_bytes(request: FitRequest, weights: int, keep_revisions: int | None = None) -> int:
    """Bytes that the weights volume needs. The stager makes no second copy, so no hub cache comes on top.

    `keep_revisions`: None, as in the request.
    """
    revisions = request.keep_revisions if keep_revisions is None else keep_revisions
    return weights * revisions + round(weights * DISK_MARGIN) + (CACHE_BYTES if request.keep_cache else 0)


def shared_memory_bytes(gpus: int, nodes: int, kv_offload: int = 0) -> int:
    """Size of `/dev/shm` for `gpus` GPUs in each of `nodes` pods and `kv_offload` bytes of KV cache.

    A server of one GPU needs none. The leader of a group shares 160 MiB with its one rank (vLLM 0.32.0 on a CPU).
    """
    return (SHARED_MEMORY_PER_GPU * gpus if gpus * nodes > 1 else 0) + kv_offload


def kept_in_host_memory(request: FitRequest, gpus: int) -> int:
    """Bytes of weights that a pod with `gpus` GPUs keeps in host memory."""
    return round((request.cpu_offload_gb or 0) * GIB) * gpus


def host_memory_bytes(gpus: int, shared: int) -> int:
    """Memory of a pod with `gpus` GPUs, including its `/dev/shm`. The read of the weights also fills the page cache,
    which the kernel reclaims."""
    return BASE_MEMORY + PROCESS_MEMORY_PER_GPU * gpus + shared


def check_disk(request: FitRequest, weights: int) -> Iterator[Finding]:
    """Rejects a volume that is too small for the kept revisions."""
    needed = disk_bytes(request, weights)
    if request.volume_bytes is not None and request.volume_bytes < needed:
        revisions = f"{request.keep_revisions} revisions" if request.keep_revisions > 1 else "one revision"
        fix = f"Set weights.size to {ceil(needed / GIB)}Gi"
        smallest = disk_bytes(request, weights, 1)
        if request.keep_revisions > 1 and request.volume_bytes >= smallest:
            fix += ", or weights.keep_revisions to 1"
        yield rejected(
            "disk_too_small",
            f"The weights volume has {request.volume_bytes / 1e9:.1f} GB; {revisions} of {weights / 1e9:.1f} GB"
            f"{_of_cache(request)} and a margin of {DISK_MARGIN:.0%} need {needed / 1e9:.1f} GB. "
            "The stager keeps no hub cache beside them.",
            f"{fix}.",
        )


def _of_cache(request: FitRequest) -> str:
    return f", {CACHE_BYTES / 1e9:.1f} GB for weights.cache" if request.keep_cache else ""


def check_instance_disk(request: FitRequest, weights: int) -> Iterator[Finding]:
    """Rejects weights for which the disks of the stack's instance type are too small."""
    if request.instance_type is None or request.deployment is None:
        return
    disks, needed = find_instance(request.instance_type).nvme_bytes, disk_bytes(request, weights)
    if needed > ALLOCATABLE_SHARE * disks:
        smaller = ", or set weights.keep_revisions to a smaller number" if request.keep_revisions > 1 else ""
        yield rejected(
            "instance_disk_too_small",
            f"The weights volume needs {needed / 1e9:.1f} GB, and pods get at most "
            f"{ALLOCATABLE_SHARE * disks / 1e9:.1f} of the {disks / 1e9:.0f} GB of NVMe of {request.instance_type}.",
            f"Take a type with more{smaller}.",
        )


def check_host(
    request: FitRequest, gpus_in_pod: int, nodes: int, load_seconds: float, kv_offload: int = 0
) -> Iterator[Finding]:
    """Rejects too little memory, shared memory or start-up time.

    `nodes`: pods of the server. `kv_offload`: bytes of KV cache in shared memory.
    """
    shared, needed_shared = request.shared_memory_bytes, shared_memory_bytes(gpus_in_pod, nodes, kv_offload)
    if shared is not None and shared < kv_offload:
        yield rejected(
            "shared_memory_too_small",
            f"Shared memory has {shared / GIB:.1f} GiB; vLLM does not start unless the {kv_offload / GIB:.1f} GiB of "
            "kv_offload are free in it.",
            "Give more shared memory, or offload less.",
        )
    elif shared is not None and shared < needed_shared:
        yield warning(
            "shared_memory_small",
            f"Shared memory has {shared / GIB:.1f} GiB; the plan gives "
            f"{needed_shared / GIB:.0f} GiB to {gpus_in_pod} GPUs that share tensors.",
        )
    needed = host_memory_bytes(gpus_in_pod, shared if shared is not None else needed_shared)
    kept = kept_in_host_memory(request, gpus_in_pod)
    needed += kept
    yield from _keeps(request, {"cpu_offload_gb": kept, "kv_offload": kv_offload})
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


def _keeps(request: FitRequest, kept_by: Mapping[str, int]) -> Iterator[Finding]:
    """What settings keep in host memory, in bytes, against the memory of the node. A stack's container requests the
    memory that it needs."""
    given, kept = request.host_memory_bytes, sum(kept_by.values())
    if not kept:
        return
    parts = " and ".join(f"{name} keeps {size / GIB:.0f} GiB" for name, size in kept_by.items() if size)
    if given is None and request.deployment is None:
        text = f"{parts} in host memory, and the memory of the node is not stated."
        yield unknown("host_memory_not_known", text, "State the memory of the node.")
    elif given is not None and given < kept:
        yield rejected(
            "host_memory_too_small",
            f"{parts} in host memory, and {given / GIB:.0f} GiB are given.",
            "Give more memory, or keep less in it.",
        )
