"""The tag of everything that a stack makes in AWS."""

STACK_TAG = "heavylift"
"""Key of the tag; its value is the name of the stack."""
