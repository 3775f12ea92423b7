"""Builds programs from pinned Go modules. Each directory of `lab/build/pins/` is one module with versions and sums.

Uses the `go` on PATH if it is new enough, or else a toolchain from a wheel, in the cache.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lab.build import wheels
from lab.build.cache import Piece, Progress, ensure
from lab.errors import LabError
from lab.processes import run

PINS = Path(__file__).parent / "pins"
OLDEST_GO = (1, 26)

# Pinned modules only, no C compiler: the binaries depend on the pins and on nothing else of this machine.
ENVIRONMENT = {
    "CGO_ENABLED": "0",
    "GOTOOLCHAIN": "local",
    "GOFLAGS": "-mod=readonly -buildvcs=false",
    "GOWORK": "off",
}

_TOOLCHAIN = PINS / "go-toolchain.txt"
TOOLCHAIN = Piece(
    "go-toolchain", (_TOOLCHAIN,), lambda workspace, _progress: wheels.install(_TOOLCHAIN, workspace), "about 20 s"
)


def go() -> Path:
    """Returns the `go` on PATH if it is at least `OLDEST_GO`, or else the `go` of a wheel."""
    found = shutil.which("go")
    if found:
        version = re.search(r"go(\d+)\.(\d+)", run(found, "version"))
        if version and (int(version[1]), int(version[2])) >= OLDEST_GO:
            return Path(found)
    # The wheel also has a `bin/go` in Python, which finds this one only if the wheel is installed.
    return ensure(TOOLCHAIN) / "go/bin/go"


@dataclass(frozen=True)
class GoModule:
    """One pinned module: `programs` maps each binary's name to its package.

    `{version}` in `ldflags` stands for the pinned version of `versioned`, the module that the binaries report.
    """

    name: str
    programs: Mapping[str, str]
    expectation: str
    ldflags: str = ""
    versioned: str = ""
    sources: Sequence[str] = field(default=())
    tags: Sequence[str] = ()
    """Build tags, which leave out what the lab does not use."""

    @property
    def directory(self) -> Path:
        """The folder with its go.mod, go.sum and own sources."""
        return PINS / self.name

    @property
    def inputs(self) -> tuple[Path | str, ...]:
        """The inputs of the binaries."""
        files = [self.directory / name for name in ("go.mod", "go.sum", *self.sources)]
        return (*files, self.ldflags, *self.tags, *(f"{name}={package}" for name, package in self.programs.items()))

    def version(self, module: str) -> str:
        """Returns the version of `module` in go.mod, e.g. `v1.34.4`."""
        found = re.search(
            rf"^(?:require|\t)\s*{re.escape(module)} (v\S+)", (self.directory / "go.mod").read_text(), re.M
        )
        if not found:
            raise LabError(f"{self.directory / 'go.mod'} does not require {module}")
        return found[1]

    def module_directory(self, module: str) -> Path:
        """Returns the folder of `module` in Go's module cache, and downloads the module if needed."""
        run(go(), "mod", "download", module, cwd=self.directory, environment=ENVIRONMENT)
        return Path(
            run(go(), "list", "-m", "-f", "{{.Dir}}", module, cwd=self.directory, environment=ENVIRONMENT).strip()
        )

    def build(self, workspace: Path, progress: Progress, *, directory: Path | None = None) -> None:
        """Builds every program into `workspace`, and reports the number of compiled packages."""
        ldflags = f"-s -w {self.ldflags}".strip()
        if self.versioned:
            ldflags = ldflags.replace("{version}", self.version(self.versioned))
        compiled = 0
        for program, package in self.programs.items():
            options = ["-v", "-ldflags", ldflags, *(["-tags", ",".join(self.tags)] if self.tags else [])]
            command = [str(go()), "build", *options, "-o", str(workspace / program), package]
            said: list[str] = []
            with subprocess.Popen(
                command,
                cwd=directory or self.directory,
                env={**os.environ, **ENVIRONMENT},
                stderr=subprocess.PIPE,
                text=True,
            ) as process:
                for line in process.stderr or ():
                    said.append(line)
                    if line.startswith("go: downloading"):
                        progress.say(line.removeprefix("go: ").strip()[:80])
                    else:
                        compiled += 1
                        progress.say(f"({program}: {compiled} packages compiled)")
            if process.returncode:
                raise LabError(f"building {program} in {self.directory} failed:\n{''.join(said[-30:])}")
