"""Fixtures: one hub for all tests, which each test gets without faults and with an empty log, and runs of `stage`."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.hub.client import HubClient, running_hub

from .running import MIB, Ended, Stager

COMMIT = "0123456789abcdef0123456789abcdef01234567"
LATER = "89abcdef0123456789abcdef0123456789abcdef"
SHARD = 40 * MIB
SMALL = {"config.json": {"text": '{"model_type": "lab"}\n'}, "notes/deep.txt": {"text": "below a folder\n"}}


def shards(seed: int) -> dict[str, object]:
    """Returns two shards, with different bytes for each seed."""
    names = [f"model-0000{number}-of-00002.safetensors" for number in (1, 2)]
    return {name: {"generate": {"seed": seed + place, "size": SHARD}} for place, name in enumerate(names)}


@pytest.fixture(scope="session")
def hub_process() -> Iterator[HubClient]:
    model = {
        "revisions": [
            {"commit": COMMIT, "branches": ["main"], "files": SMALL | shards(1)},
            {"commit": LATER, "files": SMALL | shards(7)},
        ]
    }
    gated = {"gated": True, "revisions": [{"commit": COMMIT, "branches": ["main"], "files": SMALL}]}
    one = {"revisions": [{"commit": COMMIT, "branches": ["main"], "files": {"w.gguf": SMALL["config.json"]}}]}
    large = {"model.gguf": {"generate": {"seed": 3, "size": 6 * SHARD}}}
    tokens = [
        {"token": "hf_reader", "user": "reader", "gated": ["acme/gated"]},
        {"token": "hf_stranger", "user": "stranger"},
    ]
    repositories = {
        "acme/model": model,
        "acme/gated": gated,
        "acme/one": one,
        "acme/large": {"revisions": [{"commit": COMMIT, "branches": ["main"], "files": large}]},
    }
    with running_hub({"repositories": repositories, "tokens": tokens}) as hub:
        yield hub
        hub.close()


@pytest.fixture
def hub(hub_process: HubClient) -> HubClient:
    hub_process.clear_faults()
    hub_process.clear_requests()
    return hub_process


StartStager = Callable[..., Stager]
RunStager = Callable[..., Ended]


@pytest.fixture
def start(hub: HubClient, tmp_path: Path) -> Iterator[StartStager]:
    """Starts `stage` of acme/model into `tmp_path/tree`, with additional options and environment."""
    started: list[Stager] = []

    def start_stager(
        *options: str | Path,
        repository: str = "acme/model",
        revision: str = COMMIT,
        directory: Path = tmp_path / "tree",
        **environment: str,
    ) -> Stager:
        what: list[str | Path] = ["--directory", directory, "--repository", repository, "--revision", revision]
        what += ["--lease-seconds", "2"]
        environment = {"HF_ENDPOINT": hub.url, **environment}
        stager = Stager(["stage", *what, *options], log_directory=tmp_path, **environment)
        started.append(stager)
        return stager

    yield start_stager
    for stager in started:
        stager.process.kill()
        stager.process.communicate()


@pytest.fixture
def stage(start: StartStager) -> RunStager:
    """Runs `stage` and waits for its end."""

    def run(*options: str | Path, **settings: str) -> Ended:
        return start(*options, **settings).wait()

    return run
