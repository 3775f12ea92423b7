"""One issue a stack, against a double of GitHub's calls."""

import subprocess
import sys
from pathlib import Path

import pytest

from review.checkout import ReviewError
from review.deployed.drift_issue import LABEL, NOT_KNOWN, keep_issue, not_known
from review.github import NotPermittedError, Repository
from tests.program import PROGRAM
from tests.unit.review.github_double import GitHub, served

TARGET = Repository("https://api.github.com", "acme/stacks", "a-token")


def kept(github: GitHub, text: str, stack: str = "h200", labels: tuple[str, ...] = (LABEL,)) -> str:
    return keep_issue(stack, text, TARGET, labels, transport=github.transport())


def labels_of(github: GitHub) -> list[list[str]]:
    return [[label["name"] for label in issue["labels"]] for issue in github.issues]


def test_an_issue_is_opened_edited_and_closed_and_the_next_drift_opens_another() -> None:
    github = GitHub()
    assert kept(github, "") == "no issue is open"
    assert kept(github, "first") == "opened an issue"
    assert kept(github, "second") == "edited the issue"
    [issue] = github.issues
    assert issue["title"] == "Drift of h200"
    assert issue["body"] == "<!-- heavylift:drift h200 -->\nsecond"
    assert kept(github, "") == "closed the issue"
    assert (issue["state"], issue["state_reason"]) == ("closed", "completed")
    assert kept(github, "third") == "opened an issue"
    assert len(github.issues) == 2


def test_each_stack_has_its_own_issue() -> None:
    github = GitHub()
    kept(github, "one", "h200")
    kept(github, "two", "h200-staging")
    assert kept(github, "", "h200") == "closed the issue"
    assert [issue["state"] for issue in github.issues] == ["closed", "open"]


def test_what_could_not_be_found_out_has_a_label_of_its_own_until_it_is_known() -> None:
    github = GitHub()
    text = not_known("h200", "the cluster cannot be reached: ```\n@team")
    assert kept(github, text, labels=(LABEL, NOT_KNOWN)) == "opened an issue"
    assert labels_of(github) == [[LABEL, NOT_KNOWN]]
    assert kept(github, "drifted") == "edited the issue"
    assert labels_of(github) == [[LABEL]]


def test_the_issue_of_another_login_is_never_touched_and_the_own_one_is_found_on_any_page() -> None:
    github = GitHub()
    theirs = github.open("someone", "Drift of h200", "<!-- heavylift:drift h200 -->\ntheirs", [LABEL])
    for number in range(150):
        github.open("someone", f"issue {number}", "text", [LABEL])
    own = github.open(github.login, "Drift of h200", "<!-- heavylift:drift h200 -->\nown", [LABEL])
    assert kept(github, "") == "closed the issue"
    assert (theirs["state"], own["state"]) == ("open", "closed")


def test_a_token_that_may_not_write_is_an_error() -> None:
    with pytest.raises(NotPermittedError, match="403 Resource not accessible by integration"):
        kept(GitHub(may_write=False), "drifted")
    with pytest.raises(ReviewError, match="401"):
        kept(GitHub(token="another"), "drifted")


def test_the_command_opens_an_issue_if_it_cannot_look(tmp_path: Path) -> None:
    """Without an engine on PATH, drift cannot be found out."""
    github = GitHub()
    summary = tmp_path / "summary.md"
    with served(github) as api:
        ended = subprocess.run(
            [sys.executable, "-m", "review", "drift", "--stack", "h200", "--post"],
            cwd=PROGRAM,
            env={
                "PATH": str(tmp_path),
                "GITHUB_API_URL": api,
                "GITHUB_REPOSITORY": "acme/stacks",
                "GITHUB_TOKEN": github.token,
                "GITHUB_STEP_SUMMARY": str(summary),
            },
            capture_output=True,
            text=True,
            check=False,
        )
    assert ended.returncode == 2, ended
    assert "review drift: opened an issue" in ended.stderr
    assert labels_of(github) == [[LABEL, NOT_KNOWN]]
    assert "there is no `pulumi` on PATH" in github.issues[0]["body"]
    assert "h200" in summary.read_text()
