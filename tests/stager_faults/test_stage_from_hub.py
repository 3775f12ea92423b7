"""From the hub to a verified directory without faults, and requests that `stage` refuses."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from lab.hub.client import HubClient
from stager.verify import problems

from .conftest import COMMIT, LATER, SHARD, RunStager
from .running import is_marked_complete, manifest_of


def test_a_staged_directory_holds_real_files_and_a_manifest_that_verifies(stage: RunStager, tmp_path: Path) -> None:
    ended = stage()
    assert ended.status == 0, ended.log
    tree = tmp_path / "tree"
    manifest = manifest_of(tree)
    assert (manifest["repository"], manifest["revision"], manifest["commit"]) == ("acme/model", COMMIT, COMMIT)
    assert {file["path"] for file in manifest["files"]} == {
        "config.json",
        "notes/deep.txt",
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
    }
    assert (tree / "notes/deep.txt").read_text() == "below a folder\n"
    assert not [path for path in tree.rglob("*") if path.is_symlink() or path.name == "parts"]
    assert problems(tree, full=True, repository="acme/model", revision=COMMIT) == []


def test_a_run_reports_one_hash_of_all_files(stage: RunStager, tmp_path: Path) -> None:
    """The hash of the sorted lines of path, size and SHA-256. The second run reports the same."""
    reported = [stage().message, stage().message]
    lines = ""
    for name in sorted(("config.json", "notes/deep.txt", *(f"model-0000{n}-of-00002.safetensors" for n in (1, 2)))):
        content = (tmp_path / "tree" / name).read_bytes()
        lines += f"{name} {len(content)} {hashlib.sha256(content).hexdigest()}\n"
    assert reported == [f"stager: files_sha256 {hashlib.sha256(lines.encode()).hexdigest()}"] * 2


def test_a_second_run_asks_nobody_for_anything(stage: RunStager, hub: HubClient) -> None:
    assert stage().status == 0
    hub.clear_requests()
    ended = stage()
    assert ended.status == 0
    assert "already staged: 4 files" in ended.log
    assert hub.requests() == {}


def test_a_file_that_was_altered_is_fetched_again_and_no_other(
    stage: RunStager, hub: HubClient, tmp_path: Path
) -> None:
    assert stage().status == 0
    hub.clear_requests()
    with (tmp_path / "tree/model-00001-of-00002.safetensors").open("r+b") as file:
        file.write(b"altered")
    assert stage().status == 0
    assert hub.bytes_sent() == SHARD
    assert problems(tmp_path / "tree", full=True) == []


def test_files_that_somebody_else_brought_are_verified_and_kept(
    stage: RunStager, hub: HubClient, tmp_path: Path
) -> None:
    assert stage(directory=tmp_path / "first").status == 0
    (tmp_path / "tree").mkdir()
    shard = "model-00001-of-00002.safetensors"
    (tmp_path / "first" / shard).rename(tmp_path / "tree" / shard)
    hub.clear_requests()
    assert stage().status == 0
    assert SHARD < hub.bytes_sent() < SHARD + 1000


def test_only_files_that_match_a_pattern_are_staged(stage: RunStager, tmp_path: Path) -> None:
    assert stage("--include", "*.json", "--include", "notes/").status == 0
    assert [file["path"] for file in manifest_of(tmp_path / "tree")["files"]] == ["config.json", "notes/deep.txt"]


def test_a_branch_is_staged_only_where_that_is_allowed(stage: RunStager, tmp_path: Path) -> None:
    refused = stage(revision="main")
    assert refused.status == 1
    assert "revision 'main' is not a full commit" in refused.message
    assert stage("--allow-unpinned", revision="main").status == 0
    assert manifest_of(tmp_path / "tree")["commit"] == COMMIT


def test_a_branch_that_moves_during_staging_is_staged_at_one_commit(
    stage: RunStager, hub: HubClient, tmp_path: Path
) -> None:
    hub.fault("flip", path="*model-00002*", offset=5)
    assert stage("--allow-unpinned", revision="main").status == 1
    hub.clear_faults()
    hub.fault("move", commit=LATER)
    assert stage("--allow-unpinned", revision="main").status == 0
    assert manifest_of(tmp_path / "tree")["commit"] == COMMIT


@pytest.mark.parametrize(
    ("options", "settings", "said"),
    [
        (
            ["--include", "*.gguf"],
            {},
            "no file of acme/model at 0123456789abcdef0123456789abcdef01234567 matches *.gguf",
        ),
        (["--include", "*00001-of*"], {}, "set of 2 shards, missing 2: include model-*-of-00002.safetensors"),
        ([], {"repository": "acme/absent"}, "no repository 'acme/absent'"),
        ([], {"revision": "f" * 40}, "has no revision"),
        ([], {"repository": "acme/gated"}, "acme/gated is gated and HF_TOKEN is not set; accept its terms at http"),
        ([], {"repository": "acme/gated", "HF_TOKEN": "hf_stranger"}, "gated and this token has no access"),
        ([], {"HF_TOKEN": "hf_nobody"}, "HF_TOKEN is not valid"),
    ],
)
def test_what_cannot_be_staged_is_refused_in_one_line_that_becomes_the_termination_message(
    stage: RunStager, tmp_path: Path, options: list[str], settings: dict[str, str], said: str
) -> None:
    ended = stage(*options, **settings)
    assert ended.status == 1
    assert said in ended.message
    assert ended.message in ended.log
    assert "\n" not in ended.message
    assert "Traceback" not in ended.log
    assert not is_marked_complete(tmp_path / "tree")


def test_a_gated_repository_is_staged_with_a_token_that_may_read_it(stage: RunStager) -> None:
    ended = stage(repository="acme/gated", HF_TOKEN="hf_reader")
    assert ended.status == 0, ended.log
    assert "hf_reader" not in ended.log


def test_a_foreign_file_in_the_directory_is_refused_and_left_alone(stage: RunStager, tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/model-old.safetensors").write_bytes(b"old")
    ended = stage()
    assert ended.status == 1
    assert "model-old.safetensors" in ended.message
    assert (tmp_path / "tree/model-old.safetensors").read_bytes() == b"old"


def test_a_symbolic_link_where_a_folder_belongs_is_refused(stage: RunStager, tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "tree/notes").symlink_to(tmp_path / "elsewhere")
    ended = stage()
    assert ended.status == 1
    assert "notes: is a symbolic link" in ended.message
    assert list((tmp_path / "elsewhere").iterdir()) == []


CACHE_PATH = f"/api/resolve-cache/models/acme/model/{COMMIT}/config.json"
SMALL_PATH = f"/acme/model/resolve/{COMMIT}/config.json"
SHARD_PATH = f"/acme/model/resolve/{COMMIT}/model-00001-of-00002.safetensors"
FAULTS: list[dict[str, Any]] = [
    {"kind": "status", "status": 404},
    {"kind": "status", "status": 403},
    {"kind": "status", "status": 405},
    {"kind": "status", "status": 503},
    {"kind": "html"},
    {"kind": "redirect"},
    {"kind": "reset"},
    {"kind": "flip", "offset": 3},
]


def test_a_small_file_takes_one_request(stage: RunStager, hub: HubClient) -> None:
    assert stage().status == 0
    requests = hub.requests()
    assert requests[CACHE_PATH].answers == {"GET 206": 1}
    assert SMALL_PATH not in requests
    assert set(requests[SHARD_PATH].answers) == {"HEAD 302"}, "an address for many ranges"


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault['kind']} {fault.get('status', '')}")
def test_a_guessed_address_that_fails_is_not_used_again(
    stage: RunStager, hub: HubClient, tmp_path: Path, fault: dict[str, Any]
) -> None:
    """At a mirror, or once the hub redirects to other addresses."""
    hub.fault(**fault, path="/api/resolve-cache/*", count=1)
    ended = stage("--streams", "1")
    assert ended.status == 0, ended.log
    requests = hub.requests()
    through_redirect = [
        path for path in (SMALL_PATH, SMALL_PATH.replace("config.json", "notes/deep.txt")) if path in requests
    ]
    assert through_redirect, "the address that the hub gives itself"
    assert problems(tmp_path / "tree", full=True) == []


@pytest.mark.parametrize("fault", FAULTS[:-1], ids=lambda fault: f"{fault['kind']} {fault.get('status', '')}")
def test_where_the_hub_does_not_redirect_a_download_the_address_is_looked_up(
    stage: RunStager, hub: HubClient, tmp_path: Path, fault: dict[str, Any]
) -> None:
    """As at a mirror that knows only what the hub's own client asks."""
    hub.fault("status", status=404, path="/api/resolve-cache/*config.json", count=1)
    hub.fault(**fault, path=SMALL_PATH, method="GET", count=1)
    ended = stage("--streams", "1")
    assert ended.status == 0, ended.log
    assert hub.faults()[1]["struck"] == 1
    assert hub.requests()[SMALL_PATH].answers["HEAD 307"] == 1
    assert problems(tmp_path / "tree", full=True) == []
