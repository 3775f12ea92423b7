"""The table of repositories, as its file says it: YAML or JSON, checked whole before anything is served.

Refuses unknown keys, files with no or several origins, and names that the hub would refuse.
"""

import re
from pathlib import Path, PurePosixPath
from typing import Annotated

import yaml
from pydantic import (
    BaseModel,
    ByteSize,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from lab.hub.problems import problems

CommitId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
Sha256 = Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{64}|placeholder)$")]

_DIRECTORY = "directory"
"""Key of the validation context: where relative paths start."""

_REPOSITORY_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


class TableError(Exception):
    """The table cannot be served; the message lists every problem."""


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Generated(_Entry):
    """Bytes made on the fly."""

    seed: int
    """Decides the bytes."""
    size: ByteSize
    """Bytes, as a number or with a unit (`4 GiB`)."""


class FileEntry(_Entry):
    """One file: exactly one of `text`, `disk` and `generate`."""

    text: str | None = None
    """The content itself."""
    disk: Path | None = None
    """A file on this machine; a relative path starts at the table's directory."""
    generate: Generated | None = None
    """Content made from a seed."""
    lfs: bool | None = None
    """Whether the file lies in Git LFS. Unset: by its suffix, or because it is larger than 10 MiB."""
    sha256: Sha256 | None = None
    """The hash to announce for a file in LFS. Unset: computed at the first start and kept.

    A given hash is not checked. `placeholder` stands for a hash made from path and size alone: for shapes of which
    only the list is looked at, since their bytes will not match.
    """

    @field_validator("disk")
    @classmethod
    def _is_a_file(cls, disk: Path | None, info: ValidationInfo) -> Path | None:
        if disk is None:
            return None
        absolute: Path = (info.context or {}).get(_DIRECTORY, Path.cwd()) / disk
        if not absolute.is_file():
            raise ValueError(f"expected a file, found none at {absolute}")
        return absolute

    @model_validator(mode="after")
    def _has_one_origin(self) -> "FileEntry":
        origins = [key for key in ("text", "disk", "generate") if getattr(self, key) is not None]
        if len(origins) != 1:
            found = " and ".join(origins) or "none of them"
            raise ValueError(f"expected exactly one of text, disk and generate, found {found}")
        if self.sha256 is not None and self.lfs is False:
            raise ValueError("sha256 is announced for files in LFS only; leave out sha256 or lfs: false")
        return self


class RevisionEntry(_Entry):
    """One commit of a repository."""

    commit: CommitId | None = None
    """40 hexadecimal digits. Unset: the id that git would give."""
    branches: tuple[str, ...] = ()
    """Branches whose head this commit is."""
    tags: tuple[str, ...] = ()
    """Tags on this commit."""
    files: dict[str, FileEntry]
    """Files by their path in the repository."""

    @model_validator(mode="after")
    def _paths_make_a_tree(self) -> "RevisionEntry":
        if not self.files:
            raise ValueError("expected at least one file")
        wrong = [path for path in self.files if not _is_inside(path)]
        if wrong:
            raise ValueError(f"expected paths relative to the repository, found {', '.join(wrong)}")
        folders = {str(folder) for path in self.files for folder in PurePosixPath(path).parents}
        if both := sorted(folders & self.files.keys()):
            raise ValueError(f"expected each path to be a file or a folder, found both: {', '.join(both)}")
        return self


class RepositoryEntry(_Entry):
    """One model repository."""

    gated: bool = False
    """Whether its files need a token that lists this repository."""
    revisions: tuple[RevisionEntry, ...]
    """Its commits, in any order; the branch `main` must be the head of one."""

    @model_validator(mode="after")
    def _references_are_unique(self) -> "RepositoryEntry":
        names = [name for revision in self.revisions for name in (*revision.branches, *revision.tags)]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"each branch or tag names one commit, found twice: {', '.join(twice)}")
        if not any("main" in revision.branches for revision in self.revisions):
            raise ValueError("expected one revision with `branches: [main]`")
        return self


class TokenEntry(_Entry):
    """A bearer token that the hub knows."""

    token: str
    """What the client sends."""
    user: str
    """The name that `whoami` answers."""
    gated: tuple[str, ...] = ()
    """The gated repositories that it may read."""


class Table(_Entry):
    """All that a hub serves."""

    repositories: dict[str, RepositoryEntry] = Field(default_factory=dict)
    """Repositories by `owner/name`."""
    tokens: tuple[TokenEntry, ...] = ()
    """The tokens that are valid; any other is refused."""

    @model_validator(mode="after")
    def _names_are_known(self) -> "Table":
        wrong = [name for name in self.repositories if not _REPOSITORY_NAME.fullmatch(name)]
        if wrong:
            raise ValueError(f"expected repositories named owner/name, found {', '.join(wrong)}")
        gated = {name for name, entry in self.repositories.items() if entry.gated}
        unknown = sorted({name for token in self.tokens for name in token.gated} - gated)
        if unknown:
            raise ValueError(f"tokens may list gated repositories of this table only, found {', '.join(unknown)}")
        return self


def read_table(path: Path) -> Table:
    """The table in `path`.

    Raises:
        TableError: the file cannot be read, is neither YAML nor JSON, or says something that cannot be served.
    """
    try:
        said = yaml.safe_load(path.read_text())
    except OSError as error:
        raise TableError(f"{path}: cannot be read ({error.strerror}); give the table with --repositories") from error
    except yaml.YAMLError as error:
        raise TableError(f"{path}: neither YAML nor JSON: {error}") from error
    try:
        return Table.model_validate(said, context={_DIRECTORY: path.parent.absolute()})
    except ValidationError as error:
        raise TableError(f"{path}: " + "; ".join(problems(error, whole="table"))) from error


def _is_inside(path: str) -> bool:
    pure = PurePosixPath(path)
    return path == str(pure) and path != "." and not pure.is_absolute() and ".." not in pure.parts
