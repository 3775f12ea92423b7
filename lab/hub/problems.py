"""Validation errors as text, one line per problem: key, expected value, found value."""

from pydantic import ValidationError


def problems(error: ValidationError, *, whole: str) -> list[str]:
    """Returns all problems of `error`. A problem without a key starts with `whole`."""
    return [
        f"{'.'.join(map(str, problem['loc'])) or whole}: {problem['msg']} (found {_short(problem['input'])})"
        for problem in error.errors()
    ]


def _short(found: object) -> str:
    text = repr(found)
    return text if len(text) <= 80 else f"{text[:77]}..."
