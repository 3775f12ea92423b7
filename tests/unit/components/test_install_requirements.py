"""The init container's program: what is there is left alone, and what cannot be installed is said in one line."""

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from components.in_pod import install_requirements


def run(folder: Path, requirements: str, locked: str = "") -> subprocess.CompletedProcess[str]:
    """The program as the pod runs it: a file of its own beside the two lists, and no network."""
    program = folder / "install_requirements.py"
    program.write_text(Path(install_requirements.__file__).read_text())
    (folder / "requirements.in").write_text(requirements)
    (folder / "requirements.txt").write_text(locked)
    return subprocess.run(
        [sys.executable, "-I", str(program), str(folder / "packages")],
        capture_output=True,
        text=True,
        check=False,
        env={"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder)},
    )


def test_an_image_that_has_the_requirements_is_left_alone(tmp_path: Path) -> None:
    result = run(tmp_path, "# a comment\npytest>=9\npyyaml\n")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert not (tmp_path / "packages").exists()


def test_only_names_that_are_missing_are_found_missing() -> None:
    assert install_requirements.missing("pytest>=9\nno-such-thing==1\n  # note\n") == ["no-such-thing"]


def test_what_cannot_be_installed_is_said_in_one_line_with_two_ways_out(tmp_path: Path) -> None:
    result = run(tmp_path, "no-such-thing\n", "no-such-thing==1 --hash=sha256:" + "0" * 64 + "\n")
    assert result.returncode == 1
    reason = result.stderr.strip().splitlines()[-1]
    assert reason.startswith("cannot install no-such-thing: ")
    assert "heavylift:stage.image" in reason
    assert "PIP_INDEX_URL" in reason


def wheel(folder: Path) -> str:
    """A wheel of the smallest kind, and its SHA-256."""
    path = folder / "no_such_thing-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("no_such_thing.py", "ANSWER = 42\n")
        archive.writestr(
            "no_such_thing-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: no-such-thing\nVersion: 1\n"
        )
        archive.writestr(
            "no_such_thing-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr("no_such_thing-1.dist-info/RECORD", "")
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_what_is_missing_is_installed_where_the_stager_looks(tmp_path: Path) -> None:
    locked = f"no-such-thing==1 --hash=sha256:{wheel(tmp_path)}\n"
    result = run(tmp_path, "no-such-thing\n", locked)
    assert (result.returncode, result.stdout) == (0, "installing no-such-thing\n")
    assert (tmp_path / "packages" / "no_such_thing.py").read_text() == "ANSWER = 42\n"


@pytest.mark.parametrize("locked", ["no-such-thing==1 --hash=sha256:" + "0" * 64 + "\n", "no-such-thing==1\n"])
def test_what_is_not_what_was_locked_is_not_installed(locked: str, tmp_path: Path) -> None:
    wheel(tmp_path)
    result = run(tmp_path, "no-such-thing\n", locked)
    assert result.returncode == 1
    assert "hash" in result.stderr.lower()
    assert not (tmp_path / "packages").exists()


def test_an_old_python_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 9))
    fault = install_requirements.install(tmp_path)
    assert fault is not None
    assert "expected 3.11 or newer" in fault
