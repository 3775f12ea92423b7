"""Creates symbolic and hard links in a tree while stagers run. A stager must not change their targets."""

import contextlib
import random
import shutil
import uuid
from pathlib import Path

CONTENT = b"precious"


class Outside:
    """A folder beside the tree, with names that a stager writes, and its expected content."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._second_names = folder.with_name(f"{folder.name}-names")
        self._second_names.mkdir()
        for name in ("manifest.json", "config.json", "users/fuzz", "parts/1/x", "lease.9"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(CONTENT)
        self._names = self._listed()

    def _listed(self) -> list[Path]:
        return sorted(self.folder.rglob("*"))

    @property
    def is_untouched(self) -> bool:
        """Returns whether all names and bytes are unchanged."""
        return self._listed() == self._names and all(
            path.read_bytes() == CONTENT for path in self._names if path.is_file()
        )

    def plant(self, tree: Path, chance: random.Random) -> str:
        """Replaces a file or folder of `tree` by a link to the outside, or gives a file a second name there.

        Returns a description.
        """
        paths = sorted(path for path in tree.rglob("*") if not path.is_symlink())
        if not paths:
            return "no link, the tree is empty"
        if chance.random() < 0.2:
            return self._give_second_name(chance.choice([path for path in paths if path.is_file()] or [None]), tree)
        place = chance.choice(paths)
        hard = chance.random() < 0.3
        with contextlib.suppress(FileNotFoundError, FileExistsError, NotADirectoryError):  # a stager was faster
            if place.is_dir():
                shutil.rmtree(place, ignore_errors=True)
                place.symlink_to(self.folder)
            else:
                place.unlink()
                if hard:
                    place.hardlink_to(self.folder / "manifest.json")
                else:
                    place.symlink_to(self.folder / chance.choice(["manifest.json", "missing"]))
        return f"{'hard' if hard else 'symbolic'} link in the place of {place.relative_to(tree)}"

    def _give_second_name(self, path: Path | None, tree: Path) -> str:
        """As another program could, to change the file after it was verified."""
        if path is None:
            return "no second name, the tree has no file"
        name = self._second_names / uuid.uuid4().hex
        with contextlib.suppress(FileNotFoundError):  # a stager was faster
            name.hardlink_to(path)
        return f"a second name for {path.relative_to(tree)}"


def remove_links(tree: Path) -> None:
    """Removes all symbolic links, as the stager's message asks."""
    for path in [path for path in tree.rglob("*") if path.is_symlink()]:
        path.unlink()
