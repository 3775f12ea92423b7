"""Promotion's edit on random layouts: comments, blank lines, columns, kinds of lists and line ends."""

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from config.errors import StackError
from config.stack.edit import with_keys_of

RELEASE, PLACE = ("image", "version", "extra_args", "environment"), ("cpus", "memory", "replicas")
PATHS = tuple(f"engine.{key}" for key in RELEASE)
SCALARS = ("plain", '"quoted: # no comment"', "'single'", "580", '"580"', "a#b", "null", "")
FAR_RIGHT = "      # far to the right"
FILLERS = ("", "# a comment", FAR_RIGHT, "# looks: like a key", "#")


@st.composite
def entry(draw: st.DrawFn, key: str, column: int) -> list[str]:
    """The lines of one key: a scalar, a list of either kind, or an object."""
    indent = " " * column
    # A block of text cannot stand before the comment of the line that it replaces: that is refused.
    kind = draw(st.sampled_from(("scalar", "list", "flow", "object", *(["text"] if key in PLACE else []))))
    deeper = indent + " " * draw(st.integers(1, 4))
    behind = draw(st.sampled_from(("", " # behind")))
    match kind:
        case "list":
            dash = draw(st.sampled_from((indent, deeper)))
            return [f"{indent}{key}:{behind}", f"{dash}- one", f"{dash}# within", f"{dash}- two"]
        case "flow":
            return [f"{indent}{key}: [a, 'b, c',", f"{deeper}d]{behind}"]
        case "object":
            return [f"{indent}{key}:{behind}", f"{deeper}A: b", "", f"{deeper}C: d"]
        case "text":
            return [f"{indent}{key}: |", f"{deeper}first", f"{deeper}  second"]
        case _:
            return [f"{indent}{key}: {draw(st.sampled_from(SCALARS))}{behind}"]


@st.composite
def stack(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A file, and those of its lines that no promotion may touch."""
    column = draw(st.integers(1, 4))
    inner = column + draw(st.integers(1, 4))
    keys = draw(st.permutations([*draw(st.sets(st.sampled_from(RELEASE))), *PLACE]))
    lines = ["# head", "config:", f"{' ' * column}other:key: value", f"{' ' * column}heavylift:engine: # the engine"]
    kept = list(lines)
    text_before, removed_before = False, False
    for number, key in enumerate(keys):
        # A comment would join a block of text once the keys between them go: that is refused.
        possible = [filler for filler in FILLERS if filler != FAR_RIGHT or not (text_before and removed_before)]
        fillers = draw(st.lists(st.sampled_from(possible), max_size=2))
        marked = [f"{filler} {number}" if filler else "" for filler in fillers]
        written = draw(entry(key, inner))
        lines += [*marked, *written]
        kept += [*filter(None, marked), *(filter(None, written) if key in PLACE else ())]
        removed_before = key in RELEASE
        if key in PLACE:
            text_before = written[0].endswith("|")
    after = [f"{' ' * column}heavylift:model: # the model", f"{' ' * inner}revision: main", "# tail"]
    line_end = draw(st.sampled_from(("\n", "\r\n")))
    last = draw(st.sampled_from((line_end, "")))
    return line_end.join([*lines, *after]) + last, [*kept, *after]


def is_in_order(wanted: list[str], lines: list[str]) -> bool:
    remaining = iter(lines)
    return all(line in remaining for line in wanted)


def test_a_comment_that_would_join_a_block_of_text_is_refused() -> None:
    text = "config:\n heavylift:engine:\n  cpus: |\n   first\n  image: plain\n      # far to the right\n  memory: 1\n"
    source = "config:\n heavylift:engine:\n  cpus: 1\n  memory: 1\n"
    with pytest.raises(StackError, match=r"heavylift:engine\.image: .* blocks of text; change it by hand"):
        with_keys_of(text, source, PATHS)


@settings(deadline=None, max_examples=60)
@given(stack(), stack())
def test_other_lines_stay_and_the_keys_are_the_source_s(
    ours: tuple[str, list[str]], theirs: tuple[str, list[str]]
) -> None:
    (text, kept), (source, _) = ours, theirs
    written = with_keys_of(text, source, PATHS)
    assert is_in_order(kept, written.splitlines())
    assert ("\r\n" in written) == ("\r\n" in text)
    assert "\n" not in written.replace("\r\n", "") or "\r\n" not in written
    new, old, other = (yaml.safe_load(each)["config"] for each in (written, text, source))
    assert {key: new["heavylift:engine"].get(key, ...) for key in RELEASE} == {
        key: other["heavylift:engine"].get(key, ...) for key in RELEASE
    }
    assert {key: new["heavylift:engine"][key] for key in PLACE} == {key: old["heavylift:engine"][key] for key in PLACE}
    assert new["heavylift:model"] == old["heavylift:model"]
    assert with_keys_of(written, source, PATHS) == written
