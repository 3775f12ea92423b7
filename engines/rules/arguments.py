"""Rules for extra arguments and environment variables: unknown flags, flags that the plan or the server sets, values
without a flag, and whatever else changes what the plan counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase

from config.catalogue import EngineFlags, engine_flags
from config.engine_name import EngineName
from engines.finding import Finding, rejected, unknown

NOT_COUNTED = "argument_not_counted"
"""Code of a flag that can take memory or free it: what the plan says of memory rejects nothing beside it."""

ENVIRONMENT_NOT_COUNTED = "environment_not_counted"
"""Code of an environment variable with the same effect."""

ADDS_MEMORY = "argument_adds_memory"
"""Code of a flag that can only take memory."""


_DEVICES = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
"""Environment variables that hide GPUs from any engine."""
_REFUSED = {
    "HF_HUB_OFFLINE": "lets the server load files from a hub, which nothing verifies",
    "HF_TOKEN": "is a secret in plain text, and the server downloads nothing",
}
"""Environment variables that no engine's server may have, and what each of them does."""
KEY_IN_PLAIN_TEXT = "is the API key in plain text, where heavylift:api_key keeps a secret"
"""What the variable of an engine's API key does among those of the stack file."""


@dataclass(frozen=True, slots=True)
class FlagRules:
    """Flags of an engine with special rules. All flag names are in `config/data/engine_flags.json`."""

    engine: EngineName
    of_the_plan: Mapping[str, str]
    """Flags that the plan sets, and the request's field for each: given twice, plan and engine would
    disagree."""
    harmless: frozenset[str]
    """Flags that change nothing that a GPU or the host holds. Any other flag makes memory unknown."""
    counted: frozenset[str]
    """Flags that the plan counts where they stand among the extra arguments."""
    only_add: frozenset[str]
    """Flags without a formula that can only add to what a GPU holds, so that what does not fit without them is still
    rejected."""
    of_the_server: frozenset[str]
    """Flags that the deployed server sets, or that would break clients and probes."""
    environment: tuple[str, ...]
    """Patterns of environment variables that change what the plan counts."""
    refused_environment: Mapping[str, str]
    """Environment variables that no server of this engine may have, and what each of them does."""


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


def check_environment(rules: FlagRules, names: Iterable[str]) -> Iterator[Finding]:
    """Findings about each environment variable that the stack sets for the server."""
    for name in names:
        if what_it_does := {**_REFUSED, **rules.refused_environment}.get(name):
            text = f"engine.environment sets {name}, which {what_it_does}."
            yield rejected("environment_refused", text, f"Remove {name}.")
        elif any(fnmatchcase(name, pattern) for pattern in (*_DEVICES, *rules.environment)):
            text = f"engine.environment sets {name}, which changes what the plan counts."
            yield unknown(ENVIRONMENT_NOT_COUNTED, text, f"Remove {name}, or measure it on the machine.")


def _flag(rules: FlagRules, given: str) -> Iterator[Finding]:
    known = engine_flags(rules.engine)
    flag = _flag_of(given, known.short_forms)
    # A switch `--x` may be turned off by `--no-x`.
    positive = flag if flag in known.flags else flag.replace("--no-", "--", 1)
    if flag in rules.of_the_server:
        yield rejected("argument_of_the_server", f"{given} is set by the deployed server.", "Remove it.")
    elif flag == "--api-key":
        text = f"{given} would show in the pod and in the stack's state."
        yield rejected("argument_is_secret", text, "Remove it, and set the secret heavylift:api_key.")
    elif positive in rules.of_the_plan:
        text = f"{given} is set by the plan; as an extra argument it would contradict the plan."
        yield rejected("argument_of_the_plan", text, f"Use the setting {rules.of_the_plan[positive]}.")
    elif flag not in known.flags and positive not in known.flags:
        yield _not_known(rules.engine, known, given, flag)
    elif positive not in rules.harmless and flag not in rules.counted:
        code = ADDS_MEMORY if flag in rules.only_add else NOT_COUNTED
        text = f"{given} can change what the GPUs or the host hold, and the plan does not count that."
        yield unknown(code, text, f"Remove {given}, or measure it on the machine.")


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
        return rejected("argument_gone", f"{engine} {known.version}: {given} is {gone}.", "Remove it.")
    if not known.complete:
        text = f"{given} is not among the flags of {engine} {known.version}: what it does to memory is not known."
        return unknown(NOT_COUNTED, text, f"Remove {given}, or measure it on the machine.")
    close = get_close_matches(flag, known.flags, n=2, cutoff=0.6)
    fix = f"Did you mean {' or '.join(close)}?" if close else "Remove it."
    return rejected("argument_not_known", f"{given} is not a flag of {engine} {known.version}.", fix)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
