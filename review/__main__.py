"""Command line of the report: `python -m review plan --base REF`.

Exit status: 0 every stack that changes fits, 1 one is rejected or invalid, 2 no report or not posted, 3 one is unknown.
"""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from io import TextIOWrapper
from pathlib import Path
from signal import SIG_DFL, SIGPIPE, signal

from review.change import Report, compare
from review.checkout import (
    ReviewError,
    commit_of,
    extracted_base,
    has_changes,
    plan_base,
    plan_working_tree,
    reviewed_commit,
)
from review.markdown import markdown
from review.terminal import as_json, terminal

_FORMATS = {"markdown": markdown, "json": as_json, "terminal": terminal}
_SHORT = 7


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one subcommand. Returns the exit status."""
    options = parser().parse_args(arguments)
    try:
        report = planned_report(options.base)
        if text := _FORMATS[options.format](report):
            print(text.rstrip("\n"), flush=True)
        if options.post:
            _publish(markdown(report), options.login)
    except ReviewError as error:
        print(f"review plan: {error}", file=sys.stderr)
        return 2
    return status(report)


def planned_report(base: str) -> Report:
    """The report of the working tree in the current directory. Raises ReviewError."""
    target = commit_of(base)
    with ThreadPoolExecutor(1) as pool:
        planning = pool.submit(plan_working_tree)
        with extracted_base(target, base) as extracted:
            before, fault = plan_base(extracted.root)
        after = planning.result()
    stacks, unchanged = compare(before, after)
    head = reviewed_commit(extracted.commit)[:_SHORT]
    return Report(
        base=extracted.commit[:_SHORT],
        head=f"{head} with uncommitted changes" if has_changes() else head,
        stacks=stacks,
        unchanged=unchanged,
        notes=[*([extracted.note] if extracted.note else []), *([f"before: {fault}"] if fault else [])],
    )


def status(report: Report) -> int:
    """The exit status that follows from the verdicts of what changes."""
    if report.verdicts & {"rejected", "invalid"}:
        return 1
    return 3 if "unknown" in report.verdicts else 0


def _publish(text: str, login: str) -> None:
    """Adds the report to the summary of the workflow's run, and posts it. A fork's token may not post: no failure."""
    # Imported here because it imports an HTTP client, which takes longer than the report.
    from review.github import ACTIONS_LOGIN, NotPermittedError, post, pull_request

    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(text)
    try:
        print(f"review plan: {post(text, pull_request(), login or ACTIONS_LOGIN)}", file=sys.stderr)
    except NotPermittedError as error:
        print(f"review plan: {error}; the report is in the run's summary", file=sys.stderr)


def parser() -> ArgumentParser:
    """The parser of all subcommands."""
    top = ArgumentParser(
        prog="python -m review", description="What a change of stack files means. Run it in the program's directory."
    )
    commands = top.add_subparsers(required=True, metavar="plan")
    planning = commands.add_parser(
        "plan",
        help="compare the plans of all stacks with those of another commit; needs no secret, no state and no cluster",
    )
    planning.add_argument("--base", required=True, metavar="REF", help="branch, tag or commit to compare with")
    planning.add_argument("--format", choices=tuple(_FORMATS), default="terminal", help="default: terminal")
    planning.add_argument(
        "--post",
        action="store_true",
        help="in a workflow of GitHub: also write the report to the run's summary and to one comment of the pull "
        "request, with the token in GITHUB_TOKEN",
    )
    planning.add_argument("--login", metavar="NAME", help="who owns that token; default: the workflow's own")
    return top


if __name__ == "__main__":
    # A closed pipe ends the program silently; characters that the terminal cannot print are replaced.
    signal(SIGPIPE, SIG_DFL)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    sys.exit(main())
