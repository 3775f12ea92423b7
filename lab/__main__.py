"""The lab's command line: `python -m lab COMMAND`."""

import argparse
import json
import shlex
import sys
from collections.abc import Callable
from typing import Any

import lab as package
from lab import engine
from lab.cluster.control_plane import MOST_REAL_NODES
from lab.cluster.simulated import GPU, SimulatedNodes, profile, profiles
from lab.errors import LabError
from lab.lifecycle import Lab, every_lab
from lab.status import report
from lab.voice import say

RDMA = "rdma/ib"


def up(lab: Lab, nodes: list[str], real_nodes: int) -> None:
    """Starts the lab with the simulated nodes of the profiles and `real_nodes` real nodes."""
    for name in nodes:
        profile(name)
    if not 0 <= real_nodes <= MOST_REAL_NODES:
        raise LabError(f"--real-nodes {real_nodes}: expected at most {MOST_REAL_NODES}")
    site = lab.start()
    while site.isolated and lab.real_nodes < real_nodes:
        lab.add_real_node()
    for name in nodes:
        SimulatedNodes(site).add(name)


def down(lab: Lab, everything: bool) -> None:
    """Stops this lab. `everything` also stops the labs of other checkouts."""
    labs = [Lab(directory) for directory in every_lab()] if everything else [lab]
    stopped = [each.stop() for each in labs]
    if not any(stopped):
        say("no lab was up")


def env(lab: Lab, as_json: bool, aws: bool) -> None:
    """Prints the engine's environment as shell lines that export it, or as JSON. `aws`: with the lab's AWS."""
    settings = engine.aws_settings(lab.site) if aws else engine.settings(lab.site)
    if as_json:
        print(json.dumps(settings, indent=2))
    else:
        print("\n".join(f"export {name}={shlex.quote(value)}" for name, value in settings.items()))


def logs(lab: Lab, process: str | None, lines: int) -> None:
    """Prints the end of one process's log, or the names of all logs."""
    files = {path.stem: path for path in sorted(lab.site.logs.glob("*.log"))}
    if process is None:
        print("\n".join(files))
    elif process in files:
        print("\n".join(files[process].read_text(errors="replace").splitlines()[-lines:]))
    else:
        raise LabError(f"no process {process!r}: expected one of {', '.join(files)}")


def spoil(lab: Lab, node: str, gpus: int | None, no_rdma: bool, not_ready: bool) -> None:
    """Breaks a simulated node in one or several ways."""
    nodes = SimulatedNodes(lab.site)
    if gpus is not None:
        nodes.set_resource(node, GPU, gpus)
    if no_rdma:
        nodes.set_resource(node, RDMA, None)
    if not_ready:
        nodes.set_unready(node)


def parser() -> argparse.ArgumentParser:
    """Returns the parser of all commands. `action` is the function that runs a command."""
    top = argparse.ArgumentParser(prog="python -m lab", description=package.__doc__)
    commands = top.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, action: Callable[..., Any], help_text: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=help_text, description=help_text)
        added.set_defaults(action=action)
        return added

    added = command("up", up, "take the lab up, building first what is not in the cache")
    added.add_argument("--nodes", action="append", default=[], metavar="PROFILE", help="simulated nodes to add")
    added.add_argument("--real-nodes", type=int, default=1, metavar="N", help="nodes that run containers (default 1)")
    added = command("down", down, "take it down; nothing stays but the cache")
    added.add_argument("--all", action="store_true", dest="everything", help="the labs of other checkouts too")
    command("status", lambda lab: print(report(lab.site)), "what runs, where, and what is on it")
    added = command("env", env, 'the environment for pulumi: eval "$(python -m lab env)"')
    added.add_argument("--json", action="store_true", dest="as_json", help="as one JSON object")
    added.add_argument("--aws", action="store_true", help="with the lab's AWS, whose provider is a double")
    added = command("logs", logs, "the end of a process's log")
    added.add_argument("process", nargs="?", help="its name; without one, the names are listed")
    added.add_argument("--lines", type=int, default=50)
    added = command(
        "add-nodes",
        lambda lab, profile: print("\n".join(SimulatedNodes(lab.site).add(profile))),
        "add the simulated nodes of a profile, or make broken ones anew",
    )
    added.add_argument("profile", help=", ".join(profiles()))
    command("add-real-node", lambda lab: print(lab.add_real_node()), "add a node that runs containers")
    command(
        "enforce-network-policies",
        lambda lab: lab.enforce_network_policies(),
        "start an enforcer of NetworkPolicies on each real node",
    )
    added = command(
        "exec",
        lambda lab, node, words: print(lab.on_node(node, *words), end=""),
        "run a command among a real node's own files and network",
    )
    added.add_argument("node", help="e.g. real-0")
    added.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND")
    added = command(
        "delete-node",
        lambda lab, node: SimulatedNodes(lab.site).take_out(node),
        "take a simulated node out of the cluster",
    )
    added.add_argument("node")
    added = command(
        "drain", lambda lab, node: SimulatedNodes(lab.site).drain(node), "make a node unschedulable and evict its pods"
    )
    added.add_argument("node")
    added = command("break", spoil, "spoil a simulated node; add-nodes makes it anew")
    added.add_argument("node")
    added.add_argument("--gpus", type=int, metavar="N", help="leave it only N GPUs")
    added.add_argument("--no-rdma", action="store_true", help="take its InfiniBand resource away")
    added.add_argument("--not-ready", action="store_true", help="let its kubelet fall silent")
    added = command(
        "set-resource",
        lambda lab, node, resource, count: SimulatedNodes(lab.site).set_resource(node, resource, count),
        "set an extended resource of any node, real ones too",
    )
    added.add_argument("node")
    added.add_argument("resource", help="e.g. nvidia.com/gpu")
    added.add_argument("count", type=int)
    return top


def main() -> int:
    """Returns 0, or 1 after one error message."""
    arguments = vars(parser().parse_args())
    action = arguments.pop("action")
    try:
        action(Lab(), **arguments)
    except LabError as problem:
        print(f"lab: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("lab: interrupted; finished pieces stay in the cache", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
