"""Annotations for strings of a given form: validation, the error message and the pattern in the JSON schema."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema


@dataclass(frozen=True)
class Matching:
    """Metadata for `Annotated[str, Matching(...)]`: the whole text must match `pattern`."""

    pattern: str
    """Regular expression, in the syntax that Python and JavaScript share."""
    expectation: str
    """What the error says after "expected"."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return handler(schema) | {"pattern": f"^(?:{self.pattern})$"}

    def _check(self, text: str) -> str:
        if not re.fullmatch(self.pattern, text):
            raise ValueError(f"is not valid: expected {self.expectation}")
        return text


@dataclass(frozen=True)
class Checking:
    """Metadata for `Annotated[str, Checking(...)]`: a function must accept the text. The JSON schema has no pattern."""

    accepts: Callable[[str], bool]
    expectation: str
    """What the error says after "expected"."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def _check(self, text: str) -> str:
        if not self.accepts(text):
            raise ValueError(f"is not valid: expected {self.expectation}")
        return text
