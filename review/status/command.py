"""`python -m review status`: once in a log, and again and again on a terminal."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from contextlib import suppress

from components.cluster.api import ClusterApi
from config.errors import StackError
from config.stack.file import read_sections, stack_file
from config.stack.kubeconfig import read_kubeconfig
from config.stack.overrides import overridden
from config.stack.sections import Cluster, StackConfig
from review.checkout import ReviewError
from review.status import show
from review.status.reading import Status, StatusReader

_CLEAR = "\x1b[H\x1b[2J"
"""Moves the cursor to the first line, and clears the screen."""


def stack_cluster(stack: str, environment: Mapping[str, str]) -> tuple[StackConfig, ClusterApi]:
    """Returns a stack of the current directory and its cluster. Raises StackError.

    Of a stack on AWS, the file names no kubeconfig: HEAVYLIFT_KUBECONFIG and HEAVYLIFT_KUBE_CONTEXT do.
    """
    sections, _ = overridden(read_sections(stack_file(stack)), environment)
    config = StackConfig.parse(sections)
    cluster = config.cluster
    if config.aws is not None:
        named = (environment.get("HEAVYLIFT_KUBECONFIG"), environment.get("HEAVYLIFT_KUBE_CONTEXT"))
        cluster = Cluster(kubeconfig=named[0] or None, context=named[1] or None, namespace=cluster.namespace)
    return config, ClusterApi(read_kubeconfig(cluster))


def show_status(stack: str, form: str, seconds: float) -> int:
    """Prints the status of a stack. Returns 0 if it serves, 1 if it does not. Raises ReviewError.

    On a terminal, prints it every `seconds` until the user interrupts. Otherwise reads the metrics twice, `seconds`
    apart, for the rates.
    """
    try:
        reader = StatusReader(stack, *stack_cluster(stack, os.environ))
    except StackError as error:
        raise ReviewError("\n  ".join(["the stack cannot be read:", *error.faults])) from None
    status = reader.read()
    if form == "terminal" and sys.stdout.isatty():
        with suppress(KeyboardInterrupt):
            _refresh(reader, status, seconds)
        return 0
    if any(pod.load for pod in status.pods):
        time.sleep(seconds)
        status = reader.read()
    print(show.as_json(status) if form == "json" else show.terminal(status))
    return 0 if status.serves else 1


def _refresh(reader: StatusReader, status: Status, seconds: float) -> None:
    while True:
        print(f"{_CLEAR}{show.terminal(status)}\n\nevery {seconds:g} s; Ctrl-C ends it", flush=True)
        time.sleep(seconds)
        try:
            status = reader.read()
        except ReviewError as error:
            print(f"\n{error}", flush=True)
