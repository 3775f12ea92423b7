"""When several nodes share one download, and how long staging takes then."""

from typing import Any

import pytest

from config.errors import StackError
from config.stack.sections import StackConfig
from engines.logistics import download_seconds
from planner.stack_request import request_of_stack

TWO = {"kind": "bare-metal", "names": ["a", "b"]}
GB = 10**9


def stack(**sections: Any) -> StackConfig:
    whole: dict[str, Any] = {
        "nodes": TWO,
        "model": {"repository": "acme/model", "revision": "0" * 40},
        "weights": {"kind": "host-path", "path": "/mnt/nvme"},
        "stage": {},
        "engine": {"name": "llama.cpp", "version": "b10920", "image": "llama"},
    }
    given = whole | sections
    given["stage"] = {"image": "python", "lock": "weights/model.lock.json", **given["stage"]}
    return StackConfig.parse(given)


@pytest.mark.parametrize(
    ("sections", "shares"),
    [
        ({}, True),
        ({"stage": {"fan_out": False}}, False),
        ({"stage": {"lock": None}}, False),
        ({"nodes": {"kind": "bare-metal", "names": ["a"]}}, False),
        ({"nodes": {"kind": "bare-metal"}}, False),
        ({"weights": {"kind": "claim"}}, False),
    ],
    ids=["several nodes and a lock", "not wanted", "no lock", "one node", "no names", "one volume for all"],
)
def test_nodes_share_a_download_by_default_where_they_can(sections: dict[str, Any], shares: bool) -> None:
    assert stack(**sections).fan_out is shares


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"nodes": {"kind": "bare-metal"}}, "is true and nodes.names has 0: expected two or more"),
        ({"weights": {"kind": "claim"}}, "is true and weights.kind is claim: expected host-path"),
        ({"stage": {"lock": None}}, "is true without stage.lock: expected a lock"),
    ],
)
def test_it_is_refused_where_it_cannot_be(sections: dict[str, Any], message: str) -> None:
    wanted = sections | {"stage": {**sections.get("stage", {}), "fan_out": True}}
    with pytest.raises(StackError, match=rf"heavylift:stage\.fan_out: {message}"):
        stack(**wanted)


@pytest.mark.parametrize("sections", [{"stage": {"fan_out": False}}, {"nodes": {"kind": "bare-metal"}}])
def test_a_bandwidth_between_nodes_that_share_nothing_is_refused(sections: dict[str, Any]) -> None:
    wanted = sections | {"stage": {**sections.get("stage", {}), "node_bandwidth": "100 Gbit/s"}}
    with pytest.raises(StackError, match=r"heavylift:stage\.node_bandwidth: '100 Gbit/s' has no meaning"):
        stack(**wanted)


@pytest.mark.parametrize(("streams", "sound"), [(1, True), (256, True), (0, False), (257, False), ("8", False)])
def test_streams_are_a_number_that_the_stager_takes(streams: Any, sound: bool) -> None:
    if sound:
        assert stack(stage={"streams": streams}).stage.streams == streams
    else:
        with pytest.raises(StackError, match=r"heavylift:stage\.streams"):
            stack(stage={"streams": streams})


def seconds(weights: int, **sections: Any) -> float:
    return download_seconds(request_of_stack(stack(**sections), None), weights)


def test_the_sites_line_is_shared_by_all_nodes() -> None:
    stage = {"bandwidth": "1 GB/s", "fan_out": False}
    assert seconds(595 * GB, stage=stage, nodes={"kind": "bare-metal", "names": ["a"]}) == 595
    assert seconds(595 * GB, stage=stage) == 2 * 595
    sixteen = {"kind": "bare-metal", "names": [f"node-{number}" for number in range(16)]}
    assert seconds(595 * GB, stage=stage, nodes=sixteen) == 16 * 595


def test_a_shared_download_takes_the_line_once_and_the_rest_between_the_nodes() -> None:
    sixteen = {"kind": "bare-metal", "names": [f"node-{number}" for number in range(16)]}
    stage = {"bandwidth": "1 GB/s", "node_bandwidth": "100 Gbit/s"}
    assert seconds(595 * GB, stage=stage, nodes=sixteen) == pytest.approx(595 + 595 * 15 / 16 / 12.5)
    assert seconds(595 * GB, stage={"bandwidth": "1 GB/s"}) == pytest.approx(595 + 595 / 2 / 1.25), "10 Gbit/s"
