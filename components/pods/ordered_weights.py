"""The list of files that the verifier expects on the volume, from the lock. It is in the verifier's ConfigMap.

The manifest is on the same volume as the weights, so that write access to the volume can change both. The lock comes
from the Pulumi program. Without a lock, the hash of all files comes from the first stage.
"""

from base64 import b64encode
from bz2 import compress

import pulumi

from components.pods.staged_weights import StagedWeights
from stager.errors import StagerError
from stager.listing import Listing, select
from stager.lockfile import parse_lock
from stager.order import ORDERED, files_sha256, ordered_files, ordered_sha256

MOST_BYTES = 600 * 1024
"""Maximum size of the list, because a ConfigMap holds at most 1 MiB. One hash of all lines replaces a longer list."""


def ordered_weights(
    weights: StagedWeights, lock: str | None, first_staged: pulumi.Input[str] | None = None
) -> dict[str, pulumi.Input[str]] | None:
    """Returns the `binary_data` of a ConfigMap: the files of the lock that the stack stages. None: nothing is known.

    Without a lock, it is `first_staged`, the hash of all files that the first stage reported.
    Raises pulumi.RunError if the lock is not valid, or lacks files that the stack includes.
    """
    if lock is None:
        return None if first_staged is None else {ORDERED.name: pulumi.Output.from_input(first_staged).apply(_of_hash)}
    try:
        parsed = parse_lock(lock, "of the weights")
        chosen = select(Listing(parsed.repository, parsed.revision, parsed.commit, parsed.files), weights.model.include)
    except StagerError as fault:
        raise pulumi.RunError(str(fault)) from None
    entries = [(file.path, file.size, str(file.sha256)) for file in chosen.files]
    content = compress(ordered_files(entries).encode())
    if len(content) > MOST_BYTES:
        content = ordered_sha256(files_sha256(entries)).encode()
    return {ORDERED.name: b64encode(content).decode()}


def _of_hash(sha256: str) -> str:
    return b64encode(ordered_sha256(sha256).encode()).decode()
