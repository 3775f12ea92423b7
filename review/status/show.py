"""The status of a stack for a terminal or a log, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict

from config.catalogue import NotInCatalogueError, find_gpu
from config.engine_name import EngineName
from config.units import duration
from engines.registry import engine_of
from review.figures import gigabytes
from review.phrases import counted
from review.status.page import Load
from review.status.reading import Status
from review.text import visible

_DAY = 24 * 3600
_SHORT = 12


def terminal(status: Status) -> str:
    """The status in plain text."""
    return "\n".join([_headline(status), *(f"  {label:<12} {visible(text)}" for label, text in _rows(status))])


def as_json(status: Status) -> str:
    """The status as JSON."""
    return json.dumps(asdict(status), indent=2, default=str)


def _headline(status: Status) -> str:
    where = f"{status.stack} in namespace {status.namespace}"
    if status.since is None:
        return visible(f"{where}: no server")
    age = _long((status.at - status.since).total_seconds())
    release = status.release
    if not release:
        return visible(f"{where}: made {age} ago by a version that wrote no release on it")
    title = engine_of(EngineName(release["engine"])).title
    what = f"{release['repository']} at {release['revision'][:_SHORT]}, {title} {release['version']}"
    return visible(f"{where}: {'serves' if status.serves else 'does not serve'} {what}; made {age} ago")


def _rows(status: Status) -> Iterator[tuple[str, str]]:
    if status.plan:
        yield "plan", ", ".join(_plan(status))
    for pod in status.pods:
        yield "pod", f"{pod.name} on {pod.node}: {pod.state}, {counted(pod.restarts, 'restart')}"
        if pod.load is not None:
            yield from _load(pod.load)
        elif pod.unread:
            yield "", pod.unread
    for staged in status.staged:
        size = gigabytes(staged.bytes) if staged.bytes else "size not known"
        where = f" on {staged.where}" if staged.where else ""
        yield "weights", f"{staged.repository} at {staged.revision[:_SHORT]}, {size}: {staged.state}{where}"
    if status.ends:
        left = (status.ends - status.at).total_seconds()
        when = f"{status.ends:%Y-%m-%d %H:%M} UTC"
        yield "reservation", f"ends in {_long(left)} ({when})" if left > 0 else f"ended {when}"


def _plan(status: Status) -> Iterator[str]:
    plan = status.plan
    yield str(plan["verdict"])
    if plan["gpu"]:
        nodes = plan["nodes_per_server"]
        yield f"{nodes * plan['gpus_per_pod']} {_gpu(plan['gpu'])}" + (f" over {nodes} nodes" if nodes > 1 else "")
    if plan["layout"]:
        yield " ".join(f"{kind.upper()}{size}" for kind, size in plan["layout"].items())
    if plan["replicas"] > 1:
        yield f"{plan['replicas']} servers"
    if plan["context"]:
        yield f"context {plan['context']:,}"
    if plan["cost_per_hour_usd"] is not None:
        yield f"{plan['cost_per_hour_usd']:.2f} $/h"


def _gpu(name: str) -> str:
    try:
        return find_gpu(name).title
    except NotInCatalogueError:
        return name


def _load(load: Load) -> Iterator[tuple[str, str]]:
    yield "requests", f"{load.running} running, {load.waiting} waiting"
    if load.kv_usage is not None:
        yield "KV cache", f"{load.kv_usage:.0%} in use"
    if load.seconds is not None and load.generated_per_second is not None and load.prompt_per_second is not None:
        rates = f"{load.generated_per_second:,.1f} generated, {load.prompt_per_second:,.1f} of prompts"
        yield "tokens/s", f"{rates}, in the last {load.seconds:.0f} s"
    if load.first_token_seconds is not None:
        when = f"in the last {load.seconds:.0f} s" if load.first_token_now else "since the start"
        requests = counted(load.first_token_requests, "request")
        yield "first token", f"{load.first_token_seconds:.2f} s, the mean of {requests} {when}"
    elif load.first_token_requests == 0 and load.kv_usage is not None:
        yield "first token", "no request yet"


def _long(seconds: float) -> str:
    return f"{seconds / _DAY:.1f} d" if seconds >= 2 * _DAY else duration(seconds)
