"""`python -m config add` against a hub: headers only, and an entry that is planned like the checkpoint itself."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from config.catalogue import model as catalogue
from config.checkpoint.model_spec import find_model
from lab.hub.client import HubClient, running_hub
from stager.listing import matches
from tests.unit.planner.checkpoints import LLAMA, write_gguf, write_llama, write_safetensors

_PADDING = ("BF16", [64, 2**20])
"""A large tensor: 128 MiB that must not be read."""


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubClient]:
    folder = write_llama(tmp_path_factory.mktemp("llama"))
    write_safetensors(folder / "model-00003-of-00003.safetensors", {"model.layers.1.self_attn.extra": _PADDING})
    write_gguf(folder / "tiny-Q4_K_M.gguf")
    write_gguf(folder / "tiny-Q8_0-00001-of-00002.gguf")
    files = {path.name: {"disk": str(path)} for path in sorted(folder.iterdir())}
    safetensors = {name: file for name, file in files.items() if not name.endswith(".gguf")}
    gguf = {name: file for name, file in files.items() if name.endswith(".gguf")}
    table = {
        "repositories": {
            "acme/Tiny-Llama": {"revisions": [{"branches": ["main"], "files": safetensors}]},
            "acme/Tiny-GGUF": {"revisions": [{"branches": ["main"], "files": gguf}]},
            "acme/Empty": {"revisions": [{"branches": ["main"], "files": {"README.md": {"text": "#\n"}}}]},
        }
    }
    table["repositories"] |= _repositories_with_two_copies(tmp_path_factory.mktemp("twice"))
    with running_hub(table, state_dir=tmp_path_factory.mktemp("state")) as running:
        yield running


def _repositories_with_two_copies(folder: Path) -> dict[str, Any]:
    """One with an index and a copy below `original`, one without an index and with Mistral's copy."""
    write_llama(folder)
    shards = sorted(path.name for path in folder.glob("*.safetensors"))
    (folder / "consolidated.safetensors").write_bytes((folder / shards[0]).read_bytes())
    names = {f"tensor{number}": name for number, name in enumerate(shards)}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))
    disk = {path.name: {"disk": str(path)} for path in sorted(folder.iterdir())}
    copies = {f"original/model--{name}": disk[name] for name in shards}
    indexed = {name: file for name, file in disk.items() if name != "consolidated.safetensors"} | copies
    plain = {name: file for name, file in disk.items() if "index" not in name}
    return {
        f"acme/{name}": {"revisions": [{"branches": ["main"], "files": files}]}
        for name, files in (("Indexed", indexed), ("Consolidated", plain))
    }


@pytest.mark.parametrize(
    ("name", "left_out"),
    [("Indexed", "original/model--model-00001-of-00002.safetensors"), ("Consolidated", "consolidated.safetensors")],
)
def test_a_second_copy_of_the_weights_is_not_counted_and_what_to_stage_is_said(
    hub: HubClient, tmp_path: Path, name: str, left_out: str
) -> None:
    done = _add(hub, tmp_path, f"acme/{name}", "--revision", "main")
    assert done.returncode == 0, done.stderr
    entry = json.loads((tmp_path / f"{name.lower()}.json").read_text())
    held = sum(group["bytes"] for group in entry["checkpoints"][0]["tensors"])
    assert held == sum(group.bytes for group in find_model(str(write_llama(tmp_path / "llama"))).groups)
    patterns = json.loads(done.stdout[done.stdout.index("[") : done.stdout.index("]") + 1])
    staged = ["config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    assert [file for file in (*staged, left_out) if any(matches(file, pattern) for pattern in patterns)] == staged


def _add(hub: HubClient, output: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "HF_ENDPOINT": hub.url, "HF_HUB_DISABLE_XET": "1", "HF_HOME": str(output / "home")}
    command = [sys.executable, "-m", "config", "add", *arguments, "--output", str(output)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_an_entry_is_written_from_headers_alone(hub: HubClient, tmp_path: Path, monkeypatch: Any) -> None:
    hub.clear_requests()
    done = _add(hub, tmp_path, "acme/Tiny-Llama", "--revision", "main", "--quality", "good")
    assert done.returncode == 0, done.stderr
    assert hub.bytes_sent() < 2 * 2**20, "headers, and no weights"
    entry = json.loads((tmp_path / "tiny-llama.json").read_text())
    assert entry["config"]["model_type"] == "llama"
    assert len(next(iter(entry["checkpoints"][0]["revisions"]))) == 40
    monkeypatch.setattr(catalogue, "models", lambda: (catalogue._model(entry),))
    model = find_model("tiny-llama")
    assert model.measured
    assert sum(group.bytes for group in model.groups if group.group == "dense_mlp") == 2 * 3 * 64 * 128 * 2
    assert model.staged_bytes is not None
    assert model.staged_bytes > 128 * 2**20


def test_a_gguf_quantisation_is_chosen_by_its_pattern(hub: HubClient, tmp_path: Path) -> None:
    done = _add(hub, tmp_path, "acme/Tiny-GGUF", "--revision", "main", "--include", "*Q4_K_M*")
    assert done.returncode == 0, done.stderr
    entry = json.loads((tmp_path / "tiny-gguf-q4_k_m.json").read_text())
    assert entry["checkpoints"][0]["gguf"] == {
        "quantization": "Q4_K_M", "shards": 1, "first_shard": "tiny-Q4_K_M.gguf",
    }  # fmt: skip
    assert entry["config"]["num_hidden_layers"] == LLAMA["num_hidden_layers"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("acme/Missing", "--revision", "main"), "acme/Missing"),
        (("acme/Tiny-Llama", "--revision", "nowhere"), "nowhere"),
        (("acme/Empty", "--revision", "main"), "neither safetensors nor GGUF"),
        (("acme/Tiny-GGUF", "--revision", "main"), "not one set of"),
        (("acme/Tiny-GGUF", "--revision", "main", "--include", "*Q8_0*"), "not one set of 2"),
        (("moonshotai/Kimi-K2.5", "--revision", "main"), "is in the catalogue as kimi-k2.5"),
    ],
)
def test_what_cannot_be_added_is_one_line(
    hub: HubClient, tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    done = _add(hub, tmp_path, *arguments)
    assert done.returncode == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("*.json"))


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:1", "not-an-address"])
def test_a_hub_that_cannot_be_reached_is_said_in_one_line(endpoint: str, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "config",
        "add",
        "acme/Tiny-Llama",
        "--revision",
        "main",
        "--output",
        str(tmp_path),
    ]
    environment = {**os.environ, "HF_ENDPOINT": endpoint, "HF_HOME": str(tmp_path / "home")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(f"config add: {endpoint} cannot be reached")
    assert len(done.stderr.splitlines()) == 1
