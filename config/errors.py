"""Error messages for a stack file: each names the key, the value and what was expected."""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

_HIDDEN_BEYOND = 80


class StackError(Exception):
    """Every fault of one stack file, one line each."""

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = tuple(faults)


def sentences(error: ValidationError, model: type[BaseModel]) -> list[str]:
    """One message for each validation error of `model`, in the order of the file's keys."""
    return [_sentence(fault, model) for fault in error.errors(include_url=False)]


def _sentence(fault: ErrorDetails, model: type[BaseModel]) -> str:
    key, value = key_path(fault["loc"]), _shown(fault["input"])
    match fault["type"]:
        case "missing":
            return f"{key}: is missing: expected {_description(fault, model)}"
        case "extra_forbidden":
            return f"{key}: is not a known key: expected {_alternatives(fault, model)}"
        case "value_error":
            return f"{key}: {value} {fault['ctx']['error']}"
        case "model_type" if fault["input"] in ("", None):
            return f"{key}: is empty: expected {_expectation(fault)}"
        case _:
            return f"{key}: {value} is not valid: expected {_expectation(fault)}"


def _expectation(fault: ErrorDetails) -> str:
    match fault["type"]:
        case "model_type" | "dict_type":
            return "an object, its keys indented below"
        case "sequence_type" | "list_type" | "is_instance_of" | "sequence_str":
            return "a list"
        case "too_short":
            return "at least one entry"
        case "string_type":
            return "text (in quotes where YAML would read a number)"
        case "int_type":
            return "a whole number, without quotes"
        case "float_type":
            return "a number, without quotes"
        case "bool_type":
            return "true or false, without quotes"
        case "greater_than" | "greater_than_equal" | "less_than_equal":
            return "a number " + fault["msg"].removeprefix("Input should be ")
        case _:
            return fault["msg"].removeprefix("Input should be ")


def key_path(location: tuple[int | str, ...]) -> str:
    """`heavylift:nodes.names[0]` for ("nodes", "names", 0)."""
    first, *rest = location or ("",)
    return f"heavylift:{first}" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in rest)


def _shown(value: Any) -> str:
    # As YAML writes it.
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= _HIDDEN_BEYOND else text[:_HIDDEN_BEYOND] + "…"


def _section(location: tuple[int | str, ...], model: type[BaseModel]) -> type[BaseModel]:
    """The model of the object that holds the last key of a location."""
    section = model
    for part in location[:-1]:
        field = _fields(section).get(str(part))
        if field is not None:
            section = next((inner for inner in _classes(field.annotation) if issubclass(inner, BaseModel)), section)
    return section


def _fields(section: type[BaseModel]) -> dict[str, FieldInfo]:
    """The fields by the key that a stack file has for each."""
    return {field.alias or name: field for name, field in section.model_fields.items()}


def _classes(annotation: Any) -> list[type]:
    """The classes in an annotation such as `Sequence[Taint]` or `Fabric | None`."""
    if isinstance(annotation, type) and not get_args(annotation):
        return [annotation]
    return [inner for argument in get_args(annotation) for inner in _classes(argument)]


def _description(fault: ErrorDetails, model: type[BaseModel]) -> str:
    field = _fields(_section(fault["loc"], model)).get(str(fault["loc"][-1]))
    description = " ".join(((field.description if field else None) or "a value").split())
    return description[0].lower() + description[1:].rstrip(".")


def _alternatives(fault: ErrorDetails, model: type[BaseModel]) -> str:
    known = list(_fields(_section(fault["loc"], model)))
    close = get_close_matches(str(fault["loc"][-1]), known, n=1)
    return close[0] if close else f"one of {', '.join(known)}"
