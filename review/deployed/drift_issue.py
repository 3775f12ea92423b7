"""One issue a stack on GitHub while it has drifted, or while that cannot be found out."""

from __future__ import annotations

import httpx2

from review.github import ACTIONS_LOGIN, Repository, asked, client, own_entries
from review.text import code, code_block, visible

LABEL = "drift"
"""Label of every such issue."""
NOT_KNOWN = "drift-not-known"
"""Label of an issue of a stack whose drift could not be found out, beside `LABEL`."""
_MOST_SAID = 20_000


def not_known(stack: str, reason: str) -> str:
    """The text of an issue of a stack whose drift could not be found out."""
    return f"### Whether {code(stack)} has drifted is not known\n\n{code_block(reason[:_MOST_SAID].splitlines(), '')}\n"


def keep_issue(
    stack: str,
    text: str,
    target: Repository,
    labels: tuple[str, ...] = (LABEL,),
    login: str = ACTIONS_LOGIN,
    transport: httpx2.BaseTransport | None = None,
) -> str:
    """Makes the stack's open issue say the text; empty: there is no drift. Returns what was done.

    The issue is found by its first line and by the login that opens it. Raises as `review.github.post` does.
    """
    marker = f"<!-- heavylift:drift {visible(stack)} -->"
    body = f"{marker}\n{text}"
    with client(target, transport) as connection:
        issues = f"/repos/{target.name}/issues"
        own = next(own_entries(connection, issues, login, marker, state="open", labels=LABEL), None)
        if own is None:
            if not text:
                return "no issue is open"
            asked(connection, "POST", issues, {"title": f"Drift of {stack}", "body": body, "labels": list(labels)})
            return "opened an issue"
        if not text:
            asked(connection, "PATCH", f"{issues}/{own['number']}", {"state": "closed", "state_reason": "completed"})
            return "closed the issue"
        asked(connection, "PATCH", f"{issues}/{own['number']}", {"body": body, "labels": list(labels)})
        return "edited the issue"
