"""The package index, with pip as its client."""

import base64
import hashlib
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.hub.client import HubClient, running_hub

from .plain_http import fetch

WHEEL = "Lab_Sample.Package-1.0-py3-none-any.whl"


def write_wheel(path: Path) -> None:
    project, version = path.name.split("-")[:2]
    about = f"{project}-{version}.dist-info"
    files = {
        "lab_sample.py": b"ANSWER = 42\n",
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {project}\nVersion: {version}\n".encode(),
        f"{about}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = f"{about}/RECORD"
    lines = [
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip('=')},{len(content)}"
        for name, content in files.items()
    ]
    files[record] = "\n".join([*lines, f"{record},,"]).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("wheels") / WHEEL
    write_wheel(path)
    return path


@pytest.fixture(scope="module")
def index(wheel: Path) -> Iterator[HubClient]:
    with running_hub({}, wheels=wheel.parent) as hub:
        yield hub


def pip_download(index: HubClient, directory: Path, sha256: str) -> subprocess.CompletedProcess[str]:
    requirements = directory / "requirements.txt"
    requirements.write_text(f"lab-sample-package==1.0 --hash=sha256:{sha256}\n")
    pip = [sys.executable, "-m", "pip", "--isolated", "--no-cache-dir", "--disable-pip-version-check", "download"]
    options = ["--index-url", index.index_url, "--require-hashes", "--no-deps", "-r", str(requirements), "-d"]
    command = [*pip, *options, str(directory)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_pip_downloads_what_its_hash_lock_names(index: HubClient, wheel: Path, tmp_path: Path) -> None:
    done = pip_download(index, tmp_path, hashlib.sha256(wheel.read_bytes()).hexdigest())
    assert done.returncode == 0, done.stderr
    assert (tmp_path / WHEEL).read_bytes() == wheel.read_bytes()


def test_pip_refuses_a_wheel_of_another_hash(index: HubClient, tmp_path: Path) -> None:
    done = pip_download(index, tmp_path, "0" * 64)
    assert done.returncode != 0
    assert "THESE PACKAGES DO NOT MATCH THE HASHES" in done.stderr


def test_the_index_links_each_wheel_with_its_hash(index: HubClient, wheel: Path) -> None:
    sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert b'<a href="/simple/lab-sample-package/">' in fetch(index.index_url).body
    for spelling in ("lab-sample-package", "Lab_Sample.Package"):
        page = fetch(f"{index.index_url}{spelling}/").body.decode()
        assert f'<a href="/wheels/{WHEEL}#sha256={sha256}">' in page


def test_a_wheel_can_be_had_in_ranges(index: HubClient, wheel: Path) -> None:
    answer = fetch(f"{index.url}/wheels/{WHEEL}", headers={"Range": "bytes=-22"})
    assert (answer.status, answer.body) == (206, wheel.read_bytes()[-22:])


def test_what_is_not_there_is_not_found(index: HubClient) -> None:
    for path in ("/simple/none/", "/wheels/none-1.0-py3-none-any.whl", "/wheels/..%2f..%2fetc%2fpasswd"):
        assert fetch(f"{index.url}{path}").status == 404


def test_a_wheel_added_later_is_found(index: HubClient, wheel: Path) -> None:
    write_wheel(wheel.with_name("later-2.0-py3-none-any.whl"))
    assert fetch(f"{index.index_url}later/").status == 200
