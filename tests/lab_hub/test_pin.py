"""`python -m config pin`: the commit and the lock from the lab's hub, the digests from a double of a registry."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from config.errors import StackError
from config.image_digest import with_digest
from lab.hub.client import HubClient
from tests.lab_hub.conftest import PINNED
from tests.lab_hub.registry_double import DIGEST, registry
from tests.program import PROGRAM

STACK = """\
# a stack of these tests
config:
  heavylift:model:
    repository: acme/generated
    allow_unpinned: true
    revision: old # pin before use
    include: [config.json]
  heavylift:weights:
    kind: host-path
    path: /var/lib/weights
  heavylift:stage:
    image: REGISTRY/stage:v1
  heavylift:engine:
    name: llama.cpp
    version: b10920
    image: REGISTRY/team/engine:v1
"""


@pytest.fixture(scope="module")
def host() -> Iterator[str]:
    with registry() as address:
        yield address


@pytest.fixture
def program(tmp_path: Path, host: str) -> Path:
    (tmp_path / "Pulumi.test.yaml").write_text(STACK.replace("REGISTRY", host))
    return tmp_path


def pin(program: Path, hub: HubClient, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HF_ENDPOINT": hub.url, "PYTHONPATH": str(PROGRAM), "HF_HOME": str(program / "home")}
    command = [sys.executable, "-m", "config", "pin", "test", *arguments]
    return subprocess.run(command, cwd=program, env=environment, capture_output=True, text=True, check=False)


def test_a_pinned_stack_names_commit_digests_and_lock(program: Path, hub: HubClient, host: str) -> None:
    ended = pin(program, hub)
    assert ended.returncode == 0, ended.stderr
    [lock] = (program / "weights").glob(f"generated-{PINNED[:7]}-*.lock.json")
    assert (program / "Pulumi.test.yaml").read_text() == (
        STACK.replace("REGISTRY", host)
        .replace("    allow_unpinned: true\n", "")
        .replace("revision: old", f"revision: {PINNED}")
        .replace("stage:v1", f"stage:v1@{DIGEST}\n    lock: weights/{lock.name}")
        .replace("engine:v1", f"engine:v1@{DIGEST}")
    )
    listed = json.loads(lock.read_text())
    assert listed["commit"] == PINNED
    assert sorted(file["path"] for file in listed["files"]) == ["config.json"]


def test_a_pinned_stack_stays_as_it_is(program: Path, hub: HubClient) -> None:
    assert pin(program, hub).returncode == 0
    before = (program / "Pulumi.test.yaml").read_text()
    assert pin(program, hub).returncode == 0
    assert (program / "Pulumi.test.yaml").read_text() == before


def test_a_dry_run_writes_nothing(program: Path, hub: HubClient) -> None:
    before = (program / "Pulumi.test.yaml").read_text()
    ended = pin(program, hub, "--dry-run")
    assert ended.returncode == 0, ended.stderr
    assert PINNED in ended.stdout
    assert (program / "Pulumi.test.yaml").read_text() == before
    assert not (program / "weights").exists()


def test_everything_that_cannot_be_found_is_named_at_once(program: Path, hub: HubClient) -> None:
    file = program / "Pulumi.test.yaml"
    file.write_text(file.read_text().replace("acme/generated", "acme/none").replace("stage:v1", "stage:v9"))
    before = file.read_text()
    ended = pin(program, hub)
    assert ended.returncode == 1
    assert "answers 404: correct the name or the tag" in ended.stderr
    assert "heavylift:model: " in ended.stderr
    assert "acme/none" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert file.read_text() == before


@pytest.mark.parametrize(
    ("image", "message"),
    [
        ("HOST/team/private:v1", "asks for a login"),
        ("HOST/altered:v1", "its manifest has"),
        ("HOST/engine:v2", "answers 404"),
        ("127.0.0.1:9/engine:v1", "cannot be reached"),
        ("a:b:c", "is no image's name"),
    ],
)
def test_a_registry_that_does_not_say_is_an_error(image: str, message: str, host: str) -> None:
    with pytest.raises(StackError, match=message):
        with_digest(image.replace("HOST", host))


def test_an_image_with_a_digest_is_asked_of_nobody() -> None:
    assert with_digest(f"127.0.0.1:9/engine@{DIGEST}") == f"127.0.0.1:9/engine@{DIGEST}"
