"""The hub against its own client: `hf download` of `huggingface_hub`, unmodified."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from huggingface_hub import HfApi

from lab.hub.client import HubClient

from .conftest import READER, STRANGER, Sample


def hf_download(
    hub: HubClient, directory: Path, repository: str, *options: str, token: str | None = None
) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGING"))}
    environment |= {"HF_ENDPOINT": hub.url, "HF_HOME": str(directory / "home"), "HF_HUB_DISABLE_XET": "1"}
    if token is not None:
        environment["HF_TOKEN"] = token
    hf = Path(sys.executable).parent / "hf"
    command = [str(hf), "download", repository, "--local-dir", str(directory / "tree"), *options]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_repository_of_real_files_arrives_byte_for_byte(hub: HubClient, tmp_path: Path, sample: Sample) -> None:
    done = hf_download(hub, tmp_path, "acme/real")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "tree/tiny.gguf").read_bytes() == sample.content
    assert (tmp_path / "tree/README.md").read_text() == "# tiny\n"


def test_a_generated_repository_arrives_with_the_hashes_that_the_hub_announced(hub: HubClient, tmp_path: Path) -> None:
    done = hf_download(hub, tmp_path, "acme/generated")
    assert done.returncode == 0, done.stderr
    shards = sorted((tmp_path / "tree").glob("*.safetensors"))
    assert [shard.stat().st_size for shard in shards] == [5 << 20, 2_500_000]
    info = HfApi(endpoint=hub.url, token=False).model_info("acme/generated", files_metadata=True)
    assert [sha256(shard) for shard in shards] == [file.lfs.sha256 for file in info.siblings or [] if file.lfs]
    assert (tmp_path / "tree/nested/deep/notes.txt").read_text() == "below two folders\n"


def test_an_older_revision_is_found_by_its_tag(hub: HubClient, tmp_path: Path) -> None:
    done = hf_download(hub, tmp_path, "acme/generated", "--revision", "v1")
    assert done.returncode == 0, done.stderr
    assert [path.name for path in (tmp_path / "tree").iterdir() if path.is_file()] == ["config.json"]
    assert (tmp_path / "tree/config.json").read_text() == "{}\n"


def test_each_byte_is_sent_once(hub: HubClient, tmp_path: Path, sample: Sample) -> None:
    assert hf_download(hub, tmp_path, "acme/real").returncode == 0
    assert hub.bytes_sent() == len(sample.content) + len("# tiny\n")
    assert hf_download(hub, tmp_path, "acme/real").returncode == 0
    assert hub.bytes_sent() == len(sample.content) + len("# tiny\n"), "the second download found everything in place"


def test_a_gated_repository_opens_to_a_token_that_lists_it(hub: HubClient, tmp_path: Path) -> None:
    done = hf_download(hub, tmp_path, "acme/gated", token=READER)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "tree/w.bin").read_text() == "secret"


@pytest.mark.parametrize("token", [None, STRANGER])
def test_a_gated_repository_is_refused_to_others_as_gated(hub: HubClient, tmp_path: Path, token: str | None) -> None:
    done = hf_download(hub, tmp_path, "acme/gated", "w.bin", token=token)
    assert done.returncode == 1
    assert "Access denied. Model 'acme/gated' requires approval." in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("acme/none",), "Model 'acme/none' not found"),
        (("acme/real", "--revision", "nope"), "Revision not found in model 'acme/real'"),
        (("acme/real", "none.bin"), "File not found in model 'acme/real'"),
    ],
)
def test_what_is_missing_is_named(hub: HubClient, tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    done = hf_download(hub, tmp_path, *arguments)
    assert done.returncode == 1
    assert said in done.stdout + done.stderr


def test_a_token_that_the_hub_does_not_know_is_refused(hub: HubClient, tmp_path: Path) -> None:
    done = hf_download(hub, tmp_path, "acme/real", token="hf_made_up")
    assert done.returncode == 1
    assert "Invalid credentials in Authorization header" in done.stdout + done.stderr
