"""What the program asks before it makes a resource: may the stack take this release?"""

import pulumi

from config.stack.from_pulumi import RunningStack
from promotion.history import EngineRecords
from promotion.proof import Proof, Release, proof_of

_OF_FILE_BACKENDS = "organization"
"""The organization of every stack on a backend without organizations."""


def admit_release(stack: RunningStack) -> None:
    """Says where the release ran before. If it did not prove itself, warns in a preview or if the stack allows it.

    Raises pulumi.RunError with every reason if `up` must not take the release.
    """
    release = Release.of(stack.instance, stack.config, stack.lock, stack.draft_lock)
    organization = pulumi.get_organization()
    prefix = "" if organization == _OF_FILE_BACKENDS else f"{organization}/{pulumi.get_project()}/"
    proof = proof_of(release, EngineRecords(), prefix)
    if proof is None:
        return
    if not proof.reasons:
        pulumi.info(f"release: {proof.evidence}")
    elif proof.allowed:
        pulumi.warn(_message(release, proof, "heavylift:promotion.allow_unproven lets it through"))
    elif pulumi.runtime.is_dry_run():
        pulumi.warn(_message(release, proof, "`pulumi up` will refuse it"))
    else:
        raise pulumi.RunError(_message(release, proof, "nothing was created"))


def _message(release: Release, proof: Proof, outcome: str) -> str:
    source = release.config.promotion.source
    advice = (
        [] if proof.allowed else [f"take {source} up with it first, or set heavylift:promotion.allow_unproven: true"]
    )
    return "\n  ".join([f"the release is not proven for {release.stack}, {outcome}:", *proof.reasons, *advice])
