"""Rules for speculative decoding: by the checkpoint's own layers, or by a draft model.

From vLLM 0.33.0: vllm/config/speculative.py, and the speculators of vllm/v1/worker/gpu/spec_decode.
"""

from __future__ import annotations

from collections.abc import Iterator

from engines.finding import Finding, rejected, unknown
from engines.vllm.resolved_request import ResolvedRequest, can_share
from engines.vllm.rules.layout import uneven_heads


def check_drafting(resolved: ResolvedRequest) -> Iterator[Finding]:
    """Findings about what drafts tokens."""
    if resolved.draft is not None:
        yield from _draft_model(resolved, resolved.draft)
    elif resolved.request.speculative_tokens is not None:
        yield from _own_layers(resolved)


def is_counted(target: ResolvedRequest, draft: ResolvedRequest) -> bool:
    """Whether the memory of a model with its draft model is known."""
    # A speculator gives each token one position, and a model with images may want three.
    text_only = draft.model.shape.vision is None
    known = text_only and not draft.model.unknown and bool(draft.model.groups) and not uneven_heads(draft)
    return known and not _not_counted_with(target) and can_share(target, draft)


def _own_layers(resolved: ResolvedRequest) -> Iterator[Finding]:
    """Layers for multi-token prediction that the model does not have, or that have no formula."""
    if not resolved.model.shape.mtp_layers:
        text = f"{resolved.model.name} has no layer for multi-token prediction, and no draft model is named."
        yield rejected("no_draft_layers", text, "Name a draft model, or leave speculative_tokens out.")
    elif not resolved.drafts:
        text = f"What speculative decoding of {resolved.model.name} takes in this layout is not known."
        yield unknown("drafts_not_known", text, "Leave speculative_tokens out, or measure it on the machine.")


def _draft_model(target: ResolvedRequest, draft: ResolvedRequest) -> Iterator[Finding]:
    """A draft model that vLLM refuses or breaks, or whose memory is not known."""
    name = draft.model.name
    if target.request.speculative_tokens is None:
        yield rejected("no_draft_tokens", f"{name} drafts no token.", "Set speculative_tokens, such as 3.")
    if draft.model.is_gguf:
        yield rejected("draft_is_gguf", f"The draft model {name} is GGUF.", "Name a checkpoint in safetensors.")
        return
    if head := _head(draft):
        text = (
            f"The draft model {name} is {head}, a head that drafts from the hidden states of the model: vLLM may serve "
            "it, but what it takes is not known."
        )
        yield unknown(
            "draft_is_head", text, "Name a whole model with the same vocabulary, or measure it on the machine."
        )
        return
    yield from _vocabulary(target, draft)
    yield from _layout(target, draft)
    for what in draft.model.unknown:
        yield unknown("draft_not_known", f"{name}: the planner does not know {what}.", "Measure it on the machine.")
    if not draft.model.unknown and not uneven_heads(draft) and not is_counted(target, draft):
        beside = " and ".join(_not_counted_with(target))
        text = f"What {name} takes beside {target.model.name}{f' with {beside}' if beside else ''} is not known."
        yield unknown("draft_not_known", text, "Name a draft model of the same family, or measure it on the machine.")


def _head(draft: ResolvedRequest) -> str:
    """The architecture, or the name, of a head that drafts from the target's hidden states. Empty: a whole model.

    The first EAGLE heads name the architecture of a whole model.
    """
    named = [str(each) for each in draft.model.family.config.get("architectures") or ()]
    repository = draft.model.checkpoint.repository.rsplit("/", 1)[-1]
    if "eagle" in repository.lower():
        return repository
    heads = ("eagle", "medusa", "dflash", "dspark", "mtp", "speculator")
    return next((each for each in named if any(head in each.lower() for head in heads)), "")


def _vocabulary(target: ResolvedRequest, draft: ResolvedRequest) -> Iterator[Finding]:
    """vLLM starts with equal sizes only (`verify_equal_vocab_size_if_draft_model`)."""
    own, other = draft.model.shape.vocabulary, target.model.shape.vocabulary
    if own != other:
        yield rejected(
            "draft_vocabulary_differs",
            f"The draft model {draft.model.name} has a vocabulary of {own:,} tokens, and {target.model.name} one of "
            f"{other:,}: vLLM does not start with them.",
            "Name a draft model with the same vocabulary, usually a small one of the same family.",
        )


def _layout(target: ResolvedRequest, draft: ResolvedRequest) -> Iterator[Finding]:
    """The draft model has the ranks of the target."""
    tp = target.layout.tp
    if target.layout.pp > 1:
        yield rejected(
            "draft_over_stages",
            f"With pipeline_parallel {target.layout.pp}, vLLM loads only a part of the layers of the draft model.",
            "Use one pipeline stage, or leave the draft model out.",
        )
    if uneven := uneven_heads(draft):
        yield rejected(
            "heads_not_divisible",
            f"tensor_parallel {tp} and the {uneven} of the draft model {draft.model.name} do not divide one another.",
            "Use another tensor_parallel, or another draft model.",
        )


def _not_counted_with(target: ResolvedRequest) -> list[str]:
    """Settings with which the memory of a draft model is not known."""
    request = target.request
    settings = {
        "decode_context_parallel": target.layout.dcp > 1,
        "prefill_context_parallel": target.layout.pcp > 1,
        "cpu_offload_gb": request.cpu_offload_gb is not None,
        "redundant_experts": request.redundant_experts is not None,
    }
    return [name for name, is_set in settings.items() if is_set]
