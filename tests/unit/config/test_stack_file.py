"""A stack file read without Pulumi, with what Pulumi itself writes into one."""

from pathlib import Path

import pytest

from config.errors import StackError
from config.stack.file import read_sections, read_stack_file
from config.stack.overrides import overridden
from config.stack.sections import StackConfig

MINIMAL = """
encryptionsalt: v1:salt
environment: [production]
config:
  aws:region: eu-central-1
  heavylift:model: {repository: a/b, revision: main, allow_unpinned: true}
  heavylift:weights: {kind: claim}
  heavylift:stage: {image: python:3.12-slim}
  heavylift:engine: {name: llama.cpp, version: b1, image: server}
  heavylift:hub_token: {secure: v1:ciphertext}
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "Pulumi.test.yaml"
    path.write_text(text)
    return path


def test_pulumis_own_keys_other_namespaces_and_the_secret_are_let_through(tmp_path: Path) -> None:
    path = written(tmp_path, MINIMAL)
    assert read_stack_file(path).model.repository == "a/b"
    assert sorted(read_sections(path)) == ["engine", "model", "stage", "weights"]


def test_a_token_in_plain_text_is_refused_and_not_repeated(tmp_path: Path) -> None:
    path = written(tmp_path, MINIMAL.replace("{secure: v1:ciphertext}", "hf_plain"))
    with pytest.raises(StackError) as caught:
        read_stack_file(path)
    assert caught.value.faults == ("heavylift:hub_token: is in plain text: set it with `pulumi config set --secret`",)


def test_a_stack_that_does_not_exist_is_refused_with_those_that_do(tmp_path: Path) -> None:
    written(tmp_path, MINIMAL)
    with pytest.raises(StackError, match=r"Pulumi\.prod\.yaml: cannot be read .*; stacks are test"):
        read_stack_file(tmp_path / "Pulumi.prod.yaml")


@pytest.mark.parametrize("text", ["config: [", "- a list", "", "config: text"])
def test_a_file_of_another_shape_is_refused_in_one_line(text: str, tmp_path: Path) -> None:
    with pytest.raises(StackError) as caught:
        read_stack_file(written(tmp_path, text))
    assert len(caught.value.faults) == 1
    assert "\n" not in caught.value.faults[0]


def test_variables_stand_in_for_keys_and_each_is_named() -> None:
    sections, notes = overridden(
        {"stage": {"image": "python:3.12-slim"}},
        {"HEAVYLIFT_STAGE_IMAGE": "mine", "HF_ENDPOINT": "http://hub", "HEAVYLIFT_ENGINE_IMAGE": "", "HOME": "/"},
    )
    assert sections == {"stage": {"image": "mine", "environment": {"HF_ENDPOINT": "http://hub"}}}
    assert notes == [
        "HEAVYLIFT_STAGE_IMAGE overrides heavylift:stage.image: mine",
        "HF_ENDPOINT overrides heavylift:stage.environment.HF_ENDPOINT: http://hub",
    ]


def test_overriding_leaves_what_was_given_unchanged() -> None:
    given = {"stage": {"image": "python:3.12-slim"}}
    overridden(given, {"HEAVYLIFT_STAGE_IMAGE": "mine"})
    assert given == {"stage": {"image": "python:3.12-slim"}}


def test_a_section_that_is_no_object_is_left_for_the_reader_to_refuse() -> None:
    assert overridden({"stage": "text"}, {"HEAVYLIFT_STAGE_IMAGE": "mine"}) == ({"stage": "text"}, [])


@pytest.mark.parametrize("section", StackConfig.model_fields)
@pytest.mark.parametrize("empty", ["", " ~", ' ""'])
def test_an_empty_section_is_refused_as_the_program_refuses_it(section: str, empty: str, tmp_path: Path) -> None:
    """`pulumi stack init` writes `""` for it, and the program gets that text."""
    without = "".join(line for line in MINIMAL.splitlines(keepends=True) if f"heavylift:{section}:" not in line)
    with pytest.raises(StackError) as caught:
        read_stack_file(written(tmp_path, f"{without}  heavylift:{section}:{empty}\n"))
    assert caught.value.faults[0] == f"heavylift:{section}: is empty: expected an object, its keys indented below"


def test_a_key_that_stands_twice_is_refused_with_its_line(tmp_path: Path) -> None:
    """Pulumi refuses such a file; a reader that takes the last value would plan something else."""
    for text, line in (
        (MINIMAL + "  heavylift:weights: {kind: local}\n", 11),
        (MINIMAL.replace("{kind: claim}", "{kind: claim, kind: local}"), 7),
    ):
        with pytest.raises(StackError, match=rf"the key '[\w:]+' is there twice .* line {line}, "):
            read_stack_file(written(tmp_path, text))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ("[" * 3000, "maximum nesting depth"),
        ("[" * 995 + "]" * 995, "nested too deeply"),
        ("&a [*a]", "nested too deeply"),
    ],
)
def test_values_that_are_nested_too_deeply_are_refused(tmp_path: Path, values: str, said: str) -> None:
    text = f"config:\n  heavylift:model: {values}\n"
    with pytest.raises(StackError, match=said):
        read_stack_file(written(tmp_path, text))
