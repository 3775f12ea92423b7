"""Runs the committed workflows with `act`, whose jobs are processes on this machine, against a double of GitHub's API.

Not here: GitHub's permissions, environments with their reviewers, `concurrency` and tokens of forks, which act ignores.
`actions/checkout` is act's own copy of the directory. Stand-ins: the actions that install Python and the engine do
nothing, `make` links this environment in place of downloading one, and a file has the token of the job.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from lab.build.cache import ensure
from lab.build.pieces import ACT_PIECE
from lab.site import CHECKOUT

NAME = "acme/stacks"
WORKFLOWS = CHECKOUT / ".github" / "workflows"
IDENTITY = ("-c", "user.name=a", "-c", "user.email=a@example.com")
NOTHING = 'name: stand-in\ndescription: stand-in\nruns: {using: composite, steps: [{run: "true", shell: sh}]}\n'
MAKE = """#!/bin/sh
mkdir -p .venv
for each in bin lib pyvenv.cfg; do ln -sfn "{environment}/$each" ".venv/$each"; done
"""


@dataclass(frozen=True)
class Actions:
    """A git repository with workflows, and what their jobs get from GitHub."""

    repository: Path
    directory: Path
    """For the stand-ins, the events and act's copies."""
    environment: Mapping[str, str]
    """Of the runner: the engine and its backend."""
    api: str
    """Base URL of the double of GitHub's API."""
    token: str

    def git(self, *words: str) -> str:
        """Runs git in the repository, and returns its output."""
        return subprocess.run(
            ["git", *IDENTITY, *words], cwd=self.repository, check=True, capture_output=True, text=True
        ).stdout.strip()

    def commit(self, message: str) -> None:
        """Commits everything."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)

    def pull_request(self, number: int, branch: str, *, fork: bool = False) -> "subprocess.CompletedProcess[str]":
        """Runs the workflow `review` on the merge of a branch into main, as GitHub checks it out."""
        self.git("checkout", "--quiet", "--detach", "main")
        self.git("merge", "--quiet", "--no-ff", "--message", "merge", branch)
        head = {"ref": branch, "sha": self.git("rev-parse", branch), "repo": {"full_name": "x/y" if fork else NAME}}
        event = {"number": number, "pull_request": {"number": number, "head": head, "base": {"ref": "main"}}}
        ended = self.run("pull_request", "review", event)
        self.git("checkout", "--quiet", branch)
        return ended

    def merged(self, branch: str) -> "subprocess.CompletedProcess[str]":
        """Merges a branch into main, and runs the workflow `deploy` for the push."""
        self.git("checkout", "--quiet", "main")
        self.git("merge", "--quiet", "--no-ff", "--message", f"merge {branch}", branch)
        return self.run("push", "deploy", {"ref": "refs/heads/main", "after": self.git("rev-parse", "HEAD")})

    def run(
        self, event: str, workflow: str, payload: Mapping[str, Any], *words: str
    ) -> "subprocess.CompletedProcess[str]":
        """Runs a workflow for an event."""
        file = self.directory / "event.json"
        file.write_text(json.dumps(payload))
        variables = {
            "PULUMI_BACKEND_URL": self.environment["PULUMI_BACKEND_URL"],
            "PREVIEW_ROLE": "arn:aws:iam::123456789012:role/preview",
            "DEPLOY_ROLE": "arn:aws:iam::123456789012:role/deploy",
            "PREVIEW_KUBECONFIG": Path(self.environment["HEAVYLIFT_KUBECONFIG"]).read_text(),
        }
        options = [
            *(word for action in self._stand_ins() for word in ("--local-repository", action)),
            *(word for label in ("ubuntu-24.04", "self-hosted") for word in ("-P", f"{label}=-self-hosted")),
            *(word for name, value in variables.items() for word in ("--var", f"{name}={value}")),
        ]
        return subprocess.run(
            [
                str(ensure(ACT_PIECE) / "act"),
                event,
                f"--workflows=.github/workflows/{workflow}.yml",
                f"--eventpath={file}",
                f"--secret=GITHUB_TOKEN={self.token}",
                f"--env=GITHUB_API_URL={self.api}",
                f"--action-cache-path={self.directory / 'act'}",
                "--no-cache-server",
                *options,
                *words,
            ],
            cwd=self.repository,
            env=self._of_the_runner(),
            capture_output=True,
            text=True,
            check=False,
        )

    def _of_the_runner(self) -> dict[str, str]:
        token = self.directory / "token&audience=sts.amazonaws.com"
        token.write_text('{"value": "a token"}')
        make = self.directory / "bin" / "make"
        make.parent.mkdir(exist_ok=True)
        make.write_text(MAKE.format(environment=sys.prefix))
        make.chmod(0o755)
        return {
            **os.environ,
            **self.environment,
            "HOME": str(self.directory),
            "PATH": f"{make.parent}:{self.environment['PATH']}",
            "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "a request's token",
            "ACTIONS_ID_TOKEN_REQUEST_URL": f"file://{self.directory}/token",
        }

    def _stand_ins(self) -> list[str]:
        """The remote actions of the workflows, each with an action that does nothing."""
        nothing = self.directory / "nothing"
        nothing.mkdir(exist_ok=True)
        (nothing / "action.yml").write_text(NOTHING)
        read = (yaml.safe_load(file.read_text()) for file in WORKFLOWS.glob("*.yml"))
        jobs = [job for workflow in read for job in workflow["jobs"].values()]
        used = {step["uses"] for job in jobs for step in job.get("steps", ()) if "uses" in step}
        return [f"{action}={nothing}" for action in sorted(used) if not action.startswith("actions/checkout@")]
