"""Command-line options of `python -m planner fit | show | recommend | explain`.

Options have the names of vLLM's own flags. `flag` returns the option that sets a field of the request.
"""

from __future__ import annotations

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from functools import cache
from pathlib import Path

from config.engine_name import EngineName
from config.load_format import LoadFormat
from config.units import GIB
from engines.speed import Workload
from planner.recommend import DEFAULT_CONTEXT

_JSON_KEYS = """
With --json: verdict; problems [{code, message, fix}]; warnings [{code, message}]; layout {tp, pp, dp, ep, dcp};
pods {gpus_per_pod, pods_per_server, nodes_per_server}; per_gpu {budget_gib, weights_gib, overhead_gib [likely, worst],
kv_gib [worst, likely], kv_bytes_per_token} of the fullest GPU; kv_tokens [worst, likely]; context, the longest request
that is served; max_concurrency [worst, likely], requests of that length that the KV cache holds at once; max_context,
the longest request that surely fits; weights_bytes; disk_bytes; download_seconds; load_seconds; cost_per_hour_usd;
cost_parts [{name, usd_per_hour, source}]; speed {prompt_tokens, answer_tokens, bound {users [{users, tpot_ms, ttft_ms,
output_tokens_per_second, output_tokens_per_second_per_gpu}], gpu_hours_per_million_tokens {prompts, answers},
usd_per_million_tokens}, likely {users [{fast, slow}]}, each end with the price of its answers, why_no_likely_range}: a
bound that cannot be exceeded, and a range in which a server likely is; engine_args; engine_env. Unknown values are
null.

Exit status: 0 fits or tight, 1 rejected, 2 invalid value or option, 3 unknown.
"""

_MOST_GIB = 1e6

_SHORT = {
    "tensor_parallel": "--tp",
    "pipeline_parallel": "--pp",
    "data_parallel": "--dp",
    "expert_parallel": "--ep",
    "prefill_context_parallel": "--pcp",
    "decode_context_parallel": "--dcp",
    "extra_args": "--extra-arg",
    "host_memory_bytes": "--host-memory-gib",
    "kv_offload": "--kv-offload-gib",
    "usd_per_hour": "--budget",
}
"""Options whose name differs from the field that they set."""


def flag(name: str) -> str:
    """The option that sets a field of a request or query."""
    return _SHORT.get(name, f"--{name.replace('_', '-')}")


@cache
def parser() -> ArgumentParser:
    """The parser of all subcommands; `command` is the one given."""
    top = ArgumentParser(
        prog="python -m planner",
        description="Plan a model on GPUs: does it fit, which flags, how long it takes, what it costs.",
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="fit | show | recommend | explain")
    planned = commands.add_parser(
        "fit",
        help="whether a model fits, with all figures",
        epilog=_JSON_KEYS,
        formatter_class=RawDescriptionHelpFormatter,
    )
    _add_request(planned)
    planned.add_argument("--json", action="store_true", help="print the plan as JSON")
    planned.add_argument("--svg", metavar="FILE", type=Path, help="also draw the memory of each GPU to this file")
    planned.add_argument("--chart", metavar="FILE", type=Path, help="also draw latency against throughput to this file")
    explained = commands.add_parser("explain", help="show the arithmetic of a plan, line by line")
    _add_request(explained)
    for each in (planned, explained):
        _add_workload(each)
    shown = commands.add_parser("show", help="list the tensors of a model; without a model, list the catalogue")
    shown.add_argument("model", nargs="?", help="name, repository or directory")
    recommended = commands.add_parser("recommend", help="list checkpoints and machines that fit, best first")
    _add_query(recommended)
    return top


def _add_workload(parser: ArgumentParser) -> None:
    """Adds the options of the requests whose speed is printed."""
    shape = Workload()
    group = parser.add_argument_group("requests whose speed is printed")
    for name, default, what in (
        ("prompt", shape.prompt_tokens, "tokens of a prompt"),
        ("answer", shape.answer_tokens, "tokens of an answer"),
    ):
        group.add_argument(f"--{name}-tokens", type=int, metavar="N", help=f"{what}; default: {default}")


def _add_request(parser: ArgumentParser) -> None:
    """Adds the options of a request; `dest` names the field that each sets."""
    parser.add_argument("--stack", metavar="NAME", help="read the request from Pulumi.NAME.yaml")
    group = parser.add_argument_group("request")
    group.add_argument("--model", metavar="NAME|DIR", help="catalogue name, repository, or directory of a checkpoint")
    group.add_argument("--include", action="append", metavar="PATTERN", help="pattern of files to stage; repeat")
    group.add_argument("--gpu", metavar="NAME", help="GPU, such as h200; omit for llama.cpp on the CPU")
    group.add_argument("--nodes", type=int, metavar="N")
    group.add_argument("--gpus-per-node", type=int, metavar="N", help="default: what the layout needs, else 8")
    group.add_argument("--fabric", choices=("none", "infiniband", "roce", "efa"), help="between nodes")
    group.add_argument("--driver", metavar="VERSION", help="GPU driver of the nodes")
    group.add_argument("--instance-type", metavar="TYPE", help="EC2 instance type, for its price")
    group.add_argument("--usd-per-gpu-hour", type=float, metavar="USD", help="price of one GPU per hour")
    group.add_argument(
        "--host-memory-gib", type=_gib, metavar="GIB", dest="host_memory_bytes", help="memory of a node, or for the pod"
    )
    group.add_argument("--tp", type=int, metavar="N", dest="tensor_parallel", help="tensor parallel")
    group.add_argument("--pp", type=int, metavar="N", dest="pipeline_parallel", help="pipeline parallel")
    group.add_argument("--dp", type=int, metavar="N", dest="data_parallel", help="data parallel")
    group.add_argument("--ep", action="store_true", default=None, dest="expert_parallel", help="expert parallel")
    group.add_argument("--pcp", type=int, metavar="N", dest="prefill_context_parallel", help="prefill context parallel")
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
    group.add_argument("--max-loras", type=int, metavar="N", help="LoRA adapters in a batch")
    group.add_argument("--max-lora-rank", type=int, metavar="R", help="default: 16")
    group.add_argument("--speculative-tokens", type=int, metavar="N", help="that the draft model or MTP layers draft")
    group.add_argument("--draft", metavar="NAME|DIR", help="draft model for speculative decoding")
    group.add_argument("--yarn-factor", type=float, metavar="F", help="stretch the context by so much with YaRN")
    group.add_argument("--yarn-original-context", type=int, metavar="TOKENS", help="default: the model's maximum")
    group.add_argument("--enforce-eager", action="store_true", default=None, help="without CUDA graphs")
    group.add_argument("--redundant-experts", type=int, metavar="N", help="copies of experts, balanced by load")
    group.add_argument("--cpu-offload-gb", type=float, metavar="GIB", help="of each GPU's weights, in host memory")
    group.add_argument(
        "--kv-offload-gib", type=_gib, metavar="GIB", dest="kv_offload", help="host memory for more KV cache"
    )
    group.add_argument("--max-num-queued-reqs", type=int, metavar="N", help="refuse more requests than so many")
    group.add_argument("--load-format", choices=[each.value for each in LoadFormat], help="reader of the weights")
    group.add_argument("--sleep-idle-seconds", type=int, metavar="S", help="llama.cpp: unload an idle model")
    group.add_argument("--expert-offload", action="store_true", default=None, help="llama.cpp: experts in host memory")
    group.add_argument(
        "--engine",
        choices=tuple(EngineName),
        type=EngineName,
        help="default: the first that reads it",
    )
    group.add_argument("--engine-version", metavar="VERSION")
    group.add_argument("--extra-arg", action="append", metavar="ARG", dest="extra_args", help="as --extra-arg=--flag")
    group.add_argument("--available-kv-gib", type=float, metavar="GIB", help="plan with this much KV cache per GPU")


def _gib(text: str) -> int:
    """Bytes of so many GiB. Raises ValueError for what is no number of them."""
    number = float(text)
    if not 0 < number <= _MOST_GIB:
        raise ValueError
    return round(number * GIB)


def _add_query(parser: ArgumentParser) -> None:
    parser.add_argument("--model", metavar="NAME|DIR", help="only this model, checkpoint, repository or directory")
    parser.add_argument("--quality", choices=("good", "high", "frontier"))
    parser.add_argument("--budget", type=float, metavar="USD", dest="usd_per_hour", help="maximum dollars per hour")
    parser.add_argument("--gpu", metavar="NAME", help="GPU that is available; omit for EC2 instance types")
    parser.add_argument("--gpus-per-node", type=int, metavar="N", help="default: 8")
    parser.add_argument("--nodes", type=int, metavar="N", help="default: 1")
    parser.add_argument("--usd-per-gpu-hour", type=float, metavar="USD")
    parser.add_argument("--max-model-len", type=int, default=DEFAULT_CONTEXT, metavar="TOKENS")
    parser.add_argument("--users", type=int, metavar="N", help="at a time, each with one request; default: 1")
    parser.add_argument("--target-tps", type=float, metavar="N", help="output tokens per second that each user gets")
    parser.add_argument("--target-ttft", type=float, metavar="S", help="seconds to the first token")
    _add_workload(parser)
    parser.add_argument("--write", metavar="STACK", help="write a row to Pulumi.STACK.yaml; requires --gpu")
    parser.add_argument("--row", metavar="ROW", help="number or checkpoint of the row to write; default: the first")
