"""Runs the stager with random faults of processes, files and sources, and checks the result of each round.

After each round, the quick check refuses the tree, or all of its bytes are right. The next run without faults
completes the tree, and fetches no kept byte again. `python -m tests.fuzz.stager --seed 1 --rounds 1000`: a failed round
prints its number and its steps, and the same seed repeats it.
"""

import argparse
import hashlib
import itertools
import json
import os
import random
import shutil
import signal
import stat
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.hub.client import HubClient, running_hub
from stager.parts import NOTES_SUFFIX
from stager.tree import Tree
from stager.users import mark
from stager.verify import problems
from tests.fuzz.forked import ForkedStager, environment_of_stagers
from tests.fuzz.links import Outside, remove_links
from tests.fuzz.small_blocks import BLOCK_BYTES, LEASE_SECONDS, RECEIVED

COMMIT = "0123456789abcdef0123456789abcdef01234567"
DIGEST, OTHER_DIGEST = "0" * 16, "1" * 16
USER = "fuzz/stack"
STREAMS = 3
KIB = 1024
SIZES = {
    "model-00001-of-00004.safetensors": 3072 * KIB + 17,
    "model-00002-of-00004.safetensors": 1024 * KIB,
    "model-00003-of-00004.safetensors": 64 * KIB,
    "model-00004-of-00004.safetensors": 64 * KIB + 1,
}
TEXTS = {"config.json": '{"model_type": "lab"}\n', "notes/deep.txt": "below a folder\n", "empty.txt": ""}
RUN_SECONDS = 120
UNANSWERED = 75
FREEZES = (LEASE_SECONDS / 3, 1.6 * LEASE_SECONDS)
"""In seconds."""
MOST_AHEAD = (6 * STREAMS + len(SIZES)) * BLOCK_BYTES
"""The most that a run which ends early may have received after the last checkpoints.

A file with N streams is at most 2 N + 3 blocks ahead of its hash, and the hash one block ahead of the checkpoint.
"""
MOST_ATTEMPTS = 10
"""On a busy machine, so short a lease may expire. The Job then starts the stager again."""
LOGS = 8
"""More than there are stagers at once."""
# Done, refused, without an answer or a lease (the Job tries again), stopped, killed, stopped before it could say so.
ENDED = (0, 1, UNANSWERED, 143, -signal.SIGKILL, -signal.SIGTERM)


class Wrong(Exception):
    """The stager did something that it must never do."""


@dataclass
class Round:
    """One round: its random numbers, and its steps for the report."""

    number: int
    chance: random.Random
    done: list[str] = field(default_factory=list)
    checkpoints_hold: bool = True
    links_planted: bool = False
    received: int = 0
    """Bytes from sources, as the last stager that ended normally reported."""

    def note(self, text: str) -> None:
        """Adds a step to the report."""
        self.done.append(text)


class World:
    """The hub, a directory with the same files, and the staged tree."""

    def __init__(self, hub: HubClient, directory: Path) -> None:
        self.hub = hub
        self.mount = directory / "models"
        self.tree = self.mount / DIGEST
        self.share = directory / "share"
        self.lock = directory / "lock.json"
        self._directory = directory
        self._numbers = itertools.count()
        self.outside = Outside(directory / "outside")
        self.truth = {name: self._fetch(name) for name in (*SIZES, *TEXTS)}
        self._write_lock()

    def _fetch(self, name: str) -> bytes:
        url = f"{self.hub.url}/acme/model/resolve/{COMMIT}/{name}"
        with urllib.request.urlopen(url) as answer:
            content: bytes = answer.read()
        return content

    def _write_lock(self) -> None:
        files = [
            {"path": name, "size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            for name, content in sorted(self.truth.items())
        ]
        total = sum(map(len, self.truth.values()))
        lock = {"version": 1, "repository": "acme/model", "revision": COMMIT, "commit": COMMIT, "files": files}
        self.lock.write_text(json.dumps({**lock, "total_bytes": total}))

    def fill_share(self) -> Path:
        """Fills the directory with the right files, and returns their path."""
        place = self.share / "acme/model" / COMMIT
        shutil.rmtree(self.share, ignore_errors=True)
        for name, content in self.truth.items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(content)
        return place

    def start(self, *options: str | Path) -> ForkedStager:
        """Starts a stager on the tree."""
        what = ["stage", "--directory", self.tree, "--repository", "acme/model", "--revision", COMMIT]
        return self._run(*what, "--streams", STREAMS, "--stall-seconds", "0.5", *options)

    def start_pruning(self) -> ForkedStager:
        """Starts `prune` for the same user. It keeps one directory: another one, or the tree if that is complete."""
        other = self.mount / OTHER_DIGEST
        self._write_manifest(other)
        mark(Tree(other), USER)
        return self._run("prune", self.mount, "--keep-newest", "1")

    def _write_manifest(self, directory: Path) -> None:
        manifest = {
            **json.loads(self.lock.read_text()),
            "files": [{"path": "a", "size": 1, "sha256": "0" * 64, "mtime_ns": 0}],
            "total_bytes": 1,
            "completed_at": "2026-01-01T00:00:00+00:00",
        }
        (directory / ".heavylift").mkdir(parents=True, exist_ok=True)
        (directory / ".heavylift/manifest.json").write_text(json.dumps(manifest))

    def _run(self, *arguments: object) -> ForkedStager:
        log = self._directory / f"log.{next(self._numbers) % LOGS}"
        return ForkedStager([*map(str, arguments), "--user", USER], log)

    def is_right(self, name: str) -> bool:
        """Returns whether the file under its own name has the right content."""
        path = self.tree / name
        return path.is_file() and not path.is_symlink() and path.read_bytes() == self.truth[name]

    def to_fetch(self, name: str) -> int:
        """Returns the bytes that the next stager has to fetch; a wrong prefix shows at the end, then all is fetched."""
        truth = self.truth[name]
        if self.is_right(name):
            return 0
        key = hashlib.sha256(name.encode()).hexdigest()[:32]
        parts = sorted(self.tree.glob(f".heavylift/parts/*/{key}"), key=lambda path: int(path.parent.name))
        prefix = verified_prefix(parts[-1]) if parts else b""
        return len(truth) - len(prefix) + (0 if truth.startswith(prefix) else len(truth))


def verified_prefix(part: Path) -> bytes:
    """Returns the bytes of an incomplete file up to its last checkpoint that agrees with them."""
    notes, content, length = part.with_name(part.name + NOTES_SUFFIX), part.read_bytes(), 0
    if not notes.exists():
        return b""
    for line in notes.read_text().splitlines()[1:]:
        offset, sha256 = json.loads(line)
        if len(content) < offset or hashlib.sha256(content[:offset]).hexdigest() != sha256:
            break
        length = offset
    return content[:length]


def random_fault(chance: random.Random) -> dict[str, Any]:
    """Returns a fault of the hub. It happens a limited number of times, so that the round ends."""
    name = chance.choice([*SIZES, *TEXTS])
    path = chance.choice(["*", "/api/*", "/storage/*", "*/resolve/*", f"*{name}*"])
    offset = chance.randrange(max(1, SIZES.get(name, 20)))
    common = {"path": path, "count": chance.randint(1, 4), "after": chance.randint(0, 8)}
    special: list[dict[str, Any]] = [
        {"kind": "status", "status": chance.choice([429, 500, 502, 503, 504])},
        {"kind": "status", "status": 429, "headers": {"Retry-After": "1"}},
        {"kind": "status", "status": chance.choice([401, 403, 404, 410, 416])},
        {"kind": "reset"},
        {"kind": "html"},
        {"kind": "redirect"},
        {"kind": "expire"},
        {"kind": "length", "by": chance.choice([-1, 1, 1000])},
        {"kind": "ignore_range"},
        {"kind": "stall", "offset": offset, "seconds": chance.choice([0.2, 3.0])},
        {"kind": "truncate", "offset": offset},
        {"kind": "reset_body", "offset": offset},
        {"kind": "flip", "offset": offset},
        {"kind": "slow", "bytes_per_second": chance.choice([2e6, 8e6])},
    ]
    return {**common, **chance.choice(special)}


def damage_tree(world: World, this: Round) -> None:
    """Changes the tree as a disk fault, a person or a crash could between two runs."""
    # Through a link, the damage to a file outside would be our own.
    files = sorted(path for path in world.tree.rglob("*") if _is_file_without_other_names(path))
    if not files:
        return
    path = this.chance.choice(files)
    kinds = (_overwrite, _overwrite_secretly, _truncate, _delete, _append, _fill_with_garbage)
    damage = this.chance.choice(kinds)
    damage(path, this.chance)
    this.note(f"damage: {damage.__name__} {path.relative_to(world.tree)}")
    this.checkpoints_hold = False


def _is_file_without_other_names(path: Path) -> bool:
    status = path.lstat()
    return stat.S_ISREG(status.st_mode) and status.st_nlink == 1


def _overwrite(path: Path, chance: random.Random) -> None:
    content = bytearray(path.read_bytes())
    if content:
        content[chance.randrange(len(content))] ^= 0xFF
        with path.open("r+b") as file:
            file.write(content)


def _overwrite_secretly(path: Path, chance: random.Random) -> None:
    before = path.stat()
    _overwrite(path, chance)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _truncate(path: Path, chance: random.Random) -> None:
    os.truncate(path, chance.randint(0, path.stat().st_size))


def _delete(path: Path, _: random.Random) -> None:
    path.unlink()


def _append(path: Path, chance: random.Random) -> None:
    with path.open("ab") as file:
        file.write(chance.randbytes(chance.randint(1, 1000)))


def _fill_with_garbage(path: Path, chance: random.Random) -> None:
    path.write_bytes(chance.randbytes(path.stat().st_size))


def choose_sources(world: World, this: Round) -> list[str | Path]:
    """Returns the options for sources: the hub, with or without a lock, or first a directory with wrong files."""
    if this.chance.random() < 0.5:
        return []
    options: list[str | Path] = ["--lock", world.lock]
    if this.chance.random() < 0.6:
        place = world.fill_share()
        for name in this.chance.sample(sorted(SIZES), this.chance.randint(0, 2)):
            damage = this.chance.choice((_overwrite, _truncate, _delete))
            damage(place / name, this.chance)
            this.note(f"share: {damage.__name__} {name}")
        options += ["--source", world.share, "--source", "hub"]
    this.note(f"options: {' '.join(map(str, options))}")
    return options


def choose_processes(this: Round) -> list[str]:
    """Returns the option for worker processes in one of five runs; to start them takes longer than to stage."""
    if this.chance.random() < 0.8:
        return []
    this.note("two processes")
    return ["--processes", "2"]


def end_at_random(stager: ForkedStager, this: Round) -> None:
    """Lets the stager run, stops it for some time, or ends it with a signal, at a random time."""
    ending = this.chance.choice(["run", "kill", "kill", "kill", "stop", "freeze"])
    if ending != "run":
        delay = this.chance.uniform(0, 0.5)
        this.note(f"{ending} after {delay:.2f} s")
        time.sleep(delay)
    if ending == "freeze":
        stager.send_signal(signal.SIGSTOP)
        time.sleep(this.chance.choice(FREEZES))
        stager.send_signal(signal.SIGCONT)
    elif ending != "run":
        stager.send_signal(signal.SIGKILL if ending == "kill" else signal.SIGTERM)


def plant_link(world: World, this: Round) -> None:
    """Creates a link to the outside in the tree, at a random moment of the run."""
    time.sleep(this.chance.uniform(0, 0.5))
    this.note(world.outside.plant(world.tree, this.chance))
    this.links_planted, this.checkpoints_hold = True, False


def finish(stager: ForkedStager, this: Round) -> int:
    """Waits for the end. Fails if it takes too long, or has another status or a traceback."""
    status, log = stager.wait(RUN_SECONDS), stager.log()
    if status is None:
        stager.send_signal(signal.SIGKILL)
        raise Wrong(f"it hangs:\n{log}")
    lines = log.splitlines() or [""]
    if lines[-1].startswith(RECEIVED):
        this.received = int(lines.pop().removeprefix(RECEIVED))
    this.note(f"status {status}: {lines[-1] if lines else ''}")
    if status not in ENDED or "Traceback" in log:
        raise Wrong(f"it crashed with {status}:\n{log}")
    return status


def require_nothing_wrong_is_accepted(world: World) -> None:
    """Fails if the quick check accepts a wrong byte."""
    if problems(world.tree, repository="acme/model", revision=COMMIT) == []:
        wrong = [name for name in world.truth if not world.is_right(name)]
        if wrong:
            raise Wrong(f"accepted, though wrong: {wrong}")


def require_completion(world: World, this: Round) -> None:
    """Fails if the next run without faults does not complete the tree, or fetches too many bytes again."""
    world.hub.clear_faults()
    if this.links_planted:
        remove_links(world.tree)
    missing = sum(map(world.to_fetch, world.truth)) if this.checkpoints_hold else 0
    status, attempts, received = UNANSWERED, 0, 0
    while status == UNANSWERED and attempts < MOST_ATTEMPTS:
        status = finish(world.start(), this)
        attempts, received = attempts + 1, received + this.received
    if status != 0:
        raise Wrong(f"it did not complete without faults: {status}")
    if found := problems(world.tree, full=True, repository="acme/model", revision=COMMIT):
        raise Wrong(f"complete, but: {found}")
    wrong = [name for name in world.truth if not world.is_right(name)]
    if wrong:
        raise Wrong(f"complete, but wrong: {wrong}")
    linked = [name for name in world.truth if (world.tree / name).stat().st_nlink > 1]
    if linked:
        raise Wrong(f"complete, but these have other names: {linked}")
    left = [path.name for path in world.tree.glob(".heavylift/parts")]
    if left:
        raise Wrong(f"left behind: {left}")
    allowed = missing + (attempts - 1) * MOST_AHEAD
    if this.checkpoints_hold and received > allowed:
        raise Wrong(f"received {received} bytes, {missing} were missing, {allowed} allowed")


def play(world: World, this: Round) -> None:
    """Plays one round."""
    if this.chance.random() < 0.6:
        shutil.rmtree(world.tree, ignore_errors=True)
        this.note("empty tree")
    for _ in range(this.chance.randint(1, 3)):
        if this.chance.random() < 0.3:
            damage_tree(world, this)
        for _ in range(this.chance.randint(0, 3)):
            fault = random_fault(this.chance)
            world.hub.fault(**fault)
            this.note(f"fault: {fault}")
        options = [*choose_sources(world, this), *choose_processes(this)]
        pruning = [world.start_pruning()] if this.chance.random() < 0.25 else []
        stagers = [world.start(*options) for _ in range(this.chance.choice([1, 1, 1, 2]))]
        if this.chance.random() < 0.15:
            plant_link(world, this)
        end_at_random(this.chance.choice([*stagers, *pruning]), this)
        for pruner in pruning:
            this.note("a pruning at the same time")
            finish(pruner, this)
        for stager in stagers:
            if (
                finish(stager, this) == 0
                and not this.links_planted
                and not (world.tree / ".heavylift/manifest.json").exists()
            ):
                raise Wrong("it said that it was done, but there is no manifest")
        require_nothing_wrong_is_accepted(world)
    require_completion(world, this)
    if not world.outside.is_untouched:
        raise Wrong("something outside of the tree was touched")


@contextmanager
def fresh_world() -> Iterator[World]:
    """Yields a hub with one model of a few megabytes."""
    files: Mapping[str, Any] = {
        **{name: {"generate": {"seed": place, "size": size}} for place, (name, size) in enumerate(SIZES.items())},
        **{name: {"text": text} for name, text in TEXTS.items()},
    }
    revision = {"commit": COMMIT, "branches": ["main"], "files": files}
    with (
        tempfile.TemporaryDirectory() as directory,
        running_hub({"repositories": {"acme/model": {"revisions": [revision]}}}) as hub,
        environment_of_stagers({"HF_ENDPOINT": hub.url, "HOME": directory}),
    ):
        yield World(hub, Path(directory))
        hub.close()


def main(play_round: Callable[[World, Round], None] = play) -> int:
    """Plays the rounds. Returns 1 after the first that fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.stager", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=100)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that the hub goes
    began = time.monotonic()
    with fresh_world() as world:
        for number in range(options.rounds):
            this = Round(number, random.Random(f"{options.seed} {number}"))
            try:
                play_round(world, this)
            except Wrong as wrong:
                print(f"seed {options.seed}, round {number}: {wrong}\n" + "\n".join(this.done))
                return 1
            if (number + 1) % 10 == 0 or number + 1 == options.rounds:
                print(f"seed {options.seed}: {number + 1} rounds, {time.monotonic() - began:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
