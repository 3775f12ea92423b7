"""A Pulumi project in a copy of its program: what a person would type, without a trace in the program's own directory.

Creating a stack writes to its stack file, and the engine's environment names one lab: neither belongs in a checkout.
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

# No command of a test or demo takes longer: one that hangs is a failure.
COMMAND_SECONDS = 1200

# Version control, environments, caches, and the rooms that no program imports.
NOT_COPIED = shutil.ignore_patterns(".git", ".venv", ".ci", "__pycache__", ".*_cache", ".hypothesis", "lab", "tests")


@dataclass(frozen=True, repr=False)
class Answer:
    """What a command printed and how it ended."""

    status: int
    output: str

    def __repr__(self) -> str:
        return f"exit status {self.status}\n{self.output}"


@dataclass(frozen=True)
class Project:
    """One stack of a program's copy."""

    directory: Path
    environment: Mapping[str, str]
    stack: str

    @classmethod
    def copy(cls, program: Path, directory: Path, environment: Mapping[str, str], stack: str) -> "Project":
        """Copies the program, anew where there is a copy, and creates or selects the stack."""
        shutil.rmtree(directory, ignore_errors=True)
        shutil.copytree(program, directory, ignore=NOT_COPIED)
        project = cls(directory, environment, stack)
        selected = project.pulumi("stack", "select", "--create", stack)
        if selected.status:
            raise RuntimeError(f"the stack could not be created: {selected}")
        return project

    def pulumi(self, *words: str, shown: bool = False, environment: Mapping[str, str] | None = None) -> Answer:
        """Runs `pulumi WORDS` in the copy; `shown` passes its output on instead of keeping it."""
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
        """Changes the copy's stack file: keys of `heavylift:SECTION`; None takes a section out."""
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
        """`pulumi preview`."""
        return self.pulumi("preview", "--stack", self.stack, *words, environment=environment)

    def up(self, *words: str, **environment: str) -> Answer:
        """`pulumi up`, without its preview and question."""
        return self._change("up", *words, **environment)

    def refresh(self, *words: str, **environment: str) -> Answer:
        """`pulumi refresh`."""
        return self._change("refresh", *words, **environment)

    def destroy(self, *words: str, **environment: str) -> Answer:
        """`pulumi destroy`."""
        return self._change("destroy", *words, **environment)

    def _change(self, action: str, *words: str, **environment: str) -> Answer:
        return self.pulumi(action, "--stack", self.stack, "--yes", "--skip-preview", *words, environment=environment)

    def exported(self) -> str:
        """The stack's state, as text."""
        return self.pulumi("stack", "export", "--stack", self.stack).output

    def outputs(self) -> dict[str, Any]:
        """The stack's outputs."""
        found: dict[str, Any] = json.loads(self.pulumi("stack", "output", "--json", "--stack", self.stack).output)
        return found
