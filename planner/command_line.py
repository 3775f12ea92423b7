"""The options of the planner's command line: `python -m planner fit | show | recommend | explain`.

Options are named after the engine's own flags; `flag` gives the one that sets a field of the request, for messages.
"""

from __future__ import annotations

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from pathlib import Path

from config.engine_name import EngineName
from planner.recommend import DEFAULT_CONTEXT

_JSON_KEYS = """
With --json: verdict; problems [{code, message, fix}]; warnings [{code, message}]; layout {tp, pp, dp, ep, dcp};
pods {gpus_per_pod, pods_per_server, nodes_per_server}; per_gpu {budget_gib, weights_gib, overhead_gib [likely, worst],
kv_gib [worst, likely], kv_bytes_per_token} of the fullest GPU; kv_tokens [worst, likely]; context, the longest request
that is served; max_concurrency [worst, likely], requests of that length that the KV cache holds at once; max_context,
the longest request that surely fits; weights_bytes; disk_bytes; download_seconds; load_seconds; cost_per_hour_usd;
engine_args; engine_env. What is not known is null.

Exit status: 0 fits or tight, 1 rejected, 2 a value or option that means nothing, 3 unknown.
"""

_SHORT = {
    "tensor_parallel": "--tp",
    "pipeline_parallel": "--pp",
    "data_parallel": "--dp",
    "expert_parallel": "--ep",
    "decode_context_parallel": "--dcp",
    "extra_args": "--extra-arg",
    "usd_per_hour": "--budget",
}
"""Options that are not named like the field that they set."""


def flag(name: str) -> str:
    """The option that sets a field of a request or a wish."""
    return _SHORT.get(name, f"--{name.replace('_', '-')}")


def parser() -> ArgumentParser:
    """All commands; `command` names the one that was given."""
    top = ArgumentParser(
        prog="python -m planner", description="Does a model fit, with which flags, how long, how much."
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="fit | show | recommend | explain")
    planned = commands.add_parser(
        "fit",
        help="the verdict on a model, GPUs and engine settings",
        epilog=_JSON_KEYS,
        formatter_class=RawDescriptionHelpFormatter,
    )
    _add_request(planned)
    planned.add_argument("--json", action="store_true", help="print the plan as JSON")
    planned.add_argument("--svg", metavar="FILE", type=Path, help="also draw the memory of each GPU into a file")
    explained = commands.add_parser("explain", help="the arithmetic of a verdict, line by line")
    _add_request(explained)
    shown = commands.add_parser("show", help="what a model is made of; without a model, the catalogue")
    shown.add_argument("model", nargs="?", help="name, repository or directory")
    recommended = commands.add_parser("recommend", help="models and machines that fit, smallest first")
    _add_wish(recommended)
    return top


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
    group.add_argument("--driver", metavar="VERSION", help="GPU driver of the nodes")
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
    group.add_argument("--engine", choices=tuple(EngineName), type=EngineName, help="default: the first that reads it")
    group.add_argument("--engine-version", metavar="VERSION")
    group.add_argument("--extra-arg", action="append", metavar="ARG", dest="extra_args", help="as --extra-arg=--flag")
    group.add_argument(
        "--available-kv-gib", type=float, metavar="GIB", help="tokens that this much cache per GPU holds"
    )


def _add_wish(parser: ArgumentParser) -> None:
    parser.add_argument("--model", metavar="NAME", help="only this model, checkpoint or repository of the catalogue")
    parser.add_argument("--quality", choices=("good", "high", "frontier"))
    parser.add_argument("--budget", type=float, metavar="USD", dest="usd_per_hour", help="dollars per hour")
    parser.add_argument("--gpu", metavar="NAME", help="kind of the GPUs at hand; none: what can be rented on EC2")
    parser.add_argument("--gpus-per-node", type=int, metavar="N", help="default: 8")
    parser.add_argument("--nodes", type=int, metavar="N", help="default: 1")
    parser.add_argument("--usd-per-gpu-hour", type=float, metavar="USD")
    parser.add_argument("--max-model-len", type=int, default=DEFAULT_CONTEXT, metavar="TOKENS")
    parser.add_argument("--write", metavar="STACK", help="write the first of them as Pulumi.STACK.yaml; needs --gpu")
