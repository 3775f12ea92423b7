"""A double of six calls of GitHub's API: list, create and update issues, and comments of an issue.

It refuses what GitHub's OpenAPI description (tests/data/github) does not have, and answers in pages. Not GitHub itself:
rate limits, permissions by scope and the rendering of comments are not here.
"""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx2

CALLS = json.loads((Path(__file__).parents[2] / "data" / "github" / "calls.json").read_text())
MOST_CHARACTERS = 65_536
"""Of a comment: GitHub answers 422 `body is too long (maximum is 65536 characters)`."""


@dataclass
class GitHub:
    """Issues of one repository, comments of one pull request, and the calls that were made."""

    token: str = "a-token"
    may_write: bool = True
    login: str = "github-actions[bot]"
    comments: list[dict[str, Any]] = field(default_factory=list)
    issues: list[dict[str, Any]] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)

    def transport(self) -> httpx2.MockTransport:
        return httpx2.MockTransport(self.answer)

    def add(self, login: str | None, body: str) -> dict[str, Any]:
        number = len(self.comments) + 1
        times = {"created_at": "2026-12-01T00:00:00Z", "updated_at": "2026-12-01T00:00:00Z"}
        address = f"https://api.github.com/repos/acme/stacks/issues/comments/{number}"
        comment = {"id": number, "node_id": str(number), "html_url": address, "issue_url": address, "url": address}
        comment |= {"user": {"login": login} if login else None, "body": body, **times}
        assert comment.keys() >= set(CALLS["comment"])
        self.comments.append(comment)
        return comment

    def open(self, login: str | None, title: str, body: str, labels: Sequence[str] = ()) -> dict[str, Any]:
        """Opens an issue."""
        number = len(self.issues) + 1
        issue: dict[str, Any] = dict.fromkeys(CALLS["issue"]) | {"id": 1000 + number, "number": number, "title": title}
        issue |= {"user": {"login": login} if login else None, "body": body, "state": "open"}
        issue["labels"] = [{"name": label} for label in labels]
        self.issues.append(issue)
        return issue

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        call, number = self._call(request)
        self.calls.append(call["id"])
        if request.headers["Authorization"] != f"Bearer {self.token}":
            return httpx2.Response(401, json={"message": "Bad credentials"})
        if call["method"] == "GET":
            return self._page(call, request)
        if not self.may_write:
            return httpx2.Response(403, json={"message": "Resource not accessible by integration"})
        sent = json.loads(request.content)
        assert set(call["required"]) <= set(sent) <= set(call["body"])
        if len(sent.get("body", "")) > MOST_CHARACTERS:
            return httpx2.Response(422, json={"message": "body is too long (maximum is 65536 characters)"})
        match call["id"]:
            case "issues/create":
                issue = self.open(self.login, sent["title"], sent["body"], sent["labels"])
                return httpx2.Response(201, json=issue)
            case "issues/update":
                labels = {"labels": [{"name": label} for label in sent["labels"]]} if "labels" in sent else {}
                self.issues[number - 1] |= sent | labels
                return httpx2.Response(200, json=self.issues[number - 1])
            case "issues/create-comment":
                return httpx2.Response(201, json=self.add(self.login, sent["body"]))
        self.comments[number - 1]["body"] = sent["body"]
        return httpx2.Response(200, json=self.comments[number - 1])

    def _page(self, call: dict[str, Any], request: httpx2.Request) -> httpx2.Response:
        assert set(request.url.params) <= set(call["query"])
        size = int(request.url.params.get("per_page", call["per_page"]["default"]))
        assert size <= call["per_page"]["max"]
        start = size * (int(request.url.params.get("page", 1)) - 1)
        found = self.comments if call["id"] == "issues/list-comments" else self._listed(request)
        return httpx2.Response(200, json=found[start : start + size])

    def _listed(self, request: httpx2.Request) -> list[dict[str, Any]]:
        """The issues of a state that have all labels."""
        state, labels = request.url.params.get("state", "open"), set(request.url.params.get("labels", "").split(","))
        return [
            issue
            for issue in self.issues
            if issue["state"] == state and labels <= {label["name"] for label in issue["labels"]}
        ]

    def _call(self, request: httpx2.Request) -> tuple[dict[str, Any], int]:
        """The operation of the description, and the number at the end of the path's own variables."""
        for call in CALLS["operations"]:
            pattern = re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]+)", re.escape(call["path"]))
            found = re.fullmatch(pattern, request.url.path)
            if found and call["method"] == request.method:
                named = found.groupdict()
                return call, int(named.get("comment_id") or named.get("issue_number") or 0)
        raise AssertionError(f"GitHub has no {request.method} {request.url.path}")


@contextmanager
def served(github: GitHub) -> Iterator[str]:
    """The double behind a real HTTP server below `/api/v3`, as GitHub Enterprise Server has it. Yields its address."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path = self.path.removeprefix("/api/v3")
            assert path != self.path
            asked = httpx2.Request(self.command, f"http://github{path}", headers=dict(self.headers), content=content)
            answer = github.answer(asked)
            self.send_response(answer.status_code)
            self.send_header("Content-Length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        do_GET = do_POST = do_PATCH = _answer

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/api/v3"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
