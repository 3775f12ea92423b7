"""Weights from S3 with the credentials of a service account, as EKS Pod Identity gives them: late, or not at all."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.hub.client import HubClient
from stager.verify import problems

from .conftest import COMMIT, RunStager
from .pod_identity import TOKEN, StandInAgent, injected, running_agent
from .running import Stager, manifest_of
from .s3_server import BUCKET, S3Server, running_s3

MIRROR = f"s3://{BUCKET}/mirror"
NO_CREDENTIALS = 77
UNANSWERED = 75


@pytest.fixture
def s3(tmp_path: Path) -> Iterator[S3Server]:
    with running_s3(tmp_path / "s3") as server:
        yield server


@pytest.fixture
def agent() -> Iterator[StandInAgent]:
    with running_agent() as running:
        yield running


@pytest.fixture
def lock(hub: HubClient, s3: S3Server, tmp_path: Path) -> Path:
    """The lock of a small model, which the mirror has."""
    path = tmp_path / "one.lock.json"
    environment = {"HF_ENDPOINT": hub.url, **s3.environment}
    commands: list[list[str | Path]] = [
        ["lock", "acme/one", "--revision", "main", "--output", path],
        ["mirror", path, MIRROR],
    ]
    for command in commands:
        ended = Stager(command, log_directory=tmp_path, **environment).wait()
        assert ended.status == 0, ended.log
    hub.clear_requests()
    return path


def where(s3: S3Server) -> dict[str, str]:
    """Returns the address of the server, without credentials. No instance has metadata here."""
    named = {name: value for name, value in s3.environment.items() if "KEY" not in name}
    return {**named, "AWS_EC2_METADATA_DISABLED": "true"}


def test_credentials_of_the_service_account_sign_every_request(
    stage: RunStager, s3: S3Server, agent: StandInAgent, lock: Path, tmp_path: Path
) -> None:
    options = ["--lock", lock, "--source", MIRROR, "--require-credentials"]
    environment = {"HF_ENDPOINT": "http://127.0.0.1:9", **where(s3), **injected(agent, tmp_path)}
    ended = stage(*options, repository="acme/one", **environment)
    assert ended.status == 0, ended.log
    assert problems(tmp_path / "tree", full=True, repository="acme/one", revision=COMMIT) == []
    assert manifest_of(tmp_path / "tree")["source"] == MIRROR
    assert agent.given > 0
    assert TOKEN not in ended.log


def test_a_pod_that_was_admitted_too_early_ends_as_such_and_fetches_nothing_from_the_next_source(
    stage: RunStager, hub: HubClient, s3: S3Server, agent: StandInAgent, lock: Path, tmp_path: Path
) -> None:
    options = ["--lock", lock, "--source", MIRROR, "--source", "hub", "--require-credentials"]
    early = stage(*options, repository="acme/one", **where(s3))
    assert early.status == NO_CREDENTIALS, early.log
    assert "a new pod gets them" in early.message
    assert hub.requests() == {}, "not from the hub, through a gateway that costs by the byte"

    new_pod = stage(*options, repository="acme/one", **where(s3), **injected(agent, tmp_path))
    assert new_pod.status == 0, new_pod.log
    assert manifest_of(tmp_path / "tree")["source"] == MIRROR


def test_a_node_that_is_staged_needs_no_credentials(
    stage: RunStager, s3: S3Server, agent: StandInAgent, lock: Path, tmp_path: Path
) -> None:
    options = ["--lock", lock, "--source", MIRROR, "--require-credentials"]
    assert stage(*options, repository="acme/one", **where(s3), **injected(agent, tmp_path)).status == 0
    again = stage(*options, repository="acme/one", **where(s3))
    assert again.status == 0, again.log
    assert "already staged" in again.log


def test_an_agent_that_fails_is_asked_again_by_the_same_pod(
    stage: RunStager, s3: S3Server, agent: StandInAgent, lock: Path, tmp_path: Path
) -> None:
    agent.broken = True
    options = ["--lock", lock, "--source", MIRROR, "--require-credentials"]
    ended = stage(*options, repository="acme/one", **where(s3), **injected(agent, tmp_path))
    assert ended.status == UNANSWERED, ended.log
