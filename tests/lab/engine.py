"""A Pulumi project on the lab's engine: a copy of a program, with the commands a person would type."""

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# No test waits longer: a command that hangs is a failure.
COMMAND_SECONDS = 600

# State, caches and what git leaves alone have no place in a copy.
NOT_COPIED = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", ".hypothesis", "lab", "tests")


@dataclass(frozen=True)
class Answer:
    """What a command printed and how it ended."""

    status: int
    output: str

    def __str__(self) -> str:
        return f"exit status {self.status}\n{self.output}"


@dataclass(frozen=True)
class Project:
    """One stack of a program's copy. Nothing is written to the program's own directory."""

    directory: Path
    environment: dict[str, str]
    stack: str

    @classmethod
    def copy(cls, program: Path, directory: Path, environment: dict[str, str], stack: str) -> "Project":
        """Copies the program and creates the stack (which may have a stack file already)."""
        shutil.copytree(program, directory, ignore=NOT_COPIED)
        project = cls(directory, environment, stack)
        created = project.pulumi("stack", "init", stack)
        assert created.status == 0, created
        return project

    def pulumi(self, *words: str, **environment: str) -> Answer:
        """Runs `pulumi WORDS` in the copy."""
        answer = subprocess.run(
            ["pulumi", *words, "--non-interactive", "--color=never"],
            cwd=self.directory,
            env={**os.environ, **self.environment, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        return Answer(answer.returncode, answer.stdout)

    def preview(self, *words: str, **environment: str) -> Answer:
        """`pulumi preview`."""
        return self.pulumi("preview", "--stack", self.stack, *words, **environment)

    def up(self, *words: str, **environment: str) -> Answer:
        """`pulumi up`, without its preview and question."""
        return self.pulumi("up", "--stack", self.stack, "--yes", "--skip-preview", *words, **environment)

    def refresh(self, *words: str, **environment: str) -> Answer:
        """`pulumi refresh`."""
        return self.pulumi("refresh", "--stack", self.stack, "--yes", "--skip-preview", *words, **environment)

    def destroy(self, *words: str, **environment: str) -> Answer:
        """`pulumi destroy`."""
        return self.pulumi("destroy", "--stack", self.stack, "--yes", "--skip-preview", *words, **environment)

    def exported(self) -> str:
        """The stack's state, as text."""
        return self.pulumi("stack", "export", "--stack", self.stack).output

    def outputs(self) -> dict[str, Any]:
        """The stack's outputs."""
        found: dict[str, Any] = json.loads(self.pulumi("stack", "output", "--json", "--stack", self.stack).output)
        return found
