"""Warnings about a stack that do not depend on the cluster or the plan."""

from collections.abc import Iterator

from components.pods.security import PodSecurity
from config.catalogue import VendorName, described_gpu
from config.stack.sections import StackConfig, WeightsKind


def stack_warnings(stack: StackConfig) -> Iterator[str]:
    """Yields one warning for all images without a digest, and one for AMD GPUs that the server may not open."""
    images = {"engine.image": stack.engine.image, "stage.image": stack.stage.image}
    if by_tag := [f"{key} {image}" for key, image in images.items() if "@" not in image]:
        yield (
            f"images without a digest may be other images tomorrow: {', '.join(by_tag)}; "
            "`python -m config pin STACK` writes the digests into the stack file"
        )
    amd = stack.nodes.gpu is not None and described_gpu(stack.nodes.gpu).vendor.name is VendorName.AMD
    if amd and stack.security.group is None and PodSecurity.of_server(stack.security).is_restricted:
        user = ", and heavylift:security.user too" if stack.weights.kind is WeightsKind.HOST_PATH else ""
        yield (
            "the server runs without root, and on some nodes the devices of AMD GPUs (/dev/kfd, /dev/dri) belong to "
            "the group render: if so, set heavylift:security.group to its number there (`getent group render`)" + user
        )
