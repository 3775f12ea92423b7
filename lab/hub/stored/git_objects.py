"""Git's object ids of blobs, Git LFS pointers, trees and commits.

The hub identifies files outside LFS by blob id, which clients verify, and revisions by commit id. With made-up ids, a
client that does not verify would pass its tests. Formats: https://git-scm.com/book/en/v2/Git-Internals-Git-Objects
and https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md
"""

import hashlib
from collections.abc import Iterable, Mapping

_AUTHOR = "heavylift lab <lab@heavylift.invalid> 0 +0000"


def blob_id(pieces: Iterable[bytes | memoryview], size: int) -> str:
    """Returns the id of a blob of `size` bytes."""
    digest = hashlib.sha1(f"blob {size}\0".encode(), usedforsecurity=False)
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def lfs_pointer(sha256: str, size: int) -> bytes:
    """Returns the pointer that git stores for a file in LFS."""
    return f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {size}\n".encode()


def tree_ids(blobs: Mapping[str, str]) -> dict[str, str]:
    """Returns the id of each folder of a tree, by path. The root is the empty path.

    `blobs` has each file's blob id by path.
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
    """Returns the id of an initial commit of `tree`, with a constant author and time."""
    return _object_id("commit", f"tree {tree}\nauthor {_AUTHOR}\ncommitter {_AUTHOR}\n\nlab\n".encode())


def _object_id(kind: str, body: bytes) -> str:
    return hashlib.sha1(f"{kind} {len(body)}\0".encode() + body, usedforsecurity=False).hexdigest()
