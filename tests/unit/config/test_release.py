"""What a promotion carries, and how it edits a stack file."""

from pathlib import Path
from typing import get_args

import pytest
import yaml

from config.errors import StackError
from config.release import PLACE, RELEASE, differing_keys
from config.stack.edit import with_keys_of
from config.stack.sections import Section, StackConfig
from tests.program import PROGRAM

FILES = [*sorted(PROGRAM.glob("Pulumi.*.yaml")), *sorted((PROGRAM / "examples").glob("Pulumi.*.yaml"))]


def test_every_key_of_a_stack_is_on_exactly_one_list() -> None:
    keys = {
        f"{section}.{field.alias or name}"
        for section, of_section in StackConfig.model_fields.items()
        for part in (of_section.annotation, *get_args(of_section.annotation))
        if isinstance(part, type) and issubclass(part, Section)
        for name, field in part.model_fields.items()
    }
    assert keys - {*RELEASE, *PLACE} == set(), "add them to RELEASE or PLACE in config/release.py"
    assert {*RELEASE, *PLACE} - keys == set()
    assert set(RELEASE) & set(PLACE) == set()


def test_a_default_that_is_written_out_is_no_difference() -> None:
    sections = {
        "model": {"repository": "acme/model", "revision": "a" * 40},
        "weights": {"kind": "host-path", "path": "/weights"},
        "stage": {"image": "python:3.12-slim"},
        "engine": {"name": "llama.cpp", "version": "b10920", "image": "image"},
    }
    written_out = {**sections, "engine": {**sections["engine"], "enable_prefix_caching": True, "replicas": 2}}
    other = {**sections, "engine": {**sections["engine"], "enable_prefix_caching": False}}
    stack = StackConfig.parse(sections)
    assert differing_keys(stack, StackConfig.parse(written_out)) == []
    assert differing_keys(stack, StackConfig.parse(other)) == ["engine.enable_prefix_caching"]


def values(text: str) -> dict[str, dict[str, object]]:
    config: dict[str, dict[str, object]] = yaml.safe_load(text)["config"]
    return {name.removeprefix("heavylift:"): section for name, section in config.items()}


def comments(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.lstrip().startswith("#")]


@pytest.mark.parametrize("target", FILES, ids=lambda file: file.stem)
def test_a_shipped_stack_takes_the_release_of_another(target: Path) -> None:
    ours = target.read_text()
    for theirs in (FILES[FILES.index(target) - distance].read_text() for distance in (1, 4)):
        written = with_keys_of(ours, theirs, RELEASE)
        for path in [*RELEASE, *PLACE]:
            section, key = path.split(".")
            origin = values(theirs if path in RELEASE else ours)
            assert values(written).get(section, {}).get(key) == origin.get(section, {}).get(key), path
        assert comments(written) == comments(ours)


SOURCE = """\
config:
  heavylift:model:
    repository: acme/new
    include:
      # the small ones
      - "*.json" # and their tables
      - b/*.gguf
  heavylift:stage:
    image: theirs
    lock: weights/new.lock.json
  heavylift:engine:
    name: vllm
    image: 'new@sha256:1'
    environment: {A: "1"}
    extra_args:
      - --one
"""
PATHS = (
    "model.repository",
    "model.include",
    "stage.lock",
    "engine.image",
    "engine.environment",
    "engine.extra_args",
    "engine.quantization",
)


def test_every_other_byte_stays() -> None:
    """Odd but valid layout: no final line end, four columns, comments everywhere, keys of other programs."""
    target = """\
# the head
encryptionsalt: v1:abc   # Pulumi's own

config:
    aws:region:   us-east-1
    heavylift:stage:
        image: ours   # stays
        # below the image
    heavylift:model:   # a section

        # above the repository
        repository:   "acme/old"   # behind it
        # above nothing

    # heading of the engine
    heavylift:engine:
        name: vllm
        quantization: fp8 # goes with its key
        # above the image
        image: old   # behind the image
        tensor_parallel: 8 # ours"""
    assert (
        with_keys_of(target, SOURCE, PATHS)
        == """\
# the head
encryptionsalt: v1:abc   # Pulumi's own

config:
    aws:region:   us-east-1
    heavylift:stage:
        image: ours   # stays
        lock: weights/new.lock.json
        # below the image
    heavylift:model:   # a section

        # above the repository
        repository: acme/new   # behind it
        include:
          # the small ones
          - "*.json" # and their tables
          - b/*.gguf
        # above nothing

    # heading of the engine
    heavylift:engine:
        name: vllm
        # above the image
        image: 'new@sha256:1'   # behind the image
        environment: {A: "1"}
        extra_args:
          - --one
        tensor_parallel: 8 # ours"""
    )


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_line_ends_are_those_of_the_target(line_end: str) -> None:
    target = "config:\n  heavylift:engine:\n    image: old # a\n    name: vllm\n".replace("\n", line_end)
    written = with_keys_of(target, SOURCE, ["engine.image", "engine.extra_args"])
    lines = ["config:", "  heavylift:engine:", "    image: 'new@sha256:1' # a", "    extra_args:", "      - --one"]
    assert written == line_end.join([*lines, "    name: vllm", ""])


def test_a_list_without_indentation_is_replaced_as_a_whole() -> None:
    target = "config:\n  heavylift:model:\n    include:\n    - a\n\n    - b # of b\n    repository: acme/old\n"
    written = with_keys_of(target, SOURCE, ["model.include"])
    assert values(written)["model"] == {"include": ["*.json", "b/*.gguf"], "repository": "acme/old"}
    assert written.endswith("      - b/*.gguf # of b\n    repository: acme/old\n")


@pytest.mark.parametrize(
    "target",
    [
        "config:\n  heavylift:engine: {name: vllm, image: old}\n",
        "config:\n  other:key: &image old\n  heavylift:engine:\n    image: *image\n    name: vllm\n",
        "config:\n  heavylift:engine:\n    image: &image old\n    name: *image\n",
    ],
)
def test_what_cannot_be_edited_alone_is_refused(target: str) -> None:
    with pytest.raises(StackError, match=r"heavylift:engine\.image: .*change it by hand"):
        with_keys_of(target, SOURCE, ["engine.image"])
