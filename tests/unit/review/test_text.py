"""Names and messages from outside, rendered by GitHub's own Markdown renderer (cmark-gfm)."""

import html
import re

import cmarkgfm
import pytest
from cmarkgfm.cmark import Options
from hypothesis import example, given, settings
from hypothesis import strategies as st

from review.text import WORD_JOINER, code, code_block, prose, visible, without_credentials

ACTIVE = st.text(st.sampled_from("`*_[]()<>!&|\\~@#:/.$\n\r\t -+=wa1'\"\u202e\udcff") | st.characters(), max_size=60)
NAMES = (
    "a|b",
    "a\\|b",
    "`",
    "``` ``",
    "<img src=x onerror=alert(1)>",
    "[x](https://example.com)",
    "![x](https://example.com/x.png)",
    "@team",
    "#1",
    "https://example.com",
    "www.example.com",
    "a@example.com",
    "</details>",
    "&lt;b&gt; &#64;",
    "__init__ snake_case _x_ **b** ~~s~~",
    "one\n\n# two",
)


def rendered(markdown: str) -> str:
    return str(cmarkgfm.github_flavored_markdown_to_html(markdown, options=Options.CMARK_OPT_UNSAFE))


def text_of(fragment: str) -> str:
    return html.unescape(re.sub(r"<[^>]*>", "", fragment)).strip()


def tags_of(fragment: str) -> set[str]:
    return set(re.findall(r"</?([a-z0-9]+)", fragment))


def assert_read_as_it_stands(outside: str) -> None:
    fragment = rendered(f"It says {prose(outside)}.")
    assert tags_of(fragment) == {"p"}
    assert text_of(fragment).replace(WORD_JOINER, "") == f"It says {visible(outside)}.".replace(WORD_JOINER, "")


@pytest.mark.parametrize("name", NAMES)
def test_a_hostile_name_is_read_as_it_stands(name: str) -> None:
    assert_read_as_it_stands(name)


@settings(deadline=None)
@given(ACTIVE)
def test_prose_is_read_as_it_stands(text: str) -> None:
    assert_read_as_it_stands(text)


@settings(deadline=None)
@given(ACTIVE)
@example("a\\|b")
def test_prose_keeps_to_its_table_cell(text: str) -> None:
    fragment = rendered(f"| a | b |\n|--|--|\n| {prose(text)} | last |")
    assert tags_of(fragment) == {"table", "thead", "tbody", "tr", "th", "td"}
    assert "<td>last</td>" in fragment


@settings(deadline=None)
@given(ACTIVE)
def test_a_code_span_shows_the_name(text: str) -> None:
    for markdown in (f"### {code(text)} fits", f"| a | b |\n|--|--|\n| {code(text)} | last |"):
        fragment = rendered(markdown)
        assert tags_of(fragment) <= {"h3", "code", "table", "thead", "tbody", "tr", "th", "td"}
        (shown,) = re.findall(r"<code>(.*?)</code>", fragment, re.DOTALL)
        assert html.unescape(shown).strip() == visible(text).replace("|", "│").strip()


@settings(deadline=None)
@given(st.lists(ACTIVE, min_size=1, max_size=3))
def test_a_code_block_ends_where_it_should(lines: list[str]) -> None:
    fragment = rendered(code_block([f"+ {line}" for line in lines], "diff") + "\n\nlast")
    assert tags_of(fragment) == {"pre", "code", "p"}
    assert fragment.rstrip().endswith("<p>last</p>")


@pytest.mark.parametrize("name", ["@team", "see @octo-org/team", "#12", "octo/repo#12", "a@example.com"])
def test_nobody_is_notified_and_no_issue_is_linked(name: str) -> None:
    """GitHub looks for `@name` and `#12` in the text of the rendered page, but not in code."""
    text = text_of(rendered(prose(name)))
    assert not re.search(r"@\w|#\d", text)
    assert "<code>" in rendered(code(name))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://user:password@mirror.example/x", "https://…@mirror.example/x"),
        ("https://mirror.example/x?a=1&X-Amz-Signature=abc&b=2", "https://mirror.example/x?a=1&X-Amz-Signature=…&b=2"),
        ("https://mirror.example/x?token=abc", "https://mirror.example/x?token=…"),
        ("10 tokens: 5", "10 tokens: 5"),
    ],
)
def test_addresses_lose_their_credentials(text: str, shown: str) -> None:
    assert without_credentials(text) == shown


def test_control_characters_are_shown() -> None:
    assert visible("a\x1b[31m\n\u202eb\udcff") == "a\\x1b[31m\\n\\u202eb\\udcff"
