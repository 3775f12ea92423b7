"""Rules for extra arguments: unknown flags, flags that the plan or the server sets, and values without a flag."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from config.catalogue import EngineFlags, engine_flags
from config.engine_name import EngineName
from engines.finding import Finding, rejected, unknown, warning


@dataclass(frozen=True, slots=True)
class FlagRules:
    """Flags of an engine with special rules. All flag names are in `config/data/engine_flags.json`."""

    engine: EngineName
    of_the_plan: Mapping[str, str]
    """Flags that the plan sets, and the request's field for each: given twice, plan and engine would
    disagree."""
    not_counted: frozenset[str]
    """Flags that can change what a GPU holds and have no formula: a draft model, adapters, another type of weights.
    With one of them, memory is unknown. A flag in no set here does not change memory."""
    off_gpu: frozenset[str]
    """Flags that keep weights in host memory, so that a model may fit although the plan rejects it."""
    of_the_server: frozenset[str]
    """Flags that the deployed server sets, or that would break clients and probes."""


def check_arguments(rules: FlagRules, arguments: Iterable[str]) -> Iterator[Finding]:
    """Findings about each argument, which is a flag or a value of the flag before it."""
    takes_values = False
    for argument in arguments:
        given = argument.split("=", 1)[0]
        if given.startswith("-") and not _is_number(given):
            takes_values = "=" not in argument
            yield from _flag(rules, given)
        elif not takes_values:
            yield rejected("argument_without_flag", f"{argument!r} follows no flag.", "Name its flag before it.")


def _flag(rules: FlagRules, given: str) -> Iterator[Finding]:
    known = engine_flags(rules.engine)
    flag = _flag_of(given, known.short_forms)
    # A switch `--x` may be turned off by `--no-x`.
    positive = flag.replace("--no-", "--", 1)
    if flag in rules.of_the_server:
        yield rejected("argument_of_the_server", f"{given} is set by the deployed server.", "Remove it.")
    elif flag == "--api-key":
        text = f"{given} would show in the pod and in the stack's state."
        yield rejected("argument_is_secret", text, "Remove it, and let a gateway before the Service ask for keys.")
    elif flag in rules.off_gpu:
        yield warning("argument_moves_weights", f"{given} keeps weights off the GPU, and the plan does not count that.")
    elif flag in rules.not_counted:
        text = f"{given} can change what a GPU holds, and the plan does not count that."
        yield unknown("argument_not_counted", text, f"Remove {given}, or measure it on the machine.")
    elif positive in rules.of_the_plan:
        text = f"{given} is set by the plan; as an extra argument it would contradict the plan."
        yield rejected("argument_of_the_plan", text, f"Use the setting {rules.of_the_plan[positive]}.")
    elif flag not in known.flags and positive not in known.flags:
        yield _not_known(rules.engine, known, given, flag)


def _flag_of(given: str, short_forms: Mapping[str, str]) -> str:
    """The flag as the engine's parser takes it: `--x_y` for `--x-y`, `--x.key` and `-x.key` for a nested value of it,
    and `-x3` for `-x 3`."""
    name = given.split(".", 1)[0]
    if name[2:].isdigit() and name[:2] in short_forms:
        name = name[:2]
    name = short_forms.get(name, name)
    return name.replace("_", "-") if name.startswith("--") else name


def _not_known(engine: EngineName, known: EngineFlags, given: str, flag: str) -> Finding:
    gone = known.removed.get(flag.replace("--no-", "--", 1))
    if gone:
        return rejected("argument_gone", f"{given} is {gone} in {engine} {known.version}.", "Remove it.")
    if not known.complete:
        return warning("argument_not_checked", f"{given} is not among the flags of {engine} that are listed here.")
    close = get_close_matches(flag, known.flags, n=2, cutoff=0.6)
    fix = f"Did you mean {' or '.join(close)}?" if close else "Remove it."
    return rejected("argument_not_known", f"{given} is not a flag of {engine} {known.version}.", fix)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
