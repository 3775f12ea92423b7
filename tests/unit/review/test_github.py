"""One comment, edited in place, against a double of the three calls."""

import json
from pathlib import Path

import pytest

from review.checkout import ReviewError
from review.github import NotPermittedError, Repository, post, pull_request
from review.markdown import MARKER, NOTHING
from tests.unit.review.github_double import GitHub

TARGET = Repository("https://api.github.com", "acme/stacks", "a-token")
REPORT = f"{MARKER}\n### first\n"


def posted(github: GitHub, text: str = REPORT) -> str:
    return post(text, TARGET, 7, transport=github.transport())


def test_the_first_report_is_posted_and_the_next_one_edits_it() -> None:
    github = GitHub()
    assert posted(github) == "posted a comment"
    assert posted(github, f"{MARKER}\n### second\n") == "edited the comment"
    assert [comment["body"] for comment in github.comments] == [f"{MARKER}\n### second\n"]
    assert github.calls == [
        "issues/list-comments",
        "issues/create-comment",
        "issues/list-comments",
        "issues/update-comment",
    ]


def test_an_equal_report_writes_nothing() -> None:
    github = GitHub()
    posted(github)
    assert posted(github) == "the comment says it already"
    assert github.calls[-1] == "issues/list-comments"


def test_the_comment_is_found_on_any_page() -> None:
    github = GitHub()
    for number in range(250):
        github.add("someone", f"comment {number}")
    own = github.add(github.login, REPORT)
    for number in range(60):
        github.add("someone", f"comment {number}")
    assert posted(github, f"{MARKER}\nnew") == "edited the comment"
    assert own["body"] == f"{MARKER}\nnew"


@pytest.mark.parametrize("count", [99, 100, 101])
def test_a_full_page_is_not_taken_for_the_last(count: int) -> None:
    github = GitHub()
    for number in range(count):
        github.add("someone", f"comment {number}")
    assert posted(github) == "posted a comment"
    assert posted(github) == "the comment says it already"


@pytest.mark.parametrize("login", ["someone", "github-actions", None])
def test_a_comment_of_another_login_is_never_touched(login: str | None) -> None:
    github = GitHub()
    theirs = github.add(login, REPORT + "theirs")
    assert posted(github) == "posted a comment"
    assert theirs["body"] == REPORT + "theirs"


def test_an_own_comment_without_the_marker_is_another_workflow_s() -> None:
    github = GitHub()
    other = github.add(github.login, f"quoted: {REPORT}")
    assert posted(github) == "posted a comment"
    assert other["body"] == f"quoted: {REPORT}"


def test_where_nothing_changes_nothing_is_posted_and_an_old_report_is_taken_back() -> None:
    github = GitHub()
    assert posted(github, "") == "nothing to post"
    assert github.comments == []
    posted(github)
    assert posted(github, "") == "edited the comment"
    assert github.comments[0]["body"] == NOTHING[MARKER]


def test_a_fork_s_token_may_not_write() -> None:
    with pytest.raises(NotPermittedError, match="403 Resource not accessible by integration"):
        posted(GitHub(may_write=False))


@pytest.mark.parametrize(
    ("github", "text", "message"),
    [
        (GitHub(token="another"), REPORT, "401 Bad credentials"),
        (GitHub(), MARKER + "x" * 70_000, "422 body is too long"),
    ],
)
def test_another_answer_is_an_error_without_the_token(github: GitHub, text: str, message: str) -> None:
    with pytest.raises(ReviewError, match=message) as caught:
        posted(github, text)
    assert "a-token" not in str(caught.value)
    assert "a-token" not in repr(TARGET)


def test_an_address_that_does_not_answer_is_an_error() -> None:
    with pytest.raises(ReviewError, match=r"http://127.0.0.1:9 cannot be reached"):
        post(REPORT, Repository("http://127.0.0.1:9", "acme/stacks", "a-token"), 7)


def test_the_workflow_s_environment_names_the_pull_request(tmp_path: Path) -> None:
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"pull_request": {"number": 7}}))
    environment = {"GITHUB_TOKEN": "a-token", "GITHUB_REPOSITORY": "acme/stacks", "GITHUB_EVENT_PATH": str(event)}
    assert pull_request(environment) == (TARGET, 7)
    assert pull_request({**environment, "GITHUB_API_URL": "https://ghes/api/v3"})[0].api == "https://ghes/api/v3"


@pytest.mark.parametrize("event", ["", "{}", "[]", '{"pull_request": {"number": "7"}}', "not JSON"])
def test_outside_of_a_workflow_everything_that_is_missing_is_named(event: str, tmp_path: Path) -> None:
    file = tmp_path / "event.json"
    file.write_text(event)
    with pytest.raises(ReviewError) as caught:
        pull_request({"GITHUB_EVENT_PATH": str(file), "GITHUB_REPOSITORY": "../x y"})
    for name in ("GITHUB_TOKEN", "GITHUB_REPOSITORY", "GITHUB_EVENT_PATH"):
        assert name in str(caught.value)
