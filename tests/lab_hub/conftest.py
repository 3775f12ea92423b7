"""Fixtures: one hub with a repository of each kind, which each test gets without faults and with an empty log."""

import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lab.hub.client import HubClient, running_hub

PINNED = "0123456789abcdef0123456789abcdef01234567"
READER = "hf_reader"
STRANGER = "hf_stranger"


@dataclass(frozen=True)
class Sample:
    """Creates a file with random bytes."""

    path: Path
    content: bytes

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    content = random.Random(270).randbytes(3_000_001)
    path = tmp_path_factory.mktemp("disk") / "weights.gguf"
    path.write_bytes(content)
    return Sample(path, content)


@pytest.fixture(scope="session")
def state_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hub-state")


@pytest.fixture(scope="session")
def table(sample: Sample) -> dict[str, Any]:
    real = {"tiny.gguf": {"disk": str(sample.path)}, "README.md": {"text": "# tiny\n"}}
    generated = {
        "config.json": {"text": '{"architectures": ["Lab"]}\n'},
        "nested/deep/notes.txt": {"text": "below two folders\n"},
        "model-00001-of-00002.safetensors": {"generate": {"seed": 1, "size": "5 MiB"}},
        "model-00002-of-00002.safetensors": {"generate": {"seed": 2, "size": 2_500_000}},
    }
    older = {"config.json": {"text": "{}\n"}}
    return {
        "repositories": {
            "acme/real": {"revisions": [{"branches": ["main"], "files": real}]},
            "acme/generated": {
                "revisions": [
                    {"branches": ["main", "refs/pr/1"], "files": generated},
                    {"commit": PINNED, "branches": ["old"], "tags": ["v1"], "files": older},
                ]
            },
            "acme/gated": {
                "gated": True,
                "revisions": [{"branches": ["main"], "files": {**older, "w.bin": {"text": "secret"}}}],
            },
            "acme/wide": {
                "revisions": [
                    {"branches": ["main"], "files": {f"f{i:04d}.txt": {"text": str(i)} for i in range(1500)}},
                ]
            },
            "acme/huge": {
                "revisions": [
                    {
                        "branches": ["main"],
                        "files": {
                            f"model-{i:05d}-of-00064.safetensors": {
                                "generate": {"seed": i, "size": "9.3 GB"},
                                "sha256": "placeholder",
                            }
                            for i in range(1, 65)
                        },
                    }
                ]
            },
        },
        "tokens": [
            {"token": READER, "user": "reader", "gated": ["acme/gated"]},
            {"token": STRANGER, "user": "stranger"},
        ],
    }


@pytest.fixture(scope="session")
def session_hub(table: dict[str, Any], state_dir: Path) -> Iterator[HubClient]:
    with running_hub(table, state_dir=state_dir) as hub:
        yield hub


@pytest.fixture
def hub(session_hub: HubClient) -> HubClient:
    session_hub.clear_faults()
    session_hub.clear_requests()
    return session_hub
