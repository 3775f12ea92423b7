"""What the program says of vLLM, compared with what a real vLLM answered on the lab (`make prove-vllm`)."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from components.network.policies import server_policy
from config.stack.sections import Network
from engines import vllm
from engines.vllm.process import KEYED, PORT
from tests.prove.command_lines import committed_lines, flags_of
from tests.recorded_vllm import recorded

RENDERS = ("arguments.py", "process.py")
"""Modules of `engines/vllm` that write a command line."""
SAY_LITTLE = {
    "/health",
    "/ping",
    "/version",
    "/load",
    "/is_scaling_elastic_ep",
    "/kv_event_sources",
    "/openapi.json",
    "/redoc",
}
"""Open paths that compute nothing and show no more than the server's state, or its routes as `/docs` does."""


def rendered_flags() -> Iterator[str]:
    """Each flag that the program can write."""
    for module in RENDERS:
        tree = ast.parse(Path(vllm.__file__).with_name(module).read_text())
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and re.fullmatch(r"--[a-z-]+", node.value)
            ):
                yield node.value


def test_vllm_has_every_flag_that_the_program_can_write() -> None:
    flags = set(rendered_flags())
    assert {"--headless", "--shutdown-timeout", "--spec-model"} <= flags
    assert flags <= set(recorded("flags.json"))


def test_vllm_has_every_flag_of_the_committed_stacks() -> None:
    flags = {flag for lines in committed_lines().values() for line in lines for flag in flags_of(line)}
    assert "--tool-call-parser" in flags
    assert flags <= set(recorded("flags.json"))


def test_the_key_opens_every_path() -> None:
    assert [route for route, (_, with_key) in recorded("routes.json").items() if with_key == 401] == []


def test_the_preview_names_the_paths_that_compute_or_show_what_is_served_without_the_key() -> None:
    opened = {route.split()[1] for route, (without, _) in recorded("routes.json").items() if without not in (401, 404)}
    assert opened - SAY_LITTLE == set(KEYED.open_paths)


def reached_by_anybody(*, is_group: bool) -> set[str]:
    """Ports of a server's pods that their NetworkPolicy leaves open to every pod."""
    policy = server_policy({"app": "server"}, PORT, Network(), (), is_group=is_group)
    return {str(port["port"]) for rule in policy["ingress"] if "from" not in rule for port in rule["ports"]}


@pytest.mark.parametrize(("name", "answers"), [("one-node", "alone"), ("two-nodes", "leader")])
def test_what_a_server_listens_on_is_the_api_or_closed_to_other_pods(name: str, answers: str) -> None:
    pods = recorded(f"listening-{name}.json")
    assert all(pod["pod"]["random"] for pod in pods.values()), "ports that no rule could name"
    everywhere = {role: set(pod.get("everywhere", {})) for role, pod in pods.items()}
    reached = reached_by_anybody(is_group=name == "two-nodes")
    assert {role: ports & reached for role, ports in everywhere.items()} == {
        role: {str(PORT)} if role == answers else set() for role in pods
    }
