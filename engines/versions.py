"""Comparable engine versions, such as `0.19.1rc`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True, order=True)
class Version:
    """A release: major, minor and patch; suffixes (`rc1`, `.post1`) are ignored."""

    major: int
    minor: int
    patch: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """The version in `0.33.0`, `v0.33` or `0.19.1rc`. Raises ValueError for anything else."""
        match = re.match(r"v?(\d+)\.(\d+)(?:\.(\d+))?", text)
        if match is None:
            raise ValueError(f"{text!r} is not a version: expected numbers such as 0.33.0")
        return cls(*(int(part or 0) for part in match.groups()))

    @property
    def release(self) -> str:
        """Major and minor version, such as `0.33`."""
        return f"{self.major}.{self.minor}"

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


def expected_release(version: str, example: str) -> str:
    """Returns what a version must look like, such as "a release such as 0.33.0"; empty if it is a version."""
    try:
        Version.parse(version)
    except ValueError:
        return f"a release such as {example}"
    return ""
