"""The stager retries all transient faults of a source, and refuses an answer that is not the file."""

import re
import time
from pathlib import Path
from typing import Any

import pytest

from lab.hub.client import HubClient
from stager.verify import problems

from .conftest import SHARD, RunStager
from .running import MIB, is_marked_complete, manifest_of

SHARD_PATH = "*model-00001*"
STORAGE = "/storage/*model-00001*"
MIDDLE = 5 * MIB + 17


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "status", "path": STORAGE, "status": 503, "count": 2},
        {"kind": "status", "path": STORAGE, "status": 500, "count": 1},
        {"kind": "status", "path": "*/resolve/*", "method": "HEAD", "status": 502, "count": 2},
        {"kind": "status", "path": "/api/models/*", "status": 504, "count": 1},
        {"kind": "status", "path": "*config.json", "status": 429, "count": 2},
        {"kind": "reset", "path": STORAGE, "count": 2},
        {"kind": "reset", "path": "/api/models/*", "count": 1},
        {"kind": "reset_body", "path": STORAGE, "offset": MIDDLE, "count": 2},
        {"kind": "truncate", "path": STORAGE, "offset": MIDDLE, "count": 2},
        {"kind": "truncate", "path": STORAGE, "offset": 0, "count": 1},
        {"kind": "stall", "path": STORAGE, "offset": MIDDLE, "seconds": 60, "count": 1},
        {"kind": "redirect", "path": "*/resolve/*model-00001*", "count": 1},
        {"kind": "redirect", "path": STORAGE, "count": 1},
        {"kind": "expire", "path": STORAGE, "count": 1},
        {"kind": "expire", "path": STORAGE, "after": 1, "count": 1},
        {"kind": "flip", "path": STORAGE, "offset": MIDDLE, "count": 1},
    ],
    ids=lambda fault: f"{fault['kind']} {fault['path']} {fault.get('status', '')}",
)
def test_a_fault_in_passing_is_survived(
    stage: RunStager, hub: HubClient, tmp_path: Path, fault: dict[str, Any]
) -> None:
    hub.fault(**fault)
    ended = stage("--stall-seconds", "1")
    assert ended.status == 0, ended.log
    assert hub.faults()[0]["struck"] == fault["count"]
    assert problems(tmp_path / "tree", full=True) == []


def test_the_wait_that_a_server_asks_for_is_kept_by_all_streams(stage: RunStager, hub: HubClient) -> None:
    hub.fault("status", path="/storage/*", status=429, headers={"Retry-After": "3"}, count=1)
    began = time.monotonic()
    assert stage().status == 0
    assert time.monotonic() - began >= 3
    paths = {path: log for path, log in hub.requests().items() if path.startswith("/storage/")}
    assert sum(log.answers.get("GET 429", 0) for log in paths.values()) == 1


def test_a_corrupted_file_is_fetched_again_alone(stage: RunStager, hub: HubClient) -> None:
    hub.fault("flip", path=STORAGE, offset=MIDDLE, count=1)
    ended = stage()
    assert ended.status == 0
    sent = {path: log.bytes for path, log in hub.requests().items() if path.startswith("/storage/")}
    assert sorted(sent.values()) == [SHARD, 2 * SHARD]
    assert "fetching it again" in ended.log


def test_a_file_that_stays_corrupted_is_reported_with_source_expected_and_found(
    stage: RunStager, hub: HubClient, tmp_path: Path
) -> None:
    hub.fault("flip", path=STORAGE, offset=MIDDLE)
    ended = stage()
    assert ended.status == 1
    assert re.fullmatch(
        rf"stager: model-00001-of-00002.safetensors: wrong content from hub {hub.url}: "
        r"expected SHA-256 [0-9a-f]{64}, found SHA-256 [0-9a-f]{64}",
        ended.message,
    )
    assert not is_marked_complete(tmp_path / "tree")
    assert (tmp_path / "tree/model-00002-of-00002.safetensors").exists(), "the other files are staged all the same"
    assert not (tmp_path / "tree/model-00001-of-00002.safetensors").exists()


def test_two_corrupted_files_are_reported_together(stage: RunStager, hub: HubClient) -> None:
    hub.fault("flip", path="/storage/*", offset=0)
    message = stage().message
    assert "model-00001-of-00002.safetensors: wrong content" in message
    assert "model-00002-of-00002.safetensors: wrong content" in message


def test_a_corrupted_small_file_is_found_by_its_git_blob_id(stage: RunStager, hub: HubClient) -> None:
    hub.fault("flip", path="*config.json", method="GET", offset=3)
    message = stage().message
    assert re.search(r"config.json: wrong content from hub \S+: expected git blob \w{40}, found git blob", message)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({"kind": "html", "path": STORAGE}, "a web page came instead of the file"),
        ({"kind": "length", "path": STORAGE, "by": 1}, f"{SHARD + 1} bytes there, expected {SHARD}"),
        ({"kind": "length", "path": STORAGE, "by": -1}, f"{SHARD - 1} bytes there, expected {SHARD}"),
        ({"kind": "ignore_range", "path": STORAGE}, "the server does not give ranges of a file"),
        ({"kind": "ignore_range", "path": STORAGE}, "heavylift:stage.native_xet: true fetches whole files"),
        (
            {"kind": "status", "path": STORAGE, "status": 400},
            "HTTP 400 for a range; from a hub, heavylift:stage.native",
        ),
        ({"kind": "status", "path": STORAGE, "status": 404}, "HTTP 404"),
        ({"kind": "status", "path": STORAGE, "status": 403}, "HTTP 403"),
        ({"kind": "status", "path": "/api/models/*", "status": 403}, "HTTP 403"),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else "",
)
def test_what_is_not_the_file_is_refused_without_asking_for_ever(
    stage: RunStager, hub: HubClient, tmp_path: Path, fault: dict[str, Any], said: str
) -> None:
    hub.fault(**fault)
    ended = stage()
    assert ended.status == 1
    assert said in ended.message
    assert not is_marked_complete(tmp_path / "tree")
    assert "Traceback" not in ended.log


def test_a_signed_url_appears_in_no_log(stage: RunStager, hub: HubClient, tmp_path: Path) -> None:
    hub.fault("reset", path="/storage/*", count=3)
    hub.fault("expire", path="/storage/*", after=3, count=1)
    ended = stage(HF_TOKEN="hf_reader")
    assert ended.status == 0, ended.log
    assert "hf_reader" not in ended.log
    assert "?" not in ended.log
    assert "hf_reader" not in str(manifest_of(tmp_path / "tree"))


def test_a_web_page_instead_of_the_file_list_is_survived_and_said(stage: RunStager, hub: HubClient) -> None:
    hub.fault("html", path="/api/models/*", count=2)
    ended = stage()
    assert ended.status == 0, ended.log
    assert "the answer is not a model hub's" in ended.log


def test_a_connection_that_crawls_beside_the_others_is_replaced(stage: RunStager, hub: HubClient) -> None:
    hub.fault("slow", path=STORAGE, bytes_per_second=20_000, count=1)
    began = time.monotonic()
    ended = stage()
    assert ended.status == 0, ended.log
    assert "connecting anew" in ended.log
    assert time.monotonic() - began < 40, "the file alone would take half an hour"
