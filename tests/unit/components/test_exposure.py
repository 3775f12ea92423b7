"""`heavylift:expose`: the route of a Gateway, and what the cluster lacks for it.

The expected route follows gateway-api.sigs.k8s.io, reference of HTTPRoute.
"""

from dataclasses import replace
from typing import Any

import pulumi
import pytest

from components.cluster.api import ClusterUnreachable
from components.network.exposure import Gateways, gateway_faults, read_gateways
from config.errors import StackError
from config.stack.file import read_sections, stack_file
from config.stack.sections import Expose, StackConfig
from tests.program import PROGRAM, fit_cluster, run_program
from tests.recording_engine import Recording

GIVEN = {"gateway": "infra/public", "hostname": "kimi.example.com"}


def sections(**expose: Any) -> dict[str, Any]:
    return {**read_sections(stack_file("h200", PROGRAM)), "expose": GIVEN | expose}


def route(monkeypatch: pytest.MonkeyPatch, **expose: Any) -> dict[str, Any]:
    found = run_program(monkeypatch, "h200", sections=sections(**expose)).only(":HTTPRoute").inputs
    assert found["apiVersion"] == "gateway.networking.k8s.io/v1"
    spec: dict[str, Any] = found["spec"]
    return spec


def test_the_gateway_forwards_what_asks_the_model_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = route(monkeypatch)
    assert spec["parentRefs"] == [{"namespace": "infra", "name": "public"}]
    assert spec["hostnames"] == ["kimi.example.com"]
    [rule] = spec["rules"]
    assert [match["path"] for match in rule["matches"]] == [
        {"type": "Exact", "value": f"/v1/{path}"}
        for path in ("chat/completions", "completions", "embeddings", "messages", "models", "responses")
    ]
    assert rule["backendRefs"] == [{"name": "h200", "port": 8000}]


def test_a_star_at_the_end_stands_for_all_paths_below(monkeypatch: pytest.MonkeyPatch) -> None:
    [rule] = route(monkeypatch, paths=["/v1/models", "/v1/responses/*"])["rules"]
    assert [match["path"] for match in rule["matches"]] == [
        {"type": "Exact", "value": "/v1/models"},
        {"type": "PathPrefix", "value": "/v1/responses"},
    ]


def test_without_a_key_the_preview_warns_of_who_may_use_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    made: Recording = run_program(monkeypatch, "h200", sections=sections())
    [warning] = [words for words in made.warnings if "heavylift:expose" in words]
    assert "without heavylift:api_key: whoever reaches kimi.example.com may use the model" in warning


def test_without_the_section_there_is_no_route(monkeypatch: pytest.MonkeyPatch) -> None:
    made: Recording = run_program(monkeypatch, "h200")
    assert made.of_type(":HTTPRoute") == []


@pytest.mark.parametrize(
    ("expose", "message"),
    [
        ({"gateway": "public"}, "heavylift:expose.gateway: 'public' is not valid: expected namespace/name"),
        ({"hostname": "https://kimi"}, "heavylift:expose.hostname: 'https://kimi' is not valid: expected a host name"),
        ({"paths": []}, "heavylift:expose.paths: [] is not valid: expected at least one entry"),
        ({"paths": ["v1"]}, "heavylift:expose.paths[0]: 'v1' is not valid: expected a path such as"),
        ({"paths": ["/v1/../metrics"]}, "heavylift:expose.paths[0]: '/v1/../metrics' is not valid"),
        ({"paths": ["/*"]}, "heavylift:expose.paths[0]: '/*' is not valid"),
    ],
)
def test_a_wrong_value_is_refused_by_its_key(expose: dict[str, Any], message: str) -> None:
    with pytest.raises(StackError) as refusal:
        StackConfig.parse(sections(**expose))
    assert message in str(refusal.value)


@pytest.mark.parametrize(
    ("gateways", "message"),
    [
        (Gateways(), "the API gateway.networking.k8s.io/v1 is missing: heavylift:expose needs the Gateway API"),
        (Gateways(has_api=True), "heavylift:expose.gateway: 'infra/public' does not exist: expected"),
        (
            Gateways(has_api=True, found=True, admits=False),
            "heavylift:expose.gateway: 'infra/public' admits no routes of namespace heavylift",
        ),
    ],
)
def test_a_gateway_that_could_not_forward_is_refused_before_anything_is_made(
    monkeypatch: pytest.MonkeyPatch, gateways: Gateways, message: str
) -> None:
    cluster = replace(fit_cluster(StackConfig.parse(sections())), gateways=gateways)
    with pytest.raises(pulumi.RunError, match="nothing was created") as refusal:
        run_program(monkeypatch, "h200", sections=sections(), cluster=cluster)
    assert message in str(refusal.value)


class Api:
    """A cluster with the Gateway API and one Gateway, or none."""

    def __init__(self, gateway: dict[str, Any] | None, *, forbidden: bool = False) -> None:
        self.gateway, self.forbidden = gateway, forbidden

    def find(self, path: str) -> dict[str, Any] | None:
        if path == "/apis/gateway.networking.k8s.io/v1":
            return {}
        assert path == "/apis/gateway.networking.k8s.io/v1/namespaces/infra/gateways/public"
        if self.forbidden:
            raise ClusterUnreachable("status 403")
        return self.gateway


def read(namespace: str, *listeners: dict[str, Any]) -> Gateways:
    api: Any = Api({"spec": {"listeners": list(listeners)}})
    return read_gateways(api, namespace, Expose.model_validate(GIVEN))


def from_(namespaces: str) -> dict[str, Any]:
    return {"allowedRoutes": {"namespaces": {"from": namespaces}}}


@pytest.mark.parametrize(
    ("namespace", "listeners", "admits"),
    [
        ("infra", [{}], True),
        ("heavylift", [{}], False),
        ("heavylift", [{}, from_("All")], True),
        ("heavylift", [from_("Same")], False),
        ("heavylift", [from_("Selector")], True),
        ("infra", [from_("None")], False),
    ],
)
def test_a_listener_admits_its_own_namespace_unless_it_says_otherwise(
    namespace: str, listeners: list[dict[str, Any]], *, admits: bool
) -> None:
    assert read(namespace, *listeners).admits is admits


def test_a_gateway_that_may_not_be_read_is_no_fault() -> None:
    api: Any = Api(None, forbidden=True)
    expose = Expose.model_validate(GIVEN)
    gateways = read_gateways(api, "heavylift", expose)
    assert gateways.hidden == "status 403"
    assert gateway_faults(gateways, "heavylift", expose) == []
    assert not read_gateways(Api(None), "heavylift", expose).found  # type: ignore[arg-type]
