"""The package: flat, without imports from the rest of heavylift, and quick if there is nothing to do."""

import ast
import json
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from components.in_pod.packaging import verifier_texts
from tests.unit.stager.staged_tree import COMMIT, write_staged_tree

PACKAGE = Path(__file__).parents[3] / "stager"
MODULES = sorted(PACKAGE.glob("*.py"))
OURS = {"config", "planner", "engines", "components", "policy", "lab", "tests", "bench"}


def imported(module: Path) -> set[str]:
    """Top-level names of all that a module imports, wherever in it."""
    tree = ast.walk(ast.parse(module.read_text()))
    names: set[str] = set()
    for node in tree:
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add((node.module or "").partition(".")[0])
    return names


def test_it_is_flat() -> None:
    assert [path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"] == []


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_a_module_imports_nothing_of_ours(module: Path) -> None:
    assert not imported(module) & OURS


@pytest.mark.parametrize("name", [name for name in verifier_texts() if name.endswith(".py")])
def test_the_check_of_the_init_container_needs_the_standard_library_only(name: str) -> None:
    assert imported(PACKAGE / name) <= {*sys.stdlib_module_names, "stager"}


def test_everything_else_that_is_imported_is_locked_with_its_hash() -> None:
    needed = set().union(*map(imported, MODULES)) - set(sys.stdlib_module_names) - {"stager"}
    locked = (PACKAGE / "requirements.txt").read_text()
    for name in needed:
        assert re.search(rf"^{name.replace('_', '-')}==\S+.*\\\n    --hash=sha256:", locked, re.M), name
    assert "://" not in locked


def test_a_run_that_finds_its_work_done_imports_no_client() -> None:
    slow = ("huggingface_hub", "httpx2", "boto3", "botocore")
    code = f"import stager.__main__, sys; print([name for name in {slow!r} if name in sys.modules])"
    ended = subprocess.run([sys.executable, "-c", code], cwd=PACKAGE.parent, capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"


@pytest.mark.parametrize("subcommand", ["prune", "verify"])
def test_pruning_and_verifying_need_no_requirements(subcommand: str, tmp_path: Path) -> None:
    write_staged_tree(tmp_path / ("0" * 16), {"config.json": b"{}"})
    options = {"prune": f"{tmp_path} --keep-newest 0", "verify": f"{tmp_path}/{'0' * 16}"}[subcommand]
    without_packages = [sys.executable, "-S", "-m", "stager", subcommand, *options.split()]
    ended = subprocess.run(without_packages, cwd=PACKAGE.parent, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


@pytest.fixture
def large_tree(tmp_path: Path) -> Path:
    """600 GB in 64 files, as far as the quick check can tell: sparse files, since it does not read large ones."""
    names = [f"model-{number:05d}-of-000064.safetensors" for number in range(1, 65)]
    size = 600_000_000_000 // 64
    files = []
    for name in names:
        with (tmp_path / name).open("wb") as file:
            file.truncate(size)
        status = (tmp_path / name).stat()
        times = {"mtime_ns": status.st_mtime_ns, "ctime_ns": status.st_ctime_ns, "inode": status.st_ino}
        files.append({"path": name, "size": size, "sha256": "0" * 64, **times})
    manifest = {
        "version": 2,
        "repository": "acme/large",
        "revision": COMMIT,
        "commit": COMMIT,
        "files": files,
        "total_bytes": 64 * size,
        "source": "hub",
        "completed_at": "2026-01-01T00:00:00+00:00",
    }
    (tmp_path / ".heavylift").mkdir()
    (tmp_path / ".heavylift/manifest.json").write_text(json.dumps(manifest))
    return tmp_path


@pytest.mark.parametrize(
    "arguments",
    [
        ["stager/verify.py"],
        ["-m", "stager", "stage", "--repository", "acme/large", "--revision", COMMIT, "--directory"],
    ],
    ids=["verify", "stage again"],
)
def test_600_gb_in_64_files_are_checked_within_a_second_of_cpu_time(large_tree: Path, arguments: list[str]) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = subprocess.run(
        [sys.executable, *arguments, large_tree], cwd=PACKAGE.parent, capture_output=True, text=True, check=False
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert ended.returncode == 0, ended.stderr
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1
