"""The queries of one stack, as tests of several tiers use them."""

from collections.abc import Iterator
from pathlib import Path

import promql_parser
from prometheus_client.parser import text_string_to_metric_families

from config.engine_name import EngineName
from engines.queries import Queries, read_queries
from engines.registry import engine_of

DATA = Path(__file__).parent / "data"
RECORDED = DATA / "metrics"
PAGES = {
    EngineName.VLLM: DATA / "vllm/0.32.0/metrics.txt",
    EngineName.SGLANG: RECORDED / "sglang-0.5.23.txt",
    EngineName.LLAMA_CPP: RECORDED / "llama-cpp.txt",
}
"""A page of /metrics that each engine's own server answered: vLLM 0.32.0 on a CPU, llama.cpp b11549 of the lab.
SGLang's was written by its own collectors, of the wheel, without a server."""
CASES = {
    EngineName.VLLM: "vllm.test.yml",
    EngineName.SGLANG: "sglang.test.yml",
    EngineName.LLAMA_CPP: "llama-cpp.test.yml",
}
"""What promtool tests the alerts with."""
VALUES = {
    "namespace": "serving",
    "stack": "h200",
    "server": 'namespace="serving",app="server"',
    "pods": 'namespace="serving",pod=~"server-0-.*"',
    "gpus": 'exported_namespace="serving"',
    "jobs": 'job_name=~"stage-0-.*"',
    "claims": 'persistentvolumeclaim=~"h200-weights"',
    "disk": 'mountpoint="/mnt/nvme"',
    "nodes": 'nodename=~"h200-0"',
    "devices": 'device=~"mlx5_0"',
    "start": "28m",
    "ttft": "5.0",
    "ends": str(12 * 3600),
}
"""Each placeholder of the queries, as `components.metrics.placeholders` fills them."""


def queries_of(engine: EngineName) -> Queries:
    """Returns the panels and alerts of an engine for a stack that has all that an alert can be about."""
    return read_queries(engine_of(engine).metrics.queries).of(VALUES)


def asked(expression: str) -> Iterator[str]:
    """Names of the metrics in an expression, by Prometheus' own grammar."""
    waiting = [promql_parser.parse(expression)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, promql_parser.VectorSelector):
            yield node.name or ""
        for part in ("lhs", "rhs", "expr", "vector_selector", "args"):
            inner = getattr(node, part, None)
            if inner is not None:
                waiting += inner if isinstance(inner, list) else [inner]


def series_of(page: str) -> set[str]:
    """Returns the names of the series on a page of metrics."""
    return {sample.name for family in text_string_to_metric_families(page) for sample in family.samples}
