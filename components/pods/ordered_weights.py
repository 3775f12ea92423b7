"""What a stack ordered, file by file, for the check before serving: it travels beside the check's program.

The manifest lies beside the weights, so whoever can change one can change both. The lock comes from the program's own
files. Without a lock there is nothing to compare with but the repository and the revision.
"""

from base64 import b64encode
from gzip import compress

import pulumi

from components.pods.staged_weights import StagedWeights
from stager.errors import StagerError
from stager.listing import Listing, select
from stager.lockfile import parse_lock
from stager.verify import ORDERED, files_sha256, ordered_files, ordered_sha256

MOST_BYTES = 600 * 1024
"""Of the list in the ConfigMap, which holds 1 MiB at most; a longer list is given by one hash of all its lines."""


def ordered_weights(weights: StagedWeights, lock: str | None) -> dict[str, str] | None:
    """The `binary_data` of a ConfigMap: those files of the lock that the stack stages; None without a lock.

    Raises pulumi.RunError for what is no lock, or has not what the stack includes.
    """
    if lock is None:
        return None
    try:
        parsed = parse_lock(lock, "of the weights")
        chosen = select(Listing(parsed.repository, parsed.revision, parsed.commit, parsed.files), weights.model.include)
    except StagerError as fault:
        raise pulumi.RunError(str(fault)) from None
    entries = [(file.path, file.size, str(file.sha256)) for file in chosen.files]
    content = compress(ordered_files(entries).encode(), mtime=0)
    if len(content) > MOST_BYTES:
        content = ordered_sha256(files_sha256(entries)).encode()
    return {ORDERED.name: b64encode(content).decode()}
