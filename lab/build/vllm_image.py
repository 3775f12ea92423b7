"""Builds an image of vLLM's own release for CPUs, which `make prove-vllm` serves from. No lab needs it.

The wheels come from a package index, which has torch for x86-64 only as the build for CUDA. That build needs 2.5 GB of
CUDA libraries to be loaded, and calls none of them without a GPU. The image leaves them out.
"""

import mmap
import re
import shutil
import struct
from pathlib import Path

from lab.build import debian, images, wheels
from lab.build.cache import Piece, Progress, ensure
from lab.build.golang import PINS

VLLM_IMAGE = "heavylift.lab/vllm-cpu:1"
REQUIREMENTS = PINS / "images/vllm.txt"
SITE = "opt/vllm"
SYSTEM_PACKAGES = ("libnuma1", "util-linux")
"""A library of vLLM's build for CPUs, and `lscpu`, by which it assigns cores to its workers."""
COMMAND = """#!/usr/bin/python3
from vllm.entrypoints.cli.main import main

if __name__ == "__main__":  # vLLM's own processes import this file
    main()
"""
OLDEST_GLIBC, NEWEST_GLIBC = 5, 35
"""Minor versions of glibc 2 whose wheels run in the image, which is of Debian 12 or newer."""

LEFT_OUT = (
    "libcublas.so.13",
    "libcublasLt.so.13",
    "libcudnn.so.9",
    "libcufft.so.12",
    "libcufile.so.0",
    "libcupti.so.13",
    "libcurand.so.10",
    "libcusolver.so.12",
    "libcusparse.so.12",
    "libcusparseLt.so.0",
    "libnccl.so.2",
    "libnvrtc.so.13",
    "libnvshmem_host.so.3",
)
"""Libraries that torch's build for CUDA names, as `readelf -d torch/lib/*.so` lists them."""

# Layout of 64-bit ELF files (refspecs.linuxfoundation.org/elf/gabi4+, "Section Header" and "Symbol Table").
_SECTIONS_AT, _SECTION_SIZE_AT = 0x28, 0x3A
_DYNAMIC_SYMBOLS = 11
_SYMBOL_BYTES = 24
_UNDEFINED, _GLOBAL, _WEAK = 0, 1, 2


def release() -> str:
    """Returns the release of vLLM in the image."""
    [version] = re.findall(r"^vllm-cpu==(\S+)", REQUIREMENTS.read_text(), re.M)
    return str(version)


def _build(workspace: Path, progress: Progress) -> None:
    tree = workspace / "tree"
    tree.mkdir()
    debian.unpack(SYSTEM_PACKAGES, tree, workspace, progress)
    site = tree / SITE
    site.mkdir(parents=True)
    progress.say("(wheels)")
    wheels.install(REQUIREMENTS, site, "--no-deps", *_wheels_for_image())
    _leave_out_cuda(site / "torch/lib")
    _name_as_vllm(site)
    command = tree / "usr/local/bin/vllm"
    command.parent.mkdir(parents=True, exist_ok=True)
    command.write_text(COMMAND)
    command.chmod(0o755)
    progress.say("(image)")
    images.pack_layer(tree, workspace / "layer.tar")
    shutil.rmtree(tree)
    shutil.rmtree(workspace / "apt")
    settings = {"Env": [f"PYTHONPATH=/{SITE}"], "Entrypoint": ["vllm", "serve"]}
    layers = [ensure(images.PYTHON) / "layer.tar", workspace / "layer.tar"]
    images.write_archive(VLLM_IMAGE, layers, settings, workspace / "image.tar")
    (workspace / "layer.tar").unlink()


def _wheels_for_image() -> list[str]:
    """Returns pip's options for wheels that run in the image. Unlike the stager's, some need a newer glibc."""
    version = (ensure(images.PYTHON) / "python-version").read_text()
    platforms = ["manylinux2014", *(f"manylinux_2_{minor}" for minor in range(OLDEST_GLIBC, NEWEST_GLIBC + 1))]
    return [
        "--only-binary=:all:",
        f"--python-version={version}",
        *(f"--platform={platform}_x86_64" for platform in platforms),
    ]


def _name_as_vllm(site: Path) -> None:
    """Writes the metadata of a package `vllm`, from which vLLM reads its version, and that it is a build for CPUs."""
    [packaged] = site.glob("vllm_cpu-*.dist-info")
    named = site / f"vllm-{release()}+cpu.dist-info"
    named.mkdir()
    shutil.copy(packaged / "entry_points.txt", named)
    (named / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {release()}+cpu\n")


def _leave_out_cuda(libraries: Path) -> None:
    """Lets torch load without the CUDA libraries: each name becomes a link, and their missing functions are null.

    A library that needs a missing function does not load, unless the function's symbol is weak.
    """
    for library in sorted(libraries.glob("lib*.so")):
        _make_undefined_weak(library)
    for name in LEFT_OUT:
        (libraries / name).symlink_to("libc10.so")


def _make_undefined_weak(library: Path) -> None:
    """Makes each undefined symbol of a 64-bit ELF library weak."""
    with library.open("r+b") as file, mmap.mmap(file.fileno(), 0) as content:
        [sections] = struct.unpack_from("<Q", content, _SECTIONS_AT)
        size, count = struct.unpack_from("<HH", content, _SECTION_SIZE_AT)
        for index in range(count):
            _, kind, _, _, offset, length = struct.unpack_from("<IIQQQQ", content, sections + index * size)
            if kind != _DYNAMIC_SYMBOLS:
                continue
            for symbol in range(offset, offset + length, _SYMBOL_BYTES):
                _, info, _, section = struct.unpack_from("<IBBH", content, symbol)
                if section == _UNDEFINED and info >> 4 == _GLOBAL:
                    content[symbol + 4] = _WEAK << 4 | info & 0xF


VLLM = Piece(
    "image-vllm-cpu",
    (REQUIREMENTS, COMMAND, *LEFT_OUT, *SYSTEM_PACKAGES, debian.release(), *images.PYTHON_PACKAGES),
    _build,
    "about 5 min",
)
