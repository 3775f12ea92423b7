"""The editor's schema of a stack file, made from the models.

`python -m config.stack.schema` writes it to docs/stack.schema.json, with docs/configuration.md and
config/stack/arguments.py from the same models. Its top level is Pulumi's own stack file: other namespaces
and Pulumi's own keys are let through, unknown `heavylift:` keys are not.
"""

import json
from pathlib import Path
from typing import Any

from config.stack.file import API_KEY, HUB_TOKEN, NAMESPACE
from config.stack.reference import reference
from config.stack.sections import StackConfig
from config.stack.typed_sections import ARGUMENTS_FILE, arguments_text

_DOCS = Path(__file__).resolve().parents[2] / "docs"
SCHEMA_FILE = _DOCS / "stack.schema.json"
REFERENCE_FILE = _DOCS / "configuration.md"


def _secret(key: str, description: str) -> dict[str, Any]:
    return {
        f"{NAMESPACE}{key}": {
            "description": f"{description}, set with `pulumi config set --secret`.",
            "type": "object",
            "properties": {"secure": {"type": "string"}},
            "required": ["secure"],
            "additionalProperties": False,
        }
    }


_SECRETS = _secret(HUB_TOKEN, "Token of the model hub") | _secret(API_KEY, "API key of the server")


def stack_file_schema() -> dict[str, Any]:
    """The JSON schema (2020-12) of a `Pulumi.<stack>.yaml` file."""
    schema = StackConfig.model_json_schema()
    keys = {f"{NAMESPACE}{name}": _without_null(value) for name, value in schema["properties"].items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Pulumi.<stack>.yaml of heavylift",
        "type": "object",
        "properties": {
            "config": {
                "type": "object",
                "properties": keys | _SECRETS,
                "required": [f"{NAMESPACE}{name}" for name in schema["required"]],
                "patternProperties": {f"^(?!{NAMESPACE})": {}},
                "additionalProperties": False,
            }
        },
        "required": ["config"],
        "$defs": schema["$defs"],
    }


def _without_null(section: dict[str, Any]) -> dict[str, Any]:
    """The schema of a section that may be left out, and not be empty: Pulumi makes an empty one a text."""
    match section:
        case {"anyOf": [described, {"type": "null"}], "description": description}:
            return {**described, "description": description}
        case _:
            return section


def schema_text() -> str:
    """The schema file's content."""
    return json.dumps(stack_file_schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    contents = {SCHEMA_FILE: schema_text(), REFERENCE_FILE: reference(), ARGUMENTS_FILE: arguments_text()}
    for file, text in contents.items():
        file.write_text(text)
        print(f"wrote {file}")
