"""`heavylift:model` and `heavylift:weights`: what is served, and the volume that holds it."""

from collections.abc import Sequence
from enum import StrEnum

from pydantic import StrictBool, ValidationInfo, field_validator

from config.bandwidth import Bandwidth
from config.quantity import Quantity
from config.stack.sections.fields import AbsolutePath, Count, Repository, Section, Text
from stager.listing import FULL_COMMIT


class StagedRepository(Section):
    """Weights to stage: one repository at one revision."""

    repository: Repository
    """Repository on the model hub, such as `moonshotai/Kimi-K2.5`."""
    allow_unpinned: StrictBool = False
    """Accept a branch as revision. A branch can stage different weights on different days."""
    revision: Text
    """Full commit of the repository (40 hex digits), or a branch where `allow_unpinned` is true."""
    include: Sequence[Text] = ()
    """Patterns of the files to stage, such as `UD-Q2_K_XL/*.gguf`; unset: all files."""

    @field_validator("revision")
    @classmethod
    def _is_pinned(cls, revision: str, info: ValidationInfo) -> str:
        if info.data.get("allow_unpinned") is False and not FULL_COMMIT.fullmatch(revision):
            raise ValueError("is not a full commit: expected 40 hex digits, or set allow_unpinned: true")
        return revision


class Model(StagedRepository):
    """The weights: one repository at one revision."""

    draft: StagedRepository | None = None
    """A small model that drafts tokens, which the served model verifies (speculative decoding), staged and verified as
    the model is. Needs `engine.speculative_tokens`. Unset: none."""


class WeightsKind(StrEnum):
    """Kind of volume for the weights."""

    LOCAL = "local"
    HOST_PATH = "host-path"
    CLAIM = "claim"


class Verification(StrEnum):
    """How much of the weights the verifier reads before each start of the server."""

    QUICK = "quick"
    FULL = "full"


class Weights(Section):
    """The volume of the weights."""

    kind: WeightsKind
    """`local`: a PersistentVolume on each node's disk, for nodes with names. `host-path`: a directory of each node.
    `claim`: a PersistentVolumeClaim from a storage class."""
    path: AbsolutePath | None = None
    """Directory on the nodes for `local` and `host-path`; unset: nodes.nvme_path."""
    storage_class: Text | None = None
    """Storage class for `claim`; unset: the cluster's default."""
    size: Quantity | None = None
    """Size of the volume, fixed at its creation; unset: derived from what is staged."""
    keep_revisions: Count = 2
    """Number of revisions for which the volume has room."""
    keep_newest: Count | None = None
    """Number of this stack's revisions to keep on the volume after a new one serves, including that one. Less than
    `keep_revisions`, because the next revision needs room beside them. Unset: nothing is removed."""
    retain: StrictBool = True
    """Keep the volume when the stack is destroyed."""
    cache: StrictBool = False
    """Keep what vLLM compiles and tunes at its start in a directory beside the weights, so that the next start with the
    same image need not. Takes 20 GiB of the volume. A release of another image makes a directory of its own, and
    `keep_newest` removes the old one. For vLLM only."""
    verify: Verification = Verification.QUICK
    """`quick`: small files by hash, large ones by size and times. `full`: every byte, at every start."""
    read_bandwidth: Bandwidth | None = None
    """Speed at which a node reads its weights, such as `400 MB/s` for shared storage. Determines the time limits of the
    server's start. Unset: 2 GB/s, the speed of a local NVMe disk."""

    @field_validator("keep_newest")
    @classmethod
    def _leaves_room(cls, keep_newest: int | None, info: ValidationInfo) -> int | None:
        room = info.data.get("keep_revisions")
        if keep_newest is not None and room is not None and keep_newest >= room:
            raise ValueError(
                f"leaves no room for the next revision with heavylift:weights.keep_revisions {room}: expected fewer; "
                f"lower it, or raise keep_revisions to {keep_newest + 1}, for which the volume must be larger"
            )
        return keep_newest

    @field_validator("retain")
    @classmethod
    def _can_be_deleted(cls, retain: bool, info: ValidationInfo) -> bool:
        kind = info.data.get("kind")
        if not retain and kind in (WeightsKind.LOCAL, WeightsKind.HOST_PATH):
            raise ValueError(f"has no meaning for kind {kind}: a node's files are never deleted; leave it out")
        return retain

    @field_validator("storage_class")
    @classmethod
    def _has_a_class(cls, storage_class: str | None, info: ValidationInfo) -> str | None:
        if storage_class is not None and info.data.get("kind") not in (WeightsKind.CLAIM, None):
            raise ValueError(f"has no meaning for kind {info.data['kind']}: expected it with kind claim only")
        return storage_class
