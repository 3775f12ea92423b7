"""The repositories that the hub serves: revisions of files with hashes, by branch, tag or commit."""

import hashlib
from dataclasses import dataclass
from pathlib import PurePosixPath

from lab.hub.stored.content import DiskContent, GeneratedContent, StoredContent, TextContent, whole
from lab.hub.stored.digests import Digests
from lab.hub.stored.git_objects import blob_id, commit_id, lfs_pointer, tree_ids
from lab.hub.stored.table import FileEntry, RepositoryEntry, RevisionEntry, Table

_LFS_ABOVE = 10 << 20
_LFS_SUFFIXES = frozenset({".bin", ".gguf", ".h5", ".onnx", ".pt", ".pth", ".safetensors", ".zip"})
"""Suffixes of files in LFS by default. A new model's `.gitattributes` lists these and more."""


@dataclass(frozen=True)
class StoredFile:
    """A file at one revision."""

    path: str
    content: StoredContent
    blob_id: str
    """Git's blob id of the content, or of the LFS pointer."""
    sha256: str | None
    """Of the content. None: not in LFS."""

    @property
    def size(self) -> int:
        """Length of the content in bytes."""
        return self.content.size

    @property
    def etag(self) -> str:
        """The file's entity tag, with quotes."""
        return f'"{self.sha256 or self.blob_id}"'


@dataclass(frozen=True)
class Revision:
    """The files at one commit."""

    commit: str
    files: dict[str, StoredFile]
    folders: dict[str, str]
    """Git's tree id of each folder by path, without the root."""


@dataclass(frozen=True)
class Repository:
    """A model repository."""

    name: str
    gated: bool
    revisions: dict[str, Revision]
    """By commit."""
    branches: dict[str, str]
    """Commit by branch."""
    tags: dict[str, str]
    """Commit by tag."""

    def revision(self, name: str) -> Revision | None:
        """Returns the revision of a branch, tag or commit. None: no such revision."""
        return self.revisions.get(self.branches.get(name) or self.tags.get(name) or name)


def stored_repositories(table: Table, digests: Digests) -> dict[str, Repository]:
    """Returns all repositories of `table` by name, and computes the hashes that the table lacks."""
    return {name: _repository(name, entry, digests) for name, entry in table.repositories.items()}


def _repository(name: str, entry: RepositoryEntry, digests: Digests) -> Repository:
    pairs = [(revision, _revision(revision, digests)) for revision in entry.revisions]
    return Repository(
        name=name,
        gated=entry.gated,
        revisions={stored.commit: stored for _, stored in pairs},
        branches={branch: stored.commit for said, stored in pairs for branch in said.branches},
        tags={tag: stored.commit for said, stored in pairs for tag in said.tags},
    )


def _revision(entry: RevisionEntry, digests: Digests) -> Revision:
    files = {path: _file(path, entry.files[path], digests) for path in sorted(entry.files)}
    trees = tree_ids({path: file.blob_id for path, file in files.items()})
    commit = entry.commit or commit_id(trees[""])
    return Revision(commit, files, {folder: tree for folder, tree in sorted(trees.items()) if folder})


def _file(path: str, entry: FileEntry, digests: Digests) -> StoredFile:
    content = _content(entry)
    if not _in_lfs(path, entry, content):
        return StoredFile(path, content, blob_id(whole(content), content.size), sha256=None)
    sha256 = _announced_sha256(path, entry, content, digests)
    pointer = lfs_pointer(sha256, content.size)
    return StoredFile(path, content, blob_id([pointer], len(pointer)), sha256)


def _content(entry: FileEntry) -> StoredContent:
    if entry.generate is not None:
        return GeneratedContent(entry.generate.seed, entry.generate.size)
    if entry.disk is not None:
        return DiskContent(entry.disk)
    return TextContent(entry.text or "")


def _in_lfs(path: str, entry: FileEntry, content: StoredContent) -> bool:
    if entry.lfs is not None:
        return entry.lfs
    return entry.sha256 is not None or content.size > _LFS_ABOVE or PurePosixPath(path).suffix.lower() in _LFS_SUFFIXES


def _announced_sha256(path: str, entry: FileEntry, content: StoredContent, digests: Digests) -> str:
    if entry.sha256 == "placeholder":
        return hashlib.sha256(f"placeholder {path} {content.size}".encode()).hexdigest()
    return entry.sha256 or digests.sha256(content)
