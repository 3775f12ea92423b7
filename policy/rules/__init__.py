"""Every rule of the pack, in the order of its documentation."""

from policy.rules import access, images, plans, weights

RULES = (*plans.RULES, *weights.RULES, *images.RULES, *access.RULES)
"""All rules."""

__all__ = ["RULES"]
