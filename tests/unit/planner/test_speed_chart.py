"""The chart of latency against throughput."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from config.checkpoint.model_spec import find_model
from planner import FitRequest, fit
from planner.__main__ import main
from planner.report.chart import chart
from planner.speed import speeds_over_users
from planner.stack_request import request_of_named_stack

_SVG = "{http://www.w3.org/2000/svg}"
_DRAWN = Path(__file__).parents[3] / "docs" / "h200-speed.svg"


def _chart(request: FitRequest) -> str:
    plan = fit(request)
    return chart(request, plan, speeds_over_users(plan, request, find_model(request.model)))


def test_the_chart_in_the_documents_is_what_the_planner_draws() -> None:
    drawn = _chart(request_of_named_stack("h200"))
    assert _DRAWN.read_text() == drawn, "run: python -m planner fit --stack h200 --chart docs/h200-speed.svg"


def test_more_users_are_further_right_and_higher() -> None:
    tree = ElementTree.fromstring(_chart(FitRequest(model="kimi-k2.5", gpu="h200")))  # noqa: S314 - our own text
    places = [(float(each.attrib["cx"]), float(each.attrib["cy"])) for each in tree.iter(f"{_SVG}circle")]
    assert len(places) >= 6
    assert places == sorted(places)
    assert [y for _, y in places] == sorted((y for _, y in places), reverse=True)


@pytest.mark.parametrize(("model", "ranged"), [("kimi-k2.5", True), ("glm-5-fp8", False)])
def test_the_chart_says_which_of_the_two_it_draws(model: str, ranged: bool) -> None:
    drawn = _chart(FitRequest(model=model, gpu="h200"))
    assert ("<polygon" in drawn) == ranged
    assert "no server is faster" in drawn
    assert ("many times slower" in drawn) == (not ranged)


def test_the_command_draws_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "speed.svg"
    assert main(["fit", "--model", "kimi-k2.5", "--gpu", "h200", "--chart", str(file)]) == 0
    assert ElementTree.fromstring(file.read_text()).tag == f"{_SVG}svg"  # noqa: S314 - our own text
    assert main(["fit", "--model", "kimi-k2.5", "--gpu", "h200", "--gpus-per-node", "2", "--chart", str(file)]) == 2
    assert "no speed is known of a plan that is rejected" in capsys.readouterr().err
