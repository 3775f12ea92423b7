"""The report as one comment of a pull request on GitHub, edited in place.

The comment is found among all comments by its first line and by the login that posts: another person's comment with the
same line is never touched. The token is read from the environment, and appears in no message.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from review.checkout import ReviewError
from review.markdown import MARKER, NOTHING

ACTIONS_LOGIN = "github-actions[bot]"
"""Login of the token that GitHub gives to a workflow."""

_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)
_PER_PAGE = 100
_TIMEOUT_SECONDS = 30
_MOST_SAID = 200


class NotPermittedError(ReviewError):
    """The token may not write: that of a pull request from a fork never may."""


@dataclass(frozen=True)
class PullRequest:
    """Where the comment goes, and with which token."""

    api: str
    repository: str
    number: int
    token: str = field(repr=False)


def pull_request(environment: Mapping[str, str] = os.environ) -> PullRequest:
    """The pull request of the running workflow. Raises ReviewError with everything that is missing."""
    repository, token = environment.get("GITHUB_REPOSITORY", ""), environment.get("GITHUB_TOKEN", "")
    number = _number(environment.get("GITHUB_EVENT_PATH", ""))
    missing = [
        text
        for text, is_missing in (
            ("GITHUB_TOKEN is not set: expected the workflow's token", not token),
            ("GITHUB_REPOSITORY is not set: expected owner/name", not _REPOSITORY.fullmatch(repository)),
            ("GITHUB_EVENT_PATH names no event of a pull request: expected on: pull_request", number is None),
        )
        if is_missing
    ]
    if missing or number is None:
        raise ReviewError("\n  ".join(["--post: ", *missing]))
    return PullRequest(environment.get("GITHUB_API_URL") or "https://api.github.com", repository, number, token)


def post(
    text: str,
    target: PullRequest,
    login: str = ACTIONS_LOGIN,
    transport: httpx2.BaseTransport | None = None,
    marker: str = MARKER,
) -> str:
    """Makes the pull request show the report: empty text where nothing changes. Returns what was done.

    `marker`: first line of the comment.

    Raises NotPermittedError if the token may not write, and ReviewError for every other answer that is not a success.
    """
    with _client(target, transport) as client:
        own = next(_own_comments(client, target, login, marker), None)
        if own is None and not text:
            return "nothing to post"
        wanted = text or NOTHING[marker]
        if own is None:
            _asked(client, "POST", f"/repos/{target.repository}/issues/{target.number}/comments", {"body": wanted})
            return "posted a comment"
        if own["body"] == wanted:
            return "the comment says it already"
        _asked(client, "PATCH", f"/repos/{target.repository}/issues/comments/{own['id']}", {"body": wanted})
        return "edited the comment"


def _client(target: PullRequest, transport: httpx2.BaseTransport | None) -> httpx2.Client:
    headers = {
        "Accept": "application/vnd.github+json",
        "Authorization": f"Bearer {target.token}",
        "X-GitHub-Api-Version": "2022-11-28",
    }
    return httpx2.Client(base_url=target.api, headers=headers, timeout=_TIMEOUT_SECONDS, transport=transport)


def _own_comments(client: httpx2.Client, target: PullRequest, login: str, marker: str) -> Iterator[dict[str, Any]]:
    """Comments of the login that begin with the marker, oldest first, over all pages."""
    page = 0
    while True:
        page += 1
        path = f"/repos/{target.repository}/issues/{target.number}/comments?per_page={_PER_PAGE}&page={page}"
        comments = _asked(client, "GET", path)
        for comment in comments:
            author = (comment.get("user") or {}).get("login")  # a deleted account has no user
            if author == login and str(comment.get("body")).startswith(marker):
                yield comment
        if len(comments) < _PER_PAGE:
            return


def _asked(client: httpx2.Client, method: str, path: str, body: Mapping[str, str] | None = None) -> Any:
    try:
        answer = client.request(method, path, json=body)
    except httpx2.HTTPError as error:
        raise ReviewError(f"--post: {client.base_url} cannot be reached: {error}") from None
    if answer.is_success:
        return answer.json()
    why = f"--post: {method} {path.partition('?')[0]}: {answer.status_code} {_message(answer)}"
    if answer.status_code == httpx2.codes.FORBIDDEN:
        raise NotPermittedError(why)
    raise ReviewError(why)


def _message(answer: httpx2.Response) -> str:
    try:
        return str(answer.json()["message"])[:_MOST_SAID]
    except (ValueError, KeyError, TypeError):
        return answer.reason_phrase


def _number(event: str) -> int | None:
    """The number of the pull request in the event's file."""
    try:
        number = json.loads(Path(event).read_text(encoding="utf-8"))["pull_request"]["number"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return number if isinstance(number, int) else None
