"""Reads the stack that Pulumi runs: the only module that reads `pulumi.Config` and the environment.

Reads every file that the stack names (lock, kubeconfig) before any resource is registered. All errors are reported in
one message, without a traceback.
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import pulumi
from pulumi.runtime import config as runtime_config

from config.errors import StackError
from config.stack import arguments
from config.stack.file import HUB_TOKEN, NAMESPACE, checked_stack_name
from config.stack.kubeconfig import read_kubeconfig
from config.stack.overrides import overridden
from config.stack.sections import StackConfig
from config.stack.weights import WeightsLock, read_lock

T = TypeVar("T")


@dataclass(frozen=True)
class RunningStack:
    """A stack, with the files that it names."""

    instance: str
    """Name of the stack. The Service and the claims are named after it."""
    sections: arguments.StackConfig
    """What its file says, with environment overrides applied: plain values that `config` found well."""
    config: StackConfig
    lock: WeightsLock | None
    """The weights lock file. None: the stack names none."""
    kubeconfig: Mapping[str, Any]
    """The stack's own context of its kubeconfig file. Empty: the stack is on AWS."""
    hub_token: pulumi.Output[str] | None
    """The model hub's token, a secret; None: the stack has none."""


def running_stack() -> RunningStack:
    """The stack that Pulumi runs, validated, with environment overrides applied and logged.

    Raises pulumi.RunError with every error.
    """
    faults: list[str] = []
    instance = _read(_instance, "", faults)
    sections = _overridden_sections()
    config = _read(lambda: StackConfig.parse(sections), None, faults)
    token = _read(_hub_token, None, faults)
    if config is None:
        raise pulumi.RunError(_message(faults))
    kubeconfig: dict[str, Any] = {}
    if config.aws is None:
        kubeconfig = _read(lambda: read_kubeconfig(config.cluster), {}, faults)
    lock = _read(lambda: _lock(config), None, faults)
    if faults:
        raise pulumi.RunError(_message(faults))
    return RunningStack(
        instance=instance,
        sections=cast(arguments.StackConfig, sections),
        config=config,
        lock=lock,
        kubeconfig=kubeconfig,
        hub_token=token,
    )


def _read(source: Callable[[], T], otherwise: T, faults: list[str]) -> T:
    """The result of `source`. If it raises StackError, adds its errors to `faults` and returns `otherwise`."""
    try:
        return source()
    except StackError as error:
        faults.extend(error.faults)
        return otherwise


def _message(faults: list[str]) -> str:
    return "\n  ".join([f"the stack '{pulumi.get_stack()}' cannot be used, nothing was created:", *faults])


def _instance() -> str:
    return checked_stack_name(pulumi.get_stack())


def _overridden_sections() -> dict[str, Any]:
    sections, notes = overridden(_sections(), os.environ)
    for note in notes:
        pulumi.info(note)
    return sections


def _lock(config: StackConfig) -> WeightsLock | None:
    return read_lock(Path(config.stage.lock), config.model) if config.stage.lock else None


def _hub_token() -> pulumi.Output[str] | None:
    token = pulumi.Config().get_secret(HUB_TOKEN)
    if token is not None and not _is_secret(f"{pulumi.get_project()}:{HUB_TOKEN}"):
        raise StackError([f"{NAMESPACE}{HUB_TOKEN}: is in plain text: set it with `pulumi config set --secret`"])
    return token


def _sections() -> dict[str, Any]:
    """Every `heavylift:` value except the secret. `pulumi.Config` cannot list keys."""
    values = runtime_config.get_config_env() | runtime_config.CONFIG.get()
    prefix = f"{pulumi.get_project()}:"
    return {
        key.removeprefix(prefix): _parsed(value)
        for key, value in sorted(values.items())
        if key.startswith(prefix) and key != prefix + HUB_TOKEN
    }


def _is_secret(key: str) -> bool:
    """Whether the key is encrypted in the stack file. The SDK does not check this."""
    return runtime_config.is_config_secret(key) or key in runtime_config.get_config_secret_keys_env()


def _parsed(value: str) -> Any:
    """Parses the JSON that Pulumi passes for objects. Other text is returned unchanged; validation rejects it later."""
    try:
        return json.loads(value)
    except ValueError:
        return value
