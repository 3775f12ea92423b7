"""Command line of the report: `python -m review plan | preview | drift | status`.

Exit status of `plan` and `preview`: 0 every stack that changes fits, 1 one is rejected, invalid or refused, 2 no report
or not posted, 3 one is unknown, 4 another report than the one that `--expect` names.
Of `drift`: 0 none, 1 drift, 2 it could not be found out.
Of `status`: 0 a server is ready, 1 none is, 2 it could not be found out.
"""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from io import TextIOWrapper
from pathlib import Path
from signal import SIG_DFL, SIGPIPE, signal

from review.change import Report, compare
from review.checkout import (
    SHORT,
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one subcommand. Returns the exit status."""
    options = parser().parse_args(arguments)
    if options.command == "drift":
        return _drift(options)
    if options.command == "status":
        return _status(options)
    try:
        report = _previewed(options) if options.command == "preview" else planned_report(options.base)
        if text := _FORMATS[options.format](report):
            print(text.rstrip("\n"), flush=True)
        if options.post:
            _publish(options, markdown(report))
    except ReviewError as error:
        print(f"review {options.command}: {error}", file=sys.stderr)
        return 2
    if options.command == "preview" and options.expect not in (None, report.fingerprint):
        print(
            f"review preview: --expect {options.expect}: the report has the fingerprint {report.fingerprint}: stack or "
            "change is not the one that was reviewed; review this report",
            file=sys.stderr,
        )
        return 4
    return status(report)


def _previewed(options: Namespace) -> Report:
    # Imported here because `review plan` needs no engine.
    from review.deployed.preview import previewed_report

    packs = [word for path in options.policy_pack for word in ("--policy-pack", path)]
    configs = [word for path in options.policy_pack_config for word in ("--policy-pack-config", path)]
    return previewed_report(options.stack, [*packs, *configs], options.base)


def _drift(options: Namespace) -> int:
    # Imported here because it imports the cluster's client, which takes longer than `review plan`.
    from review.deployed import drift_report
    from review.deployed.drift import drift_of

    forms = {"markdown": drift_report.markdown, "json": drift_report.as_json, "terminal": drift_report.terminal}
    try:
        drift = drift_of(options.stack, os.environ)
        print(forms[options.format](drift).rstrip("\n"), flush=True)
        if options.post:
            _publish_drift(options, drift_report.markdown(drift), has_drifted=not drift.is_clean)
    except ReviewError as error:
        print(f"review drift: {error}", file=sys.stderr)
        if options.post:
            _publish_unknown_drift(options, str(error))
        return 2
    return 0 if drift.is_clean else 1


def _publish_drift(options: Namespace, text: str, *, has_drifted: bool) -> None:
    """Adds the drift to the summary of the workflow's run, and opens, edits or closes the stack's issue."""
    from review.deployed.drift_issue import keep_issue
    from review.github import repository

    _summarize(text)
    done = keep_issue(options.stack, text if has_drifted else "", repository(), login=_login(options))
    print(f"review drift: {done}", file=sys.stderr)


def _publish_unknown_drift(options: Namespace, reason: str) -> None:
    """Opens or edits the stack's issue if its drift could not be found out."""
    from review.deployed.drift_issue import LABEL, NOT_KNOWN, keep_issue, not_known
    from review.github import repository

    text = not_known(options.stack, reason)
    _summarize(text)
    try:
        done = keep_issue(options.stack, text, repository(), (LABEL, NOT_KNOWN), _login(options))
        print(f"review drift: {done}", file=sys.stderr)
    except ReviewError as error:
        print(f"review drift: {error}", file=sys.stderr)


def _status(options: Namespace) -> int:
    # Imported here because it imports the cluster's client, as `drift` does.
    from review.status.command import show_status

    try:
        return show_status(options.stack, options.format, options.every)
    except ReviewError as error:
        print(f"review status: {error}", file=sys.stderr)
        return 2


def planned_report(base: str) -> Report:
    """The report of the working tree in the current directory. Raises ReviewError."""
    target = commit_of(base)
    with ThreadPoolExecutor(1) as pool:
        planning = pool.submit(plan_working_tree)
        with extracted_base(target, base) as extracted:
            before, fault = plan_base(extracted.root)
        after = planning.result()
    stacks, unchanged = compare(before, after)
    head = reviewed_commit(extracted.commit)[:SHORT]
    return Report(
        base=extracted.commit[:SHORT],
        head=f"{head} with uncommitted changes" if has_changes() else head,
        stacks=stacks,
        unchanged=unchanged,
        notes=[*([extracted.note] if extracted.note else []), *([f"before: {fault}"] if fault else [])],
    )


def status(report: Report) -> int:
    """The exit status that follows from the verdicts of what changes."""
    if report.verdicts & {"rejected", "invalid", "refused"}:
        return 1
    return 3 if "unknown" in report.verdicts else 0


def _publish(options: Namespace, text: str) -> None:
    """Adds the report to the summary of the workflow's run, and posts it. A fork's token may not post: no failure."""
    # Imported here because it imports an HTTP client, which takes longer than the report.
    from review.github import NotPermittedError, post, pull_request
    from review.markdown import MARKER, PREVIEW_MARKER

    marker = PREVIEW_MARKER if options.command == "preview" else MARKER
    _summarize(text)
    try:
        done = post(text, *pull_request(), _login(options), marker=marker)
        print(f"review {options.command}: {done}", file=sys.stderr)
    except NotPermittedError as error:
        print(f"review {options.command}: {error}; the report is in the run's summary", file=sys.stderr)


def _summarize(text: str) -> None:
    """Adds a text to the summary of the workflow's run."""
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(text)


def _login(options: Namespace) -> str:
    from review.github import ACTIONS_LOGIN

    return str(options.login or ACTIONS_LOGIN)


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 1 <= seconds <= 3600:
        raise ValueError
    return seconds


def parser() -> ArgumentParser:
    """The parser of all subcommands."""
    top = ArgumentParser(
        prog="python -m review", description="What a change of stack files means. Run it in the program's directory."
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="plan | preview | drift | status")
    planning = commands.add_parser(
        "plan",
        help="compare the plans of all stacks with those of another commit; needs no secret, no state and no cluster",
    )
    planning.add_argument("--base", required=True, metavar="REF", help="branch, tag or commit to compare with")
    previewing = commands.add_parser(
        "preview",
        help="what `pulumi up` would do to deployed stacks, whether serving stops, and the way back; needs `pulumi`, "
        "the backend and its secrets",
    )
    previewing.add_argument(
        "--stack", action="append", required=True, metavar="NAME", help="may be given several times"
    )
    previewing.add_argument("--base", metavar="REF", help="what a merge merges into, to name its branch's commit")
    previewing.add_argument("--policy-pack", action="append", default=[], metavar="DIR", help="as for `pulumi preview`")
    previewing.add_argument("--policy-pack-config", action="append", default=[], metavar="FILE", help="likewise")
    previewing.add_argument("--expect", metavar="FINGERPRINT", help="fail if the report is not the one that has it")
    drifting = commands.add_parser(
        "drift",
        help="whether a deployed stack is still as the engine left it, and who else wrote fields of its objects; needs "
        "`pulumi`, the backend and the cluster",
    )
    drifting.add_argument("--stack", required=True, metavar="NAME")
    watching = commands.add_parser(
        "status",
        help="pods, what is served, staged weights, queue, KV cache, tokens a second and time to first token of a "
        "deployed stack; needs the cluster, and no Prometheus. On a terminal it refreshes",
    )
    watching.add_argument("--stack", required=True, metavar="NAME")
    watching.add_argument("--format", choices=("terminal", "json"), default="terminal", help="default: terminal")
    watching.add_argument(
        "--every", type=_seconds, default=5.0, metavar="SECONDS", help="time between two readings; default: 5"
    )
    for command in (planning, previewing, drifting):
        command.add_argument("--format", choices=tuple(_FORMATS), default="terminal", help="default: terminal")
        target = "one issue of the stack" if command is drifting else "one comment of the pull request"
        command.add_argument(
            "--post",
            action="store_true",
            help=f"in a workflow of GitHub: also write the report to the run's summary and to {target}, with the token "
            "in GITHUB_TOKEN",
        )
        command.add_argument("--login", metavar="NAME", help="who owns that token; default: the workflow's own")
    return top


if __name__ == "__main__":
    # A closed pipe ends the program silently; characters that the terminal cannot print are replaced.
    signal(SIGPIPE, SIG_DFL)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    sys.exit(main())
