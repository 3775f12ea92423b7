"""How large the volume is made."""

from typing import Any

import pulumi
import pytest

from components.volume_size import volume_bytes
from config.stack.sections import StackConfig
from engines.plan import Plan

PLAN = Plan(verdict="fits", weights_bytes=595 * 10**9, disk_bytes=1250 * 10**9)


def stack(**weights: Any) -> StackConfig:
    return StackConfig.parse(
        {
            "model": {"repository": "a/b", "revision": "main", "allow_unpinned": True},
            "weights": weights,
            "stage": {"image": "python:3.12-slim"},
            "engine": {"name": "llama.cpp", "version": "b1", "image": "server"},
        }
    )


def test_the_size_is_what_the_plan_needs() -> None:
    assert volume_bytes(stack(kind="claim"), PLAN) == 1250 * 10**9


def test_the_stacks_own_size_comes_first() -> None:
    assert volume_bytes(stack(kind="claim", size="2Ti"), PLAN) == 2 * 2**40


def test_a_directory_of_a_node_has_no_size() -> None:
    assert volume_bytes(stack(kind="host-path", path="/mnt"), PLAN) is None


def test_weights_of_unknown_size_need_a_size_or_a_lock() -> None:
    with pytest.raises(pulumi.RunError, match=r"heavylift:weights\.size: is missing: the bytes of a/b are not known"):
        volume_bytes(stack(kind="claim"), Plan(verdict="unknown"))
