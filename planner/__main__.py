"""The planner's command line: `python -m planner fit | show | recommend | explain`.

Exit status: 0 fits or tight, 1 rejected, 2 invalid value or option, 3 unknown.
"""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import fields
from io import TextIOWrapper
from math import inf
from pathlib import Path
from signal import SIG_DFL, SIGPIPE, signal

from config.catalogue import NotInCatalogueError, find_gpu
from config.checkpoint.directory import DirectoryError
from config.checkpoint.model_spec import find_model
from config.engine_name import EngineName
from engines.plan import Plan
from engines.registry import engine_for
from engines.request import FitRequest
from engines.speed import Workload
from planner.command_line import flag, parser
from planner.faults import faults, unlisted_gpu
from planner.fit import fit, with_workload
from planner.recommend import Query, Recommendation, recommend, with_more_nodes
from planner.report.chart import chart
from planner.report.explain import explain
from planner.report.picture import picture
from planner.report.recommendations import table
from planner.report.show import list_models, show
from planner.report.summary import summary
from planner.speed import speeds_over_users
from planner.targets import Targets

_STATUS = {"fits": 0, "tight": 0, "rejected": 1, "unknown": 3}
_USAGE = 2
_WORKLOAD = ("prompt_tokens", "answer_tokens")


class UsageError(Exception):
    """An invalid command line."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one subcommand. Returns the exit status."""
    options = parser().parse_args(arguments)
    commands = {"fit": _fit, "explain": _explain, "show": _show, "recommend": _recommend}
    try:
        return commands[options.command](options)
    except (UsageError, NotInCatalogueError, DirectoryError) as error:
        print(f"planner: {error}", file=sys.stderr)
        return _USAGE


def _fit(options: Namespace) -> int:
    request = _request(options)
    plan = fit(request)
    plan = with_workload(plan, request, _workload(options, plan))
    if options.svg:
        _draw(options.svg, picture(request, plan), "--svg")
    if options.chart:
        speeds = speeds_over_users(plan, request, find_model(request.model, request.include)) if plan.speed else ()
        if not speeds:
            raise UsageError(f"--chart {options.chart}: no speed is known of a plan that is {plan.verdict}")
        _draw(options.chart, chart(request, plan, speeds), "--chart")
    if options.json:
        print(json.dumps(plan.as_dict(), indent=2))
    else:
        print(summary(request, plan, colour=sys.stdout.isatty()))
        for warning in plan.warnings:
            print(f"  warning {warning.code}: {warning.message}")
    return _STATUS[plan.verdict]


def _workload(options: Namespace, plan: Plan) -> Workload | None:
    """The requests that the options describe. None: the default ones. Raises UsageError."""
    given = _lengths(options)
    workload = Workload(**given)
    if given and plan.context is not None and workload.tokens > plan.context:
        _refuse([f"--prompt-tokens + --answer-tokens: {workload.tokens:,}: the plan has a context of {plan.context:,}"])
    return workload if given else None


def _lengths(options: Namespace) -> dict[str, int]:
    """The tokens that the options state of requests. Raises UsageError."""
    given = {name: value for name in _WORKLOAD if (value := getattr(options, name)) is not None}
    _refuse(
        [f"{flag(name)}: {given[name]}: expected a whole number of at least 1" for name in given if given[name] < 1]
    )
    return given


def _draw(file: Path, text: str, option: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as fault:
        raise UsageError(f"{option} {file}: cannot be written ({fault.strerror})") from fault


def _explain(options: Namespace) -> int:
    request = _request(options)
    plan = fit(request)
    print(explain(request, with_workload(plan, request, _workload(options, plan))))
    return _STATUS[plan.verdict]


def _show(options: Namespace) -> int:
    print(show(find_model(options.model)) if options.model else list_models())
    return 0


def _recommend(options: Namespace) -> int:
    _check_query(options)
    names = (field.name for field in fields(Query))
    given = {name: value for name in names if (value := getattr(options, name, None)) is not None}
    query = Query(**given, targets=_targets(options))
    if options.write is not None:
        _check_draft(options.write)
    found = recommend(query)
    print(table(found, with_more_nodes(query, found)))
    if options.write is not None and found:
        _write(_chosen(found, options.row), options.write)
    return 0 if found else 1


def _targets(options: Namespace) -> Targets | None:
    """The speed that the options ask for. None: they do not say how fast, or for how many users."""
    if options.users is None and options.target_tps is None and options.target_ttft is None:
        return None
    return Targets(options.users or 1, options.target_tps, options.target_ttft, Workload(**_lengths(options)))


def _chosen(found: tuple[Recommendation, ...], row: str | None) -> Recommendation:
    """The row of a number or of a checkpoint's name; the first row without either."""
    if row is None:
        return found[0]
    if row.isdecimal() and 1 <= int(row) <= len(found):
        return found[int(row) - 1]
    named = [each for each in found if each.checkpoint.name == row.lower()]
    if not named:
        raise UsageError(f"--row: {row} is not in the table: expected a number from 1 to {len(found)}, or a checkpoint")
    return named[0]


# The modules about stack files are imported where they are used: pydantic takes longer than a recommendation.


def _check_draft(stack: str) -> None:
    from config.errors import StackError
    from planner.draft import new_stack_file

    try:
        new_stack_file(stack)
    except StackError as error:
        raise UsageError(f"--write: {error}") from error


def _write(best: Recommendation, stack: str) -> None:
    from config.errors import StackError
    from planner.draft import write_draft

    try:
        file = write_draft(best, stack)
    except StackError as error:
        raise UsageError(f"--write: {error}") from error
    print(f"\nwrote {file}: {best.checkpoint.name} on {best.machine}; fill in the values in angle brackets")


def _check_query(options: Namespace) -> None:
    """Raises UsageError with every invalid option of `recommend`."""
    wrong = [
        f"{flag(name)}: {value} is not valid: expected {kind} of at least {least}"
        for name, kind, least in (
            ("usd_per_hour", "dollars", 0),
            ("usd_per_gpu_hour", "dollars", 0),
            ("nodes", "a whole number", 1),
            ("gpus_per_node", "a whole number", 1),
            ("max_model_len", "a whole number", 1),
            ("users", "a whole number", 1),
            ("target_tps", "tokens per second", 0),
            ("target_ttft", "seconds", 0),
        )
        if (value := getattr(options, name)) is not None and not least <= value < inf
    ]
    if options.gpu is None:
        wrong += [
            f"{flag(name)}: {value} requires --gpu: set the kind of the GPUs too"
            for name in ("nodes", "gpus_per_node")
            if (value := getattr(options, name)) is not None
        ]
    elif find_gpu(options.gpu).memory_bytes is None:
        wrong.append(
            f"--gpu: the memory of {options.gpu} as torch reports it is not known: nothing can be planned on it"
        )
    if options.row is not None and options.write is None:
        wrong.append("--row: requires --write: it chooses the row that is written")
    if options.write is not None and options.gpu is None:
        wrong.append("--write: requires --gpu: a drafted stack file names the nodes that have these GPUs")
    _refuse(wrong)


def _refuse(wrong: Sequence[str]) -> None:
    if wrong:
        raise UsageError("\n  ".join(wrong))


def _request(options: Namespace) -> FitRequest:
    """The request that the options describe. Raises UsageError with every invalid value."""
    names = {field.name for field in fields(FitRequest)}
    given = {name: value for name, value in vars(options).items() if name in names and value is not None}
    if options.stack is not None:
        request = _of_stack(options.stack, sorted(given))
        # Of a stack file that is valid, only values of its engine can be faults.
        _refuse([f"heavylift:engine.{fault.name.removeprefix('engine_')}: {fault.text}" for fault in faults(request)])
        return request
    if not given.get("model"):
        raise UsageError("--model is missing: expected a name such as kimi-k2.5, a repository or a directory")
    for name in ("include", "extra_args"):
        given[name] = tuple(given.get(name, ()))
    given.setdefault("engine", _engine(given["model"], given["include"]))
    given.setdefault("gpus_per_node", _gpus_per_node(given))
    request = FitRequest(**given)
    _refuse([f"{flag(fault.name)}: {fault.text}" for fault in (*unlisted_gpu(request), *faults(request))])
    return request


def _of_stack(name: str, given: list[str]) -> FitRequest:
    # Imported here because these modules import pydantic, which takes longer than the plan itself.
    from config.errors import StackError
    from planner.stack_request import request_of_named_stack

    if given:
        left_out = ", ".join(flag(option) for option in given)
        raise UsageError(f"--stack {name} takes everything from its file: leave out {left_out}")
    try:
        return request_of_named_stack(name)
    except StackError as error:
        raise UsageError("\n  ".join(error.faults)) from error


def _engine(model: str, include: tuple[str, ...]) -> EngineName:
    """The engine that reads the model, or the default engine for an unknown model."""
    try:
        return engine_for(find_model(model, include).checkpoint.format)
    except NotInCatalogueError:
        return FitRequest(model=model).engine


def _gpus_per_node(given: dict[str, int]) -> int:
    """GPUs per node that the layout needs; 8 without a layout."""
    sizes = [
        given.get(name)
        for name in ("tensor_parallel", "pipeline_parallel", "data_parallel", "prefill_context_parallel")
    ]
    if not any(sizes):
        return 8
    gpus = 1
    for size in sizes:
        gpus *= size or 1
    return max(1, -(-gpus // max(1, given.get("nodes", 1))))


if __name__ == "__main__":
    # A closed pipe ends the program silently; characters that the terminal cannot print are replaced.
    signal(SIGPIPE, SIG_DFL)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    sys.exit(main())
