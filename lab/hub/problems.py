"""What is wrong with an input, one line per problem: the key, what was expected, and what was found."""

from pydantic import ValidationError


def problems(error: ValidationError, *, whole: str) -> list[str]:
    """All problems of `error`; those that concern no key are named after the `whole`."""
    return [
        f"{'.'.join(map(str, problem['loc'])) or whole}: {problem['msg']} (found {_short(problem['input'])})"
        for problem in error.errors()
    ]


def _short(found: object) -> str:
    text = repr(found)
    return text if len(text) <= 80 else f"{text[:77]}..."
