"""No dashboard or alert asks for a metric that its exporter does not have."""

import json

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from config.catalogue import engine_facts
from config.engine_name import EngineName
from engines.queries import read_queries
from engines.registry import engine_of
from tests.metric_queries import CASES, PAGES, RECORDED, VALUES, asked, queries_of, series_of

GONE = (
    "vllm:gpu_cache_usage_perc",
    "vllm:gpu_prefix_cache_hit_rate",
    "vllm:num_requests_swapped",
    "vllm:time_per_output_token_seconds_bucket",
    "llamacpp:kv_cache_usage_ratio",
)
"""Names that dashboards of other projects still have."""


def exported(engine: EngineName) -> set[str]:
    """Names of an engine's series, and of those around it."""
    own = series_of(PAGES[engine].read_text())
    return own | set(json.loads((RECORDED / "cluster.json").read_text())["metrics"])


@pytest.mark.parametrize("engine", EngineName)
def test_every_query_parses_and_asks_for_what_is_exported(engine: EngineName) -> None:
    names = {expression: set(asked(expression)) for expression in queries_of(engine).expressions()}
    assert min(len(found) for expression, found in names.items() if not expression.startswith("vector(")) >= 1
    assert {expression: dead for expression, found in names.items() if (dead := found - exported(engine))} == {}


@pytest.mark.parametrize("engine", EngineName)
def test_what_the_status_reads_is_exported(engine: EngineName) -> None:
    read = engine_of(engine).metrics
    counters = {read.requests_running, read.requests_waiting, read.prompt_tokens, read.generated_tokens}
    histogram = {f"{read.time_to_first_token}_sum", f"{read.time_to_first_token}_count"}
    wanted = counters | (histogram if read.time_to_first_token else set())
    wanted |= {read.kv_cache_usage} if read.kv_cache_usage else set()
    assert wanted <= exported(engine)


def test_a_metric_that_is_gone_is_found_out() -> None:
    everything = exported(EngineName.VLLM) | exported(EngineName.LLAMA_CPP)
    assert {name for name in GONE if set(asked(f"sum(rate({name}[5m])) > 0")) & everything} == set()


@pytest.mark.parametrize("engine", EngineName)
def test_every_alert_says_what_to_run_next(engine: EngineName) -> None:
    alerts = queries_of(engine).alerts
    assert len({alert.name for alert in alerts}) == len(alerts)
    assert {alert.severity for alert in alerts} == {"critical", "warning"}
    assert [
        alert.name for alert in alerts if not any(word in alert.command for word in ("kubectl", "python -m", "on "))
    ] == []


@pytest.mark.parametrize("engine", EngineName)
def test_every_placeholder_has_a_value(engine: EngineName) -> None:
    known, filled = read_queries(engine_of(engine).metrics.queries), queries_of(engine)
    assert [alert.name for alert in filled.alerts] == [alert.name for alert in known.alerts]
    assert [panel.title for panel in filled.panels] == [panel.title for panel in known.panels]
    assert not any("<" in alert.summary + alert.command for alert in filled.alerts)


def test_an_alert_about_what_a_stack_does_not_have_is_left_out() -> None:
    less = {key: value for key, value in VALUES.items() if key not in ("devices", "ends", "gpus", "disk")}
    names = {alert.name for alert in read_queries(engine_of(EngineName.VLLM).metrics.queries).of(less).alerts}
    assert names.isdisjoint({"InfiniBandDown", "CapacityEnds", "GpuXid", "GpuRowRemapFailed", "WeightsDiskNearlyFull"})
    assert {"ServerStalled", "WeightsVolumeNearlyFull"} <= names


@pytest.mark.parametrize("engine", EngineName)
def test_the_bounds_for_the_first_token_are_those_of_the_page(engine: EngineName) -> None:
    name = engine_of(engine).metrics.time_to_first_token
    page = text_string_to_metric_families(PAGES[engine].read_text())
    bounds = [
        float(sample.labels["le"]) for family in page for sample in family.samples if sample.name == f"{name}_bucket"
    ]
    assert sorted(set(bounds) - {float("inf")}) == sorted(engine_facts(engine).first_token_bounds)


def test_every_alert_has_a_case_that_sets_it_off_and_one_that_does_not() -> None:
    tested: set[tuple[str, bool]] = set()
    for cases in CASES.values():
        for test in yaml.safe_load((RECORDED / cases).read_text())["tests"]:
            tested |= {(each["alertname"], "exp_alerts" in each) for each in test["alert_rule_test"]}
    names = {alert.name for engine in EngineName for alert in queries_of(engine).alerts}
    assert tested == {(name, fires) for name in names for fires in (True, False)}
