"""The object ids that git would give: blobs, Git LFS pointers, trees and commits.

The hub names files outside LFS by their blob id and revisions by their commit id, and clients verify the former;
ids made up here would hide a client that verifies nothing. Formats: https://git-scm.com/book/en/v2/Git-Internals-Git-Objects
and https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md
"""

import hashlib
from collections.abc import Iterable, Mapping

_AUTHOR = "heavylift lab <lab@heavylift.invalid> 0 +0000"


def blob_id(pieces: Iterable[bytes | memoryview], size: int) -> str:
    """The id of a blob of `size` bytes."""
    digest = hashlib.sha1(f"blob {size}\0".encode(), usedforsecurity=False)
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def lfs_pointer(sha256: str, size: int) -> bytes:
    """What git stores instead of a file that lies in LFS."""
    return f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {size}\n".encode()


def tree_ids(blobs: Mapping[str, str]) -> dict[str, str]:
    """The id of every folder of a tree, by its path; the root is the empty path.

    `blobs` gives each file's blob id by its path.
    """
    children: dict[str, dict[str, tuple[str, str]]] = {"": {}}
    for path, blob in blobs.items():
        folder, _, name = path.rpartition("/")
        children.setdefault(folder, {})[name] = ("100644", blob)
        while folder:
            folder = folder.rpartition("/")[0]
            children.setdefault(folder, {})
    ids: dict[str, str] = {}
    deepest_first = sorted(children, key=lambda folder: (-folder.count("/") if folder else 1, folder))
    for folder in deepest_first:
        ids[folder] = _tree_id(children[folder])
        if folder:
            parent, _, name = folder.rpartition("/")
            children[parent][name] = ("40000", ids[folder])
    return ids


def _tree_id(entries: Mapping[str, tuple[str, str]]) -> str:
    def git_order(name: str) -> bytes:
        return f"{name}/".encode() if entries[name][0] == "40000" else name.encode()

    body = b"".join(
        f"{entries[name][0]} {name}\0".encode() + bytes.fromhex(entries[name][1])
        for name in sorted(entries, key=git_order)
    )
    return _object_id("tree", body)


def commit_id(tree: str) -> str:
    """The id of a first commit of `tree`, by an author and at a time that never change."""
    return _object_id("commit", f"tree {tree}\nauthor {_AUTHOR}\ncommitter {_AUTHOR}\n\nlab\n".encode())


def _object_id(kind: str, body: bytes) -> str:
    return hashlib.sha1(f"{kind} {len(body)}\0".encode() + body, usedforsecurity=False).hexdigest()
