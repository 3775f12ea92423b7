"""Text from outside (names, values, messages) as it may stand in a comment or on a terminal.

A file name or a message may come from anybody who can open a pull request. Escaped text cannot notify a person, link an
issue, load a picture, leave its table cell or code block, or move the terminal's cursor.
"""

from __future__ import annotations

import re

WORD_JOINER = "\N{WORD JOINER}"
"""Invisible, without a width. GitHub finds `@name` and `#12` in the rendered text, where a backslash does not help."""

_ACTIVE = re.compile(r"[\\`*\[\]<>&|~!]|(?<=\S)\$|(?<![^\W_])_|_(?![^\W_])")
_NOTIFYING = re.compile(r"([@#])")
_LINK = re.compile(r"(?<=:)(?=//)|(?<=www)(?=\.)", re.IGNORECASE)
_URL_USER = re.compile(r"(?<=://)[^/@\s]+(?=@)")
_URL_TOKEN = re.compile(r"([?&][\w-]*(?:token|key|secret|password|signature)[\w-]*=)[^&\s'\"]+", re.IGNORECASE)


def visible(text: str) -> str:
    """One line of printable characters without credentials. Others, such as a line break, are shown as `\\n`."""
    if not text.isprintable():
        text = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
    return without_credentials(text)


def without_credentials(text: str) -> str:
    """The text without user, password and token of the addresses in it."""
    return _URL_TOKEN.sub(r"\1…", _URL_USER.sub("…", text))


def prose(text: str) -> str:
    """Text for a paragraph or table cell in Markdown, to be read as it stands."""
    plain = _ACTIVE.sub(lambda found: "\\" + found[0], visible(text))
    return _LINK.sub("\\\\", _NOTIFYING.sub(rf"\1{WORD_JOINER}", plain))


def code(text: str) -> str:
    """Text as a code span in Markdown. A pipe becomes `│`, since it would end a table cell even in a code span."""
    plain = visible(text).replace("|", "│")
    fence = "`" * (_longest_run(plain) + 1)
    padding = " " if plain.startswith("`") or plain.endswith("`") or not plain.strip() else ""
    return f"{fence}{padding}{plain or ' '}{padding}{fence}"


def code_block(lines: list[str], language: str) -> str:
    """Lines as a fenced code block in Markdown."""
    plain = [visible(line) for line in lines]
    fence = "`" * max(3, 1 + max(map(_longest_run, plain), default=0))
    return "\n".join([f"{fence}{language}", *plain, fence])


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)
