"""A mirror in a real S3 server: `mirror` fills, verifies and resumes it; `stage` reads it while the hub is down."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.hub.client import HubClient
from stager.verify import problems

from .conftest import COMMIT, SHARD, RunStager
from .running import MIB, Ended, Stager, manifest_of
from .s3_server import BUCKET, S3Server, running_s3
from .test_ended_by_signal import wait_until

TARGET = f"s3://{BUCKET}/mirror"
SHARD_1 = "model-00001-of-00002.safetensors"
LARGE = 6 * SHARD


@pytest.fixture
def s3(tmp_path: Path) -> Iterator[S3Server]:
    with running_s3(tmp_path / "s3") as server:
        yield server


Run = Callable[..., Ended]


@pytest.fixture
def run(hub: HubClient, s3: S3Server, tmp_path: Path) -> Run:
    """Runs a subcommand of the stager, with hub and S3 server in its environment, and waits for its end."""

    def run_subcommand(*arguments: str | Path, **environment: str) -> Ended:
        known = {"HF_ENDPOINT": hub.url, **s3.environment}
        return Stager(arguments, log_directory=tmp_path, **{**known, **environment}).wait()

    return run_subcommand


@pytest.fixture
def lock(run: Run, tmp_path: Path) -> Path:
    path = tmp_path / "model.lock.json"
    ended = run("lock", "acme/model", "--revision", "main", "--output", path)
    assert ended.status == 0, ended.log
    return path


@pytest.fixture
def large_lock(run: Run, tmp_path: Path) -> Path:
    path = tmp_path / "large.lock.json"
    assert run("lock", "acme/large", "--revision", "main", "--output", path).status == 0
    return path


def root_of(s3: S3Server, repository: str = "acme/model") -> Path:
    return s3.objects / "mirror" / repository / COMMIT


def test_a_mirror_serves_a_lock_while_the_hub_is_down(
    run: Run, stage: RunStager, s3: S3Server, lock: Path, tmp_path: Path
) -> None:
    assert run("mirror", lock, TARGET).status == 0
    ended = stage("--lock", lock, "--source", TARGET, HF_ENDPOINT="http://127.0.0.1:9", **s3.environment)
    assert ended.status == 0, ended.log
    assert problems(tmp_path / "tree", full=True, repository="acme/model", revision=COMMIT) == []
    assert manifest_of(tmp_path / "tree")["source"] == TARGET
    assert "heavylift-lab-secret" not in ended.log


def test_a_second_run_of_mirror_asks_the_hub_for_nothing(run: Run, hub: HubClient, lock: Path) -> None:
    assert run("mirror", lock, TARGET).status == 0
    hub.clear_requests()
    ended = run("mirror", lock, TARGET)
    assert ended.status == 0
    assert "100% re-used" in ended.log
    assert hub.requests() == {}


def test_a_mirror_that_was_killed_goes_on_with_the_parts_that_are_there(
    run: Run, hub: HubClient, s3: S3Server, large_lock: Path, tmp_path: Path, stage: RunStager
) -> None:
    hub.fault("slow", path="/storage/*", bytes_per_second=100e6)
    environment = {"HF_ENDPOINT": hub.url, **s3.environment}
    killed = Stager(["mirror", large_lock, TARGET, "--streams", "4"], log_directory=tmp_path, **environment)
    wait_until(lambda: hub.bytes_sent() >= 160 * MIB)
    killed.process.kill()
    killed.wait()
    hub.clear_faults()
    hub.clear_requests()
    ended = run("mirror", large_lock, TARGET, "--streams", "4")
    assert ended.status == 0, ended.log
    assert hub.bytes_sent() <= LARGE - 64 * MIB, "at least the parts that had been sent are not fetched again"
    assert "reading it back" in ended.log
    options = ["--lock", large_lock, "--source", TARGET]
    assert stage(*options, repository="acme/large", **s3.environment).status == 0
    assert problems(tmp_path / "tree", full=True) == []


def test_a_part_that_rotted_in_a_resumed_upload_is_found_by_reading_back(
    run: Run, hub: HubClient, s3: S3Server, large_lock: Path, tmp_path: Path
) -> None:
    hub.fault("slow", path="/storage/*", bytes_per_second=100e6)
    environment = {"HF_ENDPOINT": hub.url, **s3.environment}
    killed = Stager(["mirror", large_lock, TARGET, "--streams", "4"], log_directory=tmp_path, **environment)
    wait_until(lambda: hub.bytes_sent() >= 160 * MIB)
    killed.process.kill()
    killed.wait()
    hub.clear_faults()
    parts = [path for path in s3.objects.rglob("*") if path.is_file() and path.stat().st_size == 16 * MIB]
    with parts[0].open("r+b") as part:
        part.write(b"rotten")
    ended = run("mirror", large_lock, TARGET, "--streams", "4")
    assert ended.status == 0, ended.log
    assert "wrong content from" in ended.log
    assert run("mirror", large_lock, TARGET).status == 0


def test_a_corrupted_source_never_reaches_the_mirror(run: Run, hub: HubClient, s3: S3Server, lock: Path) -> None:
    hub.fault("flip", path=f"*{SHARD_1}*", offset=20 * MIB)
    ended = run("mirror", lock, TARGET)
    assert ended.status == 1
    assert f"{SHARD_1}: wrong content from hub" in ended.message
    assert not (root_of(s3) / SHARD_1).exists()


def test_an_object_that_somebody_else_put_there_is_verified_before_it_counts(
    run: Run, hub: HubClient, s3: S3Server, lock: Path
) -> None:
    key = f"mirror/acme/model/{COMMIT}/{SHARD_1}"
    s3.client().put_object(Bucket=BUCKET, Key=key, Body=b"x" * SHARD)
    ended = run("mirror", lock, TARGET)
    assert ended.status == 0, ended.log
    assert "the mirror's copy is wrong" in ended.log
    hub.clear_requests()
    assert "100% re-used" in run("mirror", lock, TARGET).log


def test_a_file_that_the_mirror_lacks_comes_from_the_hub_and_the_others_do_not(
    run: Run, stage: RunStager, hub: HubClient, s3: S3Server, lock: Path, tmp_path: Path
) -> None:
    assert run("mirror", lock, TARGET).status == 0
    (root_of(s3) / SHARD_1).unlink()
    hub.clear_requests()
    ended = stage("--lock", lock, "--source", TARGET, "--source", "hub", **s3.environment)
    assert ended.status == 0, ended.log
    assert hub.bytes_sent() == SHARD
    assert f"{TARGET} refuses: {SHARD_1}: HTTP 404 NoSuchKey" in ended.log
    assert manifest_of(tmp_path / "tree")["source"] == f"hub {hub.url}, {TARGET}"


def test_a_file_that_is_wrong_in_the_mirror_comes_from_the_hub(
    run: Run, stage: RunStager, hub: HubClient, s3: S3Server, lock: Path, tmp_path: Path
) -> None:
    assert run("mirror", lock, TARGET).status == 0
    with (root_of(s3) / SHARD_1).open("r+b") as file:
        file.write(b"rotten")
    hub.clear_requests()
    ended = stage("--lock", lock, "--source", TARGET, "--source", "hub", **s3.environment)
    assert ended.status == 0, ended.log
    assert hub.bytes_sent() == SHARD
    assert problems(tmp_path / "tree", full=True) == []


@pytest.mark.parametrize(
    ("source", "environment", "said"),
    [
        ("s3://nowhere/mirror", {}, "HTTP 404 NoSuchBucket"),
        (TARGET, {"AWS_SECRET_ACCESS_KEY": "wrong"}, "HTTP 403 SignatureDoesNotMatch"),
        (
            TARGET,
            {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_EC2_METADATA_DISABLED": "true"},
            "no AWS credentials",
        ),
    ],
)
def test_what_s3_refuses_is_said_as_s3_says_it(
    stage: RunStager, s3: S3Server, lock: Path, source: str, environment: dict[str, str], said: str
) -> None:
    ended = stage("--lock", lock, "--source", source, **{**s3.environment, **environment})
    assert ended.status == 1
    assert said in ended.message
    assert "Traceback" not in ended.log


def test_a_target_that_is_no_bucket_is_refused(run: Run, lock: Path) -> None:
    assert "expected s3://bucket/prefix" in run("mirror", lock, "/some/directory").message
    ended = run("mirror", lock, "s3://nowhere/prefix")
    assert ended.status == 1
    assert "NoSuchBucket" in ended.message
    assert "Traceback" not in ended.log


def test_many_nodes_that_read_the_mirror_ask_the_hub_for_every_byte_once(
    run: Run, stage: RunStager, hub: HubClient, s3: S3Server, lock: Path, tmp_path: Path
) -> None:
    hub.clear_requests()
    assert run("mirror", lock, TARGET).status == 0
    for node in ("node-1", "node-2", "node-3"):
        ended = stage("--lock", lock, "--source", TARGET, directory=tmp_path / node, **s3.environment)
        assert ended.status == 0, ended.log
    assert hub.bytes_sent() == 2 * SHARD + len('{"model_type": "lab"}\n') + len("below a folder\n")
