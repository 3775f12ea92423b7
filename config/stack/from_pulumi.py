"""Reads the stack that Pulumi runs: the only module that reads `pulumi.Config` and the environment.

Reads every file that the stack names (lock, kubeconfig) before any resource is registered. All errors are reported in
one message, without a traceback.
"""

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import pulumi
from pulumi.runtime import config as runtime_config

from config.errors import StackError
from config.stack import arguments
from config.stack.file import API_KEY, HUB_TOKEN, NAMESPACE, SECRETS, checked_stack_name
from config.stack.kubeconfig import read_kubeconfig
from config.stack.overrides import overridden
from config.stack.sections import StackConfig
from config.stack.weights import WeightsLock, draft_lock_of, lock_of

T = TypeVar("T")

_API_KEY = re.compile(r"[A-Za-z0-9._~+/=-]{16,}")


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
    draft_lock: WeightsLock | None
    """The lock file of the draft model. None: the stack names none."""
    kubeconfig: Mapping[str, Any]
    """The stack's own context of its kubeconfig file. Empty: the stack is on AWS."""
    hub_token: pulumi.Output[str] | None
    """The model hub's token, a secret; None: the stack has none."""
    api_key: pulumi.Output[str] | None
    """The key that clients send, a secret; None: the API is open."""


def running_stack() -> RunningStack:
    """The stack that Pulumi runs, validated, with environment overrides applied and logged.

    Raises pulumi.RunError with every error.
    """
    faults: list[str] = []
    instance = _read(_instance, "", faults)
    sections = _overridden_sections()
    config = _read(lambda: StackConfig.parse(sections), None, faults)
    token = _read(lambda: _secret(HUB_TOKEN), None, faults)
    key = _read(_api_key, None, faults)
    if config is None:
        raise pulumi.RunError(_message(faults))
    kubeconfig: dict[str, Any] = {}
    if config.aws is None:
        kubeconfig = _read(lambda: read_kubeconfig(config.cluster), {}, faults)
    _read(lambda: config.promotion.require_another(instance), None, faults)
    lock = _read(lambda: lock_of(config), None, faults)
    draft_lock = _read(lambda: draft_lock_of(config), None, faults)
    if faults:
        raise pulumi.RunError(_message(faults))
    return RunningStack(
        instance=instance,
        sections=cast(arguments.StackConfig, sections),
        config=config,
        lock=lock,
        draft_lock=draft_lock,
        kubeconfig=kubeconfig,
        hub_token=token,
        api_key=key,
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


def _secret(key: str) -> pulumi.Output[str] | None:
    value = pulumi.Config().get_secret(key)
    if value is not None and not _is_secret(f"{pulumi.get_project()}:{key}"):
        raise StackError([f"{NAMESPACE}{key}: is in plain text: set it with `pulumi config set --secret`"])
    return value


def _api_key() -> pulumi.Output[str] | None:
    """Engines take an empty key for none, and llama.cpp takes a comma for two."""
    key = _secret(API_KEY)
    if key is not None and not _API_KEY.fullmatch(pulumi.Config().get(API_KEY) or ""):
        raise StackError(
            [f"{NAMESPACE}{API_KEY}: expected at least 16 letters, digits or any of '._~+/=-'; `openssl rand -hex 32`"]
        )
    return key


def _sections() -> dict[str, Any]:
    """Every `heavylift:` value except the secrets. `pulumi.Config` cannot list keys."""
    values = runtime_config.get_config_env() | runtime_config.CONFIG.get()
    prefix = f"{pulumi.get_project()}:"
    return {
        key.removeprefix(prefix): _parsed(value)
        for key, value in sorted(values.items())
        if key.startswith(prefix) and key.removeprefix(prefix) not in SECRETS
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
