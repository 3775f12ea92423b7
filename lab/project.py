"""Runs `pulumi` on a copy of a program, and leaves the program's own directory unchanged.

The copy is needed because `pulumi stack init` changes the stack file.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

# Longer than any command of a test or demo takes. A command that hangs fails.
COMMAND_SECONDS = 1200

# Version control, environments, caches, and folders that no program imports.
NOT_COPIED = shutil.ignore_patterns(".git", ".venv", ".ci", "__pycache__", ".*_cache", ".hypothesis", "lab", "tests")


@dataclass(frozen=True, repr=False)
class Answer:
    """The output and exit status of a command."""

    status: int
    output: str

    def __repr__(self) -> str:
        return f"exit status {self.status}\n{self.output}"


@dataclass(frozen=True)
class Project:
    """One stack of a copied program."""

    directory: Path
    environment: Mapping[str, str]
    stack: str

    @classmethod
    def copy(cls, program: Path, directory: Path, environment: Mapping[str, str], stack: str) -> "Project":
        """Copies the program, replacing an earlier copy, and creates or selects the stack."""
        shutil.rmtree(directory, ignore_errors=True)
        shutil.copytree(program, directory, ignore=NOT_COPIED)
        project = cls(directory, environment, stack)
        selected = project.pulumi("stack", "select", "--create", stack)
        if selected.status:
            raise RuntimeError(f"the stack could not be created: {selected}")
        return project

    def pulumi(self, *words: str, shown: bool = False, environment: Mapping[str, str] | None = None) -> Answer:
        """Runs `pulumi WORDS` in the copy. `shown` prints the output instead of returning it."""
        answer = subprocess.run(
            ["pulumi", *words, "--non-interactive", "--color=never"],
            cwd=self.directory,
            env={**os.environ, **self.environment, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=None if shown else subprocess.PIPE,
            stderr=None if shown else subprocess.STDOUT,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        return Answer(answer.returncode, answer.stdout or "")

    def configure(self, **sections: Mapping[str, Any] | None) -> None:
        """Sets keys of `heavylift:SECTION` in the copy's stack file. None: removes the section."""
        file = self.directory / f"Pulumi.{self.stack}.yaml"
        content = yaml.safe_load(file.read_text())
        for section, changes in sections.items():
            key = f"heavylift:{section}"
            if changes is None:
                content["config"].pop(key, None)
            else:
                content["config"][key] = {**content["config"].get(key, {}), **changes}
        file.write_text(yaml.safe_dump(content, sort_keys=False))

    def preview(self, *words: str, **environment: str) -> Answer:
        """Runs `pulumi preview`."""
        return self.pulumi("preview", "--stack", self.stack, *words, environment=environment)

    def up(self, *words: str, **environment: str) -> Answer:
        """Runs `pulumi up` without preview and confirmation."""
        return self._change("up", *words, **environment)

    def refresh(self, *words: str, **environment: str) -> Answer:
        """Runs `pulumi refresh` without preview and confirmation."""
        return self._change("refresh", *words, **environment)

    def destroy(self, *words: str, **environment: str) -> Answer:
        """Runs `pulumi destroy` without preview and confirmation."""
        return self._change("destroy", *words, **environment)

    def _change(self, action: str, *words: str, **environment: str) -> Answer:
        return self.pulumi(action, "--stack", self.stack, "--yes", "--skip-preview", *words, environment=environment)

    def exported(self) -> str:
        """Returns the stack's state as text."""
        return self.pulumi("stack", "export", "--stack", self.stack).output

    def outputs(self) -> dict[str, Any]:
        """Returns the stack's outputs."""
        found: dict[str, Any] = json.loads(self.pulumi("stack", "output", "--json", "--stack", self.stack).output)
        return found
