"""Checks that a node's GPUs are of the kind that the plan expects, and whole: not shared, partitioned or virtual."""

from collections.abc import Iterator

from components.cluster.facts import NodeFacts
from config.catalogue import Gpu, gpus

_PARTS = ("-SHARED", "-MIG-")
"""Parts of the product label of a time-shared GPU or a MIG slice."""


def gpu_kind_faults(expected: str, gpu: Gpu, node: NodeFacts) -> Iterator[str]:
    """Yields faults of a node's GPUs. A label that the node lacks is not checked."""
    product = node.labels.get(gpu.vendor.product_label)
    marks = [
        f"{label}={value}"
        for label, whole in gpu.vendor.whole_gpu_labels
        if (value := node.labels.get(label)) not in (None, *whole)
    ]
    if product and any(part in product for part in _PARTS):
        marks.insert(0, f"{gpu.vendor.product_label}={product}")
    if marks:
        yield (
            f"has GPUs that are shared or not whole ({', '.join(marks)}): expected whole ones; take the node out of "
            "that sharing, or name another in heavylift:nodes.names"
        )
    elif product and not _is_expected(product, gpu):
        yield f"has GPUs of the kind {product}: expected {expected} (heavylift:nodes.gpu)"


def _is_expected(product: str, gpu: Gpu) -> bool:
    """Whether a product is that GPU. A GPU that the catalogue does not list is none of those that it lists."""
    nearest = _nearest_label(product)
    return nearest in gpu.labels if gpu.labels else nearest is None


def _nearest_label(product: str) -> str | None:
    """Returns the longest label of the catalogue that the product is of: NVIDIA-H20-3e is not an NVIDIA-H20."""
    of = [label for gpu in gpus() for label in gpu.labels if _is_of(product, label)]
    return max(of, key=len, default=None)


def _is_of(product: str, label: str) -> bool:
    """Whether a product is that of the label or a variant: NVIDIA-H200-NVL is an NVIDIA-H200, NVIDIA-H20 is not."""
    return product.startswith(label) and product[len(label) : len(label) + 1] in ("", "-", "_")
