"""The rows of a stack's table: what a reviewer compares, before and after."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from config.catalogue import NotInCatalogueError, find_gpu
from config.units import duration
from planner.report.speed import digits
from review.checkout import StackAt
from stager.listing import FULL_COMMIT

TIMES = "\N{MULTIPLICATION SIGN}"
MINUS = "\N{MINUS SIGN}"
HOURS_PER_MONTH = 730
"""Hours of a year divided by twelve."""


@dataclass(frozen=True)
class Row:
    """One figure on both sides; empty on a side without a plan."""

    label: str
    before: str
    after: str
    change: str = ""
    """The difference in words, such as `+12.5 %`. Empty: none, or not a number."""
    is_name: bool = False
    """Whether the figure is a name, which Markdown shows as code."""

    @property
    def differs(self) -> bool:
        """Whether both sides are known and differ."""
        return self.before != self.after


@dataclass(frozen=True)
class _Figure:
    label: str
    of: Callable[[StackAt], Any]
    shown: Callable[[Any], str]
    always: bool = False
    """Whether the row is there even without a difference."""
    compared: Callable[[Any, Any], str] = lambda before, after: ""  # noqa: ARG005 - most rows have none
    missing: str = "not known"
    is_name: bool = False


def rows(before: StackAt | None, after: StackAt | None) -> list[Row]:
    """The rows of one stack: those that differ, and those that are always shown."""
    return list(_rows(before, after))


def cost_per_hour(stack: StackAt | None) -> float | None:
    """US dollars per hour of all nodes. None: not planned, or no price is stated."""
    return _planned("cost_per_hour_usd")(stack) if stack else None


def staged_bytes(stack: StackAt) -> int | None:
    """Bytes of the weights. None: not known."""
    size: int | None = _planned("weights_bytes")(stack)
    return size


def dollars(amount: float) -> str:
    """An amount such as `1,234.50 $`."""
    return f"{amount:,.2f} $"


def gigabytes(size: float) -> str:
    """A size such as `595.2 GB`, in decimal units as disks have them."""
    return f"{size / 1e9:,.1f} GB" if size >= 1e8 else f"{size / 1e6:,.1f} MB" if size >= 1e5 else f"{size:,} B"


def machine(stack: StackAt) -> str | None:
    """The GPUs of a stack with their layout, such as `2 nodes of 8 H100 SXM, TP8 PP2`; in AWS its instances."""
    nodes = stack.sections.get("nodes") or {}
    if not isinstance(nodes, dict) or not stack.plan:
        return None
    layout = stack.plan.get("layout", {})
    sizes = " ".join(f"{name.upper()}{size}" for name, size in layout.items() if size > 1)
    return _hardware(nodes) + (f", {sizes}" if sizes else "")


def _hardware(nodes: dict[str, Any]) -> str:
    if nodes.get("instance_type"):
        return f"{nodes.get('count')} x {nodes['instance_type']}"
    names, gpu = nodes.get("names"), nodes.get("gpu")
    count = len(names) if isinstance(names, list) and names else 1
    gpus = f"{nodes.get('gpus_per_node')} {_title(str(gpu))}" if gpu else "no GPU"
    return f"{count} nodes of {gpus}" if count > 1 else gpus


def _rows(before: StackAt | None, after: StackAt | None) -> Iterator[Row]:
    for figure in _FIGURES:
        old, new = _of(figure, before), _of(figure, after)
        row = Row(
            label=figure.label,
            before=_shown(figure, before, old),
            after=_shown(figure, after, new),
            change=figure.compared(old, new) if old is not None and new is not None and old != new else "",
            is_name=figure.is_name,
        )
        known = old is not None or new is not None
        if (row.before or row.after) if figure.always else (row.differs and known):
            yield row


def _of(figure: _Figure, stack: StackAt | None) -> Any:
    return figure.of(stack) if stack and stack.plan else None


def _shown(figure: _Figure, stack: StackAt | None, value: Any) -> str:
    if stack is None or stack.plan is None:
        return ""
    return figure.missing if value is None else figure.shown(value)


def _title(gpu: str) -> str:
    try:
        return find_gpu(gpu).title
    except NotInCatalogueError:
        return gpu


def _planned(*path: str | int) -> Callable[[StackAt], Any]:
    """Reads a value of the plan; None if a part of the path is missing."""

    def read(stack: StackAt) -> Any:
        value: Any = stack.plan
        for part in path:
            if value is None:
                return None
            value = value.get(part) if isinstance(part, str) else value[part]
        return value

    return read


def _stated(section: str, *keys: str) -> Callable[[StackAt], Any]:
    """Reads keys of the stack file, separated by a space; None if none is set."""

    def read(stack: StackAt) -> Any:
        values = stack.sections.get(section)
        found = [str(values[key]) for key in keys if values.get(key) is not None] if isinstance(values, dict) else []
        return " ".join(found) or None

    return read


def _draft(key: str) -> Callable[[StackAt], str | None]:
    """Reads a key of the draft model."""

    def read(stack: StackAt) -> str | None:
        model = stack.sections.get("model")
        draft = model.get("draft") if isinstance(model, dict) else None
        value = draft.get(key) if isinstance(draft, dict) else None
        return None if value is None else str(value)

    return read


def _short(revision: str) -> str:
    return revision[:12] if FULL_COMMIT.fullmatch(revision) else revision


def _speed_bound(stack: StackAt) -> str | None:
    """The bound of the speed of a server, in words. None: not known."""
    bound = _planned("speed", "bound", "users")(stack)
    if not bound:
        return None
    at = (
        f"{each['users']:,} user{'s' if each['users'] > 1 else ''} "
        f"{digits(each['output_tokens_per_second'] / each['users'])}"
        for each in (bound[0], *bound[1:][-1:])
    )
    return ", ".join(at) + " tokens/s each"


def _monthly(stack: StackAt) -> float | None:
    hourly = cost_per_hour(stack)
    return None if hourly is None else hourly * HOURS_PER_MONTH


def _times(before: float, after: float) -> str:
    """A whole multiple as such, else the difference in percent."""
    if not before:
        return ""
    factor = after / before
    if factor >= 2 and factor == round(factor):
        return f"{TIMES}{factor:.0f}"
    return f"{_signed(100 * (factor - 1), '.0f')} %" if abs(factor - 1) >= 0.005 else ""


def _difference(before: float, after: float) -> str:
    return _signed(round(after, 1) - round(before, 1), ",.1f")  # of the figures as they are shown


def _dearer(before: float, after: float) -> str:
    return f"{_signed(after - before, ',.2f')} $"


def _signed(value: float, form: str) -> str:
    """A number with its sign."""
    return f"{value:+{form}}".replace("-", MINUS)


_FIGURES = (
    _Figure("machine", machine, str),
    _Figure("repository", _stated("model", "repository"), str, is_name=True),
    _Figure("revision", _stated("model", "revision"), _short, is_name=True),
    _Figure("draft model", _draft("repository"), str, is_name=True, missing="none"),
    _Figure("draft revision", _draft("revision"), _short, is_name=True),
    _Figure("engine", _stated("engine", "name", "version"), str, is_name=True),
    _Figure("image", _stated("engine", "image"), str, is_name=True),
    _Figure("context, tokens", _planned("context"), "{:,}".format, always=True, compared=_times),
    _Figure(
        "full-context requests at a time, at least",
        _planned("max_concurrency", 0),
        "{:,.1f}".format,
        always=True,
        compared=_difference,
    ),
    _Figure("KV cache, tokens, at least", _planned("kv_tokens", 0), "{:,}".format, always=True, compared=_times),
    _Figure("speed, bound: at best", _speed_bound, str, always=True),
    _Figure("KV cache type", _stated("engine", "kv_cache_dtype"), str, is_name=True, missing="unset"),
    _Figure("weights per GPU", _planned("per_gpu", "weights_gib"), "{:,.2f} GiB".format, compared=_times),
    _Figure("weights on the volume", _planned("weights_bytes"), gigabytes, compared=_times),
    _Figure("volume", _planned("disk_bytes"), gigabytes, compared=_times),
    _Figure("download", _planned("download_seconds"), duration, compared=_times),
    _Figure("load", _planned("load_seconds"), duration, compared=_times),
    _Figure("cost per hour", cost_per_hour, dollars, always=True, compared=_dearer, missing="not stated"),
    _Figure("cost per month of 730 h", _monthly, dollars, compared=_dearer, missing="not stated"),
)
