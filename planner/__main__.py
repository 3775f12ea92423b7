"""The planner's command line: `python -m planner fit | show | recommend | explain`.

Exit status: 0 fits or tight, 1 rejected, 2 a value or option that means nothing, 3 unknown.
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Sequence
from dataclasses import fields
from io import TextIOWrapper
from math import inf
from pathlib import Path
from signal import SIG_DFL, SIGPIPE, signal

from config.catalogue import NotInCatalogueError, find_checkpoint, find_gpu
from planner.directory import DirectoryError
from planner.explain import explain
from planner.fit import fit
from planner.picture import picture
from planner.plan import Plan
from planner.recommend import DEFAULT_CONTEXT, Wish, recommend, table
from planner.request import FitRequest
from planner.show import list_models, show
from planner.subject import find_subject
from planner.summary import summary

_JSON_KEYS = """
With --json: verdict; problems [{code, message, fix}]; warnings [{code, message}]; layout {tp, pp, dp, ep, dcp};
per_gpu {budget_gib, weights_gib, overhead_gib [likely, worst], kv_gib [worst, likely], kv_bytes_per_token} of the
fullest GPU; kv_tokens [worst, likely]; max_context, the longest that surely fits; weights_bytes; disk_bytes;
download_seconds; load_seconds; cost_per_hour_usd; engine_args; engine_env. What is not known is null.

Exit status: 0 fits or tight, 1 rejected, 2 a value or option that means nothing, 3 unknown.
"""

_STATUS = {"fits": 0, "tight": 0, "rejected": 1, "unknown": 3}
_USAGE = 2


class UsageError(Exception):
    """A command that means nothing."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status."""
    options = _parser().parse_args(arguments)
    try:
        status: int = options.command(options)
    except (UsageError, NotInCatalogueError, DirectoryError) as error:
        print(f"planner: {error}", file=sys.stderr)
        return _USAGE
    return status


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="python -m planner", description="Does a model fit, with which flags, how long, how much."
    )
    commands = parser.add_subparsers(required=True, metavar="fit | show | recommend | explain")
    planned = commands.add_parser(
        "fit",
        help="the verdict on a model, GPUs and engine settings",
        epilog=_JSON_KEYS,
        formatter_class=RawDescriptionHelpFormatter,
    )
    _add_request(planned)
    planned.add_argument("--json", action="store_true", help="print the plan as JSON")
    planned.add_argument("--svg", metavar="FILE", type=Path, help="also draw the memory of each GPU into a file")
    planned.set_defaults(command=_fit)
    explained = commands.add_parser("explain", help="the arithmetic of a verdict, line by line")
    _add_request(explained)
    explained.set_defaults(command=_explain)
    shown = commands.add_parser("show", help="what a model is made of; without a model, the catalogue")
    shown.add_argument("model", nargs="?", help="name, repository or directory")
    shown.set_defaults(command=_show)
    recommended = commands.add_parser("recommend", help="models and machines that fit, smallest first")
    _add_wish(recommended)
    recommended.set_defaults(command=_recommend)
    return parser


def _add_request(parser: ArgumentParser) -> None:
    """Options named after the engine's; each sets the field of the request that `dest` names."""
    parser.add_argument("--stack", metavar="NAME", help="take everything from Pulumi.NAME.yaml")
    group = parser.add_argument_group("request")
    group.add_argument("--model", metavar="NAME|DIR", help="catalogue name, repository, or directory of a checkpoint")
    group.add_argument("--include", action="append", metavar="PATTERN", help="files that are staged")
    group.add_argument("--gpu", metavar="NAME", help="such as h200; none: llama.cpp on the processor")
    group.add_argument("--nodes", type=int, metavar="N")
    group.add_argument("--gpus-per-node", type=int, metavar="N", help="default: what the layout takes, else 8")
    group.add_argument("--fabric", choices=("none", "infiniband", "efa"), help="between nodes")
    group.add_argument("--driver", metavar="VERSION", help="NVIDIA driver of the nodes")
    group.add_argument("--instance-type", metavar="TYPE", help="EC2 instance type, for its price")
    group.add_argument("--usd-per-gpu-hour", type=float, metavar="USD", help="what a GPU costs")
    group.add_argument("--tp", type=int, metavar="N", dest="tensor_parallel", help="tensor parallel")
    group.add_argument("--pp", type=int, metavar="N", dest="pipeline_parallel", help="pipeline parallel")
    group.add_argument("--dp", type=int, metavar="N", dest="data_parallel", help="data parallel")
    group.add_argument("--ep", action="store_true", default=None, dest="expert_parallel", help="expert parallel")
    group.add_argument("--dcp", type=int, metavar="N", dest="decode_context_parallel", help="decode context parallel")
    group.add_argument("--max-model-len", type=int, metavar="TOKENS")
    group.add_argument("--max-num-seqs", type=int, metavar="N")
    group.add_argument("--max-num-batched-tokens", type=int, metavar="N")
    group.add_argument("--kv-cache-dtype", metavar="TYPE")
    group.add_argument("--gpu-memory-utilization", type=float, metavar="SHARE")
    group.add_argument("--block-size", type=int, metavar="TOKENS")
    group.add_argument("--quantization", metavar="METHOD")
    group.add_argument("--mm-encoder-tp-mode", choices=("data", "weights"))
    group.add_argument("--language-model-only", action="store_true", default=None)
    group.add_argument("--expert-offload", action="store_true", default=None, help="llama.cpp: experts in host memory")
    group.add_argument("--engine", choices=("vllm", "llama.cpp"), help="default: llama.cpp for GGUF, else vllm")
    group.add_argument("--engine-version", metavar="VERSION")
    group.add_argument("--extra-arg", action="append", metavar="ARG", dest="extra_args", help="as --extra-arg=--flag")
    group.add_argument(
        "--available-kv-gib", type=float, metavar="GIB", help="tokens that this much cache per GPU holds"
    )


def _add_wish(parser: ArgumentParser) -> None:
    parser.add_argument("--quality", choices=("good", "high", "frontier"))
    parser.add_argument("--budget", type=float, metavar="USD", help="dollars per hour")
    parser.add_argument("--gpu", metavar="NAME", help="kind of the GPUs at hand; none: what can be rented on EC2")
    parser.add_argument("--gpus-per-node", type=int, default=8, metavar="N")
    parser.add_argument("--nodes", type=int, default=1, metavar="N")
    parser.add_argument("--usd-per-gpu-hour", type=float, metavar="USD")
    parser.add_argument("--max-model-len", type=int, default=DEFAULT_CONTEXT, metavar="TOKENS")


def _fit(options: Namespace) -> int:
    request = _request(options)
    plan = fit(request)
    if options.svg:
        _draw(options.svg, picture(request, plan))
    if options.json:
        print(json.dumps(plan.as_dict(), indent=2))
    elif all(problem.code == "value_not_valid" for problem in plan.problems) and plan.problems:
        raise UsageError("\n  ".join(problem.message for problem in plan.problems))
    else:
        print(summary(request, plan, colour=sys.stdout.isatty()))
        for warning in plan.warnings:
            print(f"  warning {warning.code}: {warning.message}")
    return _status(plan)


def _draw(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as fault:
        raise UsageError(f"--svg {file}: cannot be written ({fault.strerror})") from fault


def _status(plan: Plan) -> int:
    if plan.problems and all(problem.code == "value_not_valid" for problem in plan.problems):
        return _USAGE
    return _STATUS[plan.verdict]


def _explain(options: Namespace) -> int:
    request = _request(options)
    print(explain(request))
    return _status(fit(request))


def _show(options: Namespace) -> int:
    print(show(find_subject(options.model)) if options.model else list_models())
    return 0


def _recommend(options: Namespace) -> int:
    _check_wish(options)
    found = recommend(
        Wish(
            quality=options.quality,
            usd_per_hour=options.budget,
            gpu=options.gpu,
            gpus_per_node=options.gpus_per_node,
            nodes=options.nodes,
            max_model_len=options.max_model_len,
            usd_per_gpu_hour=options.usd_per_gpu_hour,
        )
    )
    print(table(found))
    return 0 if found else 1


def _check_wish(options: Namespace) -> None:
    """Raises UsageError with every option of `recommend` that means nothing."""
    faults = [
        f"--{name.replace('_', '-')} {value} is not valid: expected a number of at least {least}"
        for name, least in (
            ("budget", 0),
            ("usd_per_gpu_hour", 0),
            ("nodes", 1),
            ("gpus_per_node", 1),
            ("max_model_len", 1),
        )
        if (value := getattr(options, name)) is not None and not least <= value < inf
    ]
    if options.gpu is not None and find_gpu(options.gpu).memory_bytes is None:
        faults.append(f"--gpu {options.gpu}: its memory is in no public log, and so nothing can be planned on it")
    if faults:
        raise UsageError("\n  ".join(faults))


def _request(options: Namespace) -> FitRequest:
    """The request that the options make. Raises UsageError."""
    names = {field.name for field in fields(FitRequest)}
    given = {name: value for name, value in vars(options).items() if name in names and value is not None}
    if options.stack is not None:
        return _of_stack(options.stack, sorted(given))
    if "model" not in given:
        raise UsageError("--model is missing: expected a name such as kimi-k2.5, a repository or a directory")
    for name in ("include", "extra_args"):
        given[name] = tuple(given.get(name, ()))
    given.setdefault("engine", _engine(given["model"], given["include"]))
    given.setdefault("gpus_per_node", _gpus_per_node(given))
    return FitRequest(**given)


def _of_stack(name: str, given: list[str]) -> FitRequest:
    # Stack files are checked with pydantic, which a plan without one does not need to wait for.
    from config.errors import StackError
    from planner.stack import request_of_named_stack

    if given:
        raise UsageError(f"--stack {name} takes everything from its file: leave out {', '.join(given)}")
    try:
        return request_of_named_stack(name)
    except StackError as error:
        raise UsageError(str(error)) from error


def _engine(model: str, include: tuple[str, ...]) -> str:
    if Path(model).is_dir():
        return "llama.cpp" if find_subject(model).is_gguf else "vllm"
    try:
        return "llama.cpp" if find_checkpoint(model, include)[1].format == "gguf" else "vllm"
    except NotInCatalogueError:
        return "vllm"


def _gpus_per_node(given: dict[str, int]) -> int:
    """What the stated layout takes on each node, else a whole machine of 8."""
    sizes = [given.get(name) for name in ("tensor_parallel", "pipeline_parallel", "data_parallel")]
    if not any(sizes):
        return 8
    gpus = 1
    for size in sizes:
        gpus *= size or 1
    return max(1, -(-gpus // max(1, given.get("nodes", 1))))


if __name__ == "__main__":
    # A reader that stops reading, and a terminal without box drawing, are no faults of ours.
    signal(SIGPIPE, SIG_DFL)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    sys.exit(main())
