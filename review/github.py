"""GitHub's API: the report as one comment of a pull request, edited in place.

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

_NAME = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)
_PER_PAGE = 100
_TIMEOUT_SECONDS = 30
_MOST_SAID = 200


class NotPermittedError(ReviewError):
    """The token may not write: that of a pull request from a fork never may."""


@dataclass(frozen=True)
class Repository:
    """A repository on GitHub, and a token for its API."""

    api: str
    """Base URL of the API."""
    name: str
    """Owner and name, such as `acme/stacks`."""
    token: str = field(repr=False)


def repository(environment: Mapping[str, str] = os.environ) -> Repository:
    """The repository of the running workflow. Raises ReviewError with everything that is missing."""
    return _repository(environment, [])


def pull_request(environment: Mapping[str, str] = os.environ) -> tuple[Repository, int]:
    """The repository and the number of the pull request of the running workflow.

    Raises ReviewError with everything that is missing.
    """
    number = _number(environment.get("GITHUB_EVENT_PATH", ""))
    missing = ["GITHUB_EVENT_PATH names no event of a pull request: expected on: pull_request"]
    return _repository(environment, missing if number is None else []), number or 0


def post(
    text: str,
    target: Repository,
    number: int,
    login: str = ACTIONS_LOGIN,
    transport: httpx2.BaseTransport | None = None,
    marker: str = MARKER,
) -> str:
    """Makes the pull request show the report: empty text where nothing changes. Returns what was done.

    `marker`: first line of the comment.

    Raises NotPermittedError if the token may not write, and ReviewError for every other answer that is not a success.
    """
    with client(target, transport) as connection:
        comments = f"/repos/{target.name}/issues/{number}/comments"
        own = next(own_entries(connection, comments, login, marker), None)
        if own is None and not text:
            return "nothing to post"
        wanted = text or NOTHING[marker]
        if own is None:
            asked(connection, "POST", comments, {"body": wanted})
            return "posted a comment"
        if own["body"] == wanted:
            return "the comment says it already"
        asked(connection, "PATCH", f"/repos/{target.name}/issues/comments/{own['id']}", {"body": wanted})
        return "edited the comment"


def client(target: Repository, transport: httpx2.BaseTransport | None) -> httpx2.Client:
    """A connection to the API, with the token."""
    headers = {
        "Accept": "application/vnd.github+json",
        "Authorization": f"Bearer {target.token}",
        "X-GitHub-Api-Version": "2022-11-28",
    }
    return httpx2.Client(base_url=target.api, headers=headers, timeout=_TIMEOUT_SECONDS, transport=transport)


def own_entries(
    connection: httpx2.Client, path: str, login: str, marker: str, **query: str
) -> Iterator[dict[str, Any]]:
    """Comments or issues of the login that begin with the marker, in GitHub's order, over all pages."""
    page = 0
    while True:
        page += 1
        entries = asked(connection, "GET", path, query={**query, "per_page": _PER_PAGE, "page": page})
        for entry in entries:
            author = (entry.get("user") or {}).get("login")  # a deleted account has no user
            if author == login and str(entry.get("body")).startswith(marker):
                yield entry
        if len(entries) < _PER_PAGE:
            return


def asked(
    connection: httpx2.Client,
    method: str,
    path: str,
    body: Mapping[str, Any] | None = None,
    query: Mapping[str, str | int] | None = None,
) -> Any:
    """What GitHub answers to one call. Raises as `post` does."""
    try:
        answer = connection.request(method, path, json=body, params=query)
    except httpx2.HTTPError as error:
        raise ReviewError(f"--post: {connection.base_url} cannot be reached: {error}") from None
    if answer.is_success:
        return answer.json()
    why = f"--post: {method} {path}: {answer.status_code} {_message(answer)}"
    if answer.status_code == httpx2.codes.FORBIDDEN:
        raise NotPermittedError(why)
    raise ReviewError(why)


def _repository(environment: Mapping[str, str], missing: list[str]) -> Repository:
    name, token = environment.get("GITHUB_REPOSITORY", ""), environment.get("GITHUB_TOKEN", "")
    if not token:
        missing.append("GITHUB_TOKEN is not set: expected the workflow's token")
    if not _NAME.fullmatch(name):
        missing.append("GITHUB_REPOSITORY is not set: expected owner/name")
    if missing:
        raise ReviewError("\n  ".join(["--post: ", *missing]))
    return Repository(environment.get("GITHUB_API_URL") or "https://api.github.com", name, token)


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
