"""Checks the AWS account before the first resource is registered. Reports all faults in one message."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import boto3
import pulumi

from components.aws.account.facts import AccountFacts, AccountUnreachable, read_account
from components.aws.account.faults import (
    account_faults,
    account_warnings,
    placeholder_faults,
    seconds_to_serve,
    time_to_serve,
)
from components.planned.verdict import judged_plan
from components.pods.names import stack_name
from config.stack.sections import Aws, StackConfig
from engines.request import FitRequest
from planner import Plan


def session() -> Any:
    """The session of boto3, with the credentials of the environment and of `~/.aws`."""
    return boto3.session.Session()


def checked_account(stack: StackConfig, place: Aws, request: FitRequest, plan: Plan) -> AccountFacts:
    """Returns what is known of the account. Raises pulumi.RunError, after the plan's summary, with every fault."""
    faults = list(placeholder_faults(stack, place))
    try:
        facts = read_account(session(), stack, place, stack_name())
    except AccountUnreachable as reason:
        missing = f"AWS was not checked ({reason}): expected credentials, as boto3 finds them; the plan above holds"
        raise _refusal(request, [*faults, missing]) from None
    now, planned = datetime.now(UTC), (plan.download_seconds or 0) + (plan.load_seconds or 0)
    seconds = seconds_to_serve(place, facts, planned)
    faults += account_faults(stack, place, facts, seconds, now)
    if faults:
        raise _refusal(request, faults)
    pulumi.info(f"AWS: {facts.identity} in {place.region}")
    if left := time_to_serve(facts, seconds, now):
        pulumi.info(f"Capacity Block: {left}")
    for words in account_warnings(place, facts):
        pulumi.warn(words)
    for what in facts.unread:
        pulumi.warn(f"not checked before anything was made: {what}")
    return facts


def _refusal(request: FitRequest, faults: list[str]) -> pulumi.RunError:
    judged_plan(request)
    return pulumi.RunError("\n  ".join(["the AWS account is not fit for this stack, nothing was created:", *faults]))
