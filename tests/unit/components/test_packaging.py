"""The programs as ConfigMaps carry them: complete, small, and able to run from the files that a pod sees."""

import ast
import base64
import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from components.in_pod.packaging import stager_archive, stager_texts, verifier_texts
from tests.unit.stager.staged_tree import write_staged_tree

CONFIG_MAP_BYTES = 1024 * 1024  # https://kubernetes.io/docs/concepts/configuration/configmap/
STAGER = Path(__file__).parents[3] / "stager"


@pytest.fixture
def mounted(tmp_path: Path) -> Path:
    """The stager's ConfigMap as the kubelet mounts it: each name is a link into a folder with the files."""
    folder = tmp_path / "heavylift/stager"
    files = {name: text.encode() for name, text in stager_texts().items()}
    files |= {name: base64.b64decode(content) for name, content in stager_archive().items()}
    return mount(folder, files)


def mount(folder: Path, files: dict[str, bytes]) -> Path:
    """Writes `files` as the kubelet does (https://pkg.go.dev/k8s.io/kubernetes/pkg/volume/util#AtomicWriter)."""
    (folder / "..2026").mkdir(parents=True)
    (folder / "..data").symlink_to("..2026")
    for name, content in files.items():
        (folder / "..2026" / name).write_bytes(content)
        (folder / name).symlink_to(f"..data/{name}")
    return folder


def python(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs Python without PYTHONPATH and without any package."""
    command = [sys.executable, "-I", "-S", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")


def test_the_stager_takes_an_eighth_of_a_config_map() -> None:
    files = {**stager_texts(), **stager_archive()}
    assert sum(len(name) + len(content.encode()) for name, content in files.items()) < CONFIG_MAP_BYTES / 8


def test_the_subcommands_without_requirements_run_from_the_archive(mounted: Path, tmp_path: Path) -> None:
    tree = write_staged_tree(tmp_path / "weights" / ("0" * 16), {"config.json": b"{}"})
    assert "verified 1 files" in python(mounted / "run_stager.py", "verify", tree).stdout
    pruned = python(mounted / "run_stager.py", "prune", tree.parent, "--keep-newest", "0")
    assert (pruned.returncode, tree.exists()) == (0, False), pruned.stderr


def test_stage_imports_its_clients_only_after_it_knows_that_it_needs_them(mounted: Path, tmp_path: Path) -> None:
    tree = write_staged_tree(tmp_path / "tree", {"config.json": b"{}"})
    words = ("--directory", tree, "--repository", "acme/tiny", "--revision", "main", "--allow-unpinned")
    staged = python(mounted / "run_stager.py", "stage", *words)
    assert (staged.returncode, "already staged" in staged.stderr + staged.stdout) == (1, False)
    assert "No module named 'urllib3'" in staged.stderr


def test_worker_processes_run_from_the_archive_too(mounted: Path, tmp_path: Path) -> None:
    contents = {"model-00001-of-00002.safetensors": b"one", "model-00002-of-00002.safetensors": b"two"}
    write_staged_tree(tmp_path / "share", contents)
    files = [
        {"path": name, "size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for name, content in contents.items()
    ]
    head = {"version": 1, "repository": "acme/tiny", "revision": "a" * 40, "commit": "a" * 40}
    (tmp_path / "lock.json").write_text(json.dumps({**head, "files": files, "total_bytes": 6}))
    command: list[str | Path] = [sys.executable, "-I", mounted / "run_stager.py", "stage", "--processes", "2"]
    command += ["--directory", tmp_path / "tree", "--repository", "acme/tiny", "--revision", "a" * 40]
    command += ["--lock", tmp_path / "lock.json", "--source", f"{tmp_path}/share/{{path}}"]
    command += ["--termination-log", tmp_path / "log"]
    staged = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    assert staged.returncode == 0, staged.stderr
    assert "staged 2 files, 6 bytes" in staged.stderr
    assert (tmp_path / "tree/model-00002-of-00002.safetensors").read_bytes() == b"two"


def test_a_traceback_names_file_and_line_of_the_module(mounted: Path, tmp_path: Path) -> None:
    words = ("--directory", tmp_path, "--repository", "acme/tiny", "--revision", "main")
    staged = python(mounted / "run_stager.py", "stage", *words)
    assert f'File "{mounted}/ranges.py", line' in staged.stderr


def test_the_verifier_runs_from_its_files_alone(tmp_path: Path) -> None:
    folder = mount(tmp_path / "heavylift/stager", {name: text.encode() for name, text in verifier_texts().items()})
    tree = write_staged_tree(tmp_path / "tree", {"config.json": b"{}"})
    assert "verified 1 files" in python(folder / "verify.py", tree).stdout
    (tree / "config.json").write_text("[]")
    refused = python(folder / "verify.py", tree)
    assert (refused.returncode, "config.json: SHA-256 is" in refused.stderr) == (1, True)


def test_the_verifier_has_the_modules_that_it_imports_and_no_other() -> None:
    waiting, found = ["verify.py"], {"__init__.py"}
    while waiting:
        name = waiting.pop()
        found.add(name)
        for node in ast.walk(ast.parse((STAGER / name).read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("stager."):
                module = (node.module or "").removeprefix("stager.") + ".py"
                waiting += [module] if module not in found else []
    assert set(verifier_texts()) == found
