"""`--native-xet`: the stager verifies the files of the hub's client, and fetches the others by ranges.

The lab's hub has no Xet storage, so that the client downloads plainly: Xet's protocol is not tested.
"""

from pathlib import Path

from lab.hub.client import HubClient
from stager.verify import problems

from .conftest import SHARD, RunStager
from .running import is_marked_complete

FIRST_SHARD = "model-00001-of-00002.safetensors"


def left_over(tree: Path) -> list[Path]:
    """Returns the files that the client left."""
    return [path for path in tree.rglob("*") if "xet" in path.name or ".cache" in path.parts]


def test_whole_files_come_by_the_hubs_client_and_are_verified(stage: RunStager, hub: HubClient, tmp_path: Path) -> None:
    ended = stage("--native-xet")
    assert ended.status == 0, ended.log
    assert f"{FIRST_SHARD}: {SHARD:,} bytes by the hub's client, to be verified" in ended.log
    assert problems(tmp_path / "tree", full=True) == []
    assert left_over(tmp_path / "tree") == []
    sent = hub.bytes_sent()
    assert "already staged: 4 files" in stage("--native-xet").log
    assert hub.bytes_sent() == sent


def test_a_wrong_byte_of_the_clients_is_found_and_the_file_fetched_again_by_ranges(
    stage: RunStager, hub: HubClient, tmp_path: Path
) -> None:
    hub.fault("flip", path=f"*{FIRST_SHARD}", offset=1000, count=1)
    ended = stage("--native-xet")
    assert ended.status == 0, ended.log
    assert problems(tmp_path / "tree", full=True) == []
    assert f"{FIRST_SHARD}: {SHARD:,} bytes, hash is right" in ended.log


def test_where_the_client_is_refused_ranges_go_on(stage: RunStager, hub: HubClient, tmp_path: Path) -> None:
    hub.fault("status", path="*/notes/deep.txt", status=403, count=1)
    ended = stage("--native-xet")
    assert ended.status == 0, ended.log
    assert "notes/deep.txt: not by the hub's client" in ended.log
    assert problems(tmp_path / "tree", full=True) == []


def test_another_source_before_the_hub_is_wrong_usage(stage: RunStager, tmp_path: Path) -> None:
    ended = stage("--native-xet", "--source", "https://mirror.example/models", "--source", "hub")
    assert ended.status == 2
    assert "expected hub to be asked first" in ended.log
    assert not is_marked_complete(tmp_path / "tree")
