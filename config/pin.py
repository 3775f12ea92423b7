"""Pins a stack: the commit of its model, the digests of its images, and a weights lock.

Asks the model hub and the images' registries, so it runs on a user's machine. Writes nothing unless all of it is known.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import yaml

from config.errors import StackError
from config.image_digest import with_digest
from config.stack.edit import with_keys_of
from config.stack.file import NAMESPACE, read_text, replace_stack_file, sections_of, stack_file
from config.stack.sections import StackConfig, StagedRepository
from stager.errors import StagerError
from stager.listing import Listing
from stager.lock import LOCKS, lock_from_hub
from stager.lockfile import render_lock
from stager.progress import Progress

T = TypeVar("T")

_PINNED = ("model.allow_unpinned", "model.revision", "stage.image", "stage.lock", "engine.image")
_PINNED_DRAFT = ("model.draft", "stage.draft_lock")


@dataclass(frozen=True)
class Pin:
    """What pins a stack."""

    file: Path
    text: str
    """Of the stack file."""
    locks: dict[Path, str]
    """Texts of the lock files: of the model, and of its draft model."""
    values: dict[str, Any]
    """The pinned values by key."""


def pin_of(name: str, program: Path = Path()) -> Pin:
    """Finds what pins a stack. Raises StackError with everything that could not be found."""
    file = stack_file(name, program)
    text = read_text(file)
    stack = StackConfig.parse(sections_of(text, file))
    faults: list[str] = []
    images = {
        key: _found(partial(with_digest, image), faults)
        for key, image in (("stage.image", stack.stage.image), ("engine.image", stack.engine.image))
    }
    draft = stack.model.draft
    listing = _found(partial(_listing, stack.model, "model"), faults)
    of_draft = _found(partial(_listing, draft, "model.draft"), faults) if draft else None
    if faults or listing is None:
        raise StackError(faults)
    lock = LOCKS / _lock_name(listing, stack.model)
    locks = {program / lock: render_lock(listing)}
    values: dict[str, Any] = {"model.revision": listing.commit, "stage.lock": str(lock)}
    values |= {key: image for key, image in images.items() if image is not None}
    if draft and of_draft:
        draft_lock = LOCKS / _lock_name(of_draft, draft)
        locks[program / draft_lock] = render_lock(of_draft)
        pinned = {"repository": draft.repository, "revision": of_draft.commit, "include": list(draft.include)}
        values["model.draft"] = {key: value for key, value in pinned.items() if value}
        values["stage.draft_lock"] = str(draft_lock)
    keys = (*_PINNED, *_PINNED_DRAFT) if draft else _PINNED
    values = {key: values[key] for key in keys if key in values}
    return Pin(file, with_keys_of(text, _as_stack_file(values), keys), locks, values)


def write(pin: Pin) -> None:
    """Writes the locks, then the stack file that names them. Raises StackError if one cannot be written."""
    for lock, text in pin.locks.items():
        try:
            lock.parent.mkdir(exist_ok=True)
            lock.write_text(text, encoding="utf-8")
        except OSError as fault:
            raise StackError([f"{lock}: cannot be written ({fault.strerror})"]) from None
    replace_stack_file(pin.file, pin.text)


def _found(source: Callable[[], T], faults: list[str]) -> T | None:
    """The result of `source`. None: it raised StackError, whose faults are added to `faults`."""
    try:
        return source()
    except StackError as error:
        faults.extend(error.faults)
        return None


def _listing(model: StagedRepository, key: str) -> Listing:
    """The files that the stack stages, with their hashes, as the hub has them now."""
    try:
        with Progress() as progress:
            return lock_from_hub(model.repository, model.revision, model.include, progress, threading.Event())
    except StagerError as error:
        raise StackError([f"{NAMESPACE}{key}: {error}"]) from None


def _lock_name(listing: Listing, model: StagedRepository) -> str:
    """A name of its own for each commit and choice of files, since a promotion carries the name."""
    name = f"{listing.repository.split('/')[-1].lower()}-{listing.commit[:7]}"
    if model.include:
        name += "-" + hashlib.sha256("\n".join(sorted(model.include)).encode()).hexdigest()[:7]
    return f"{name}.lock.json"


def _as_stack_file(values: dict[str, Any]) -> str:
    sections: dict[str, dict[str, Any]] = {}
    for path, value in values.items():
        section, key = path.split(".")
        sections.setdefault(f"{NAMESPACE}{section}", {})[key] = value
    return yaml.safe_dump({"config": sections}, sort_keys=False, width=2**16)
