"""The policy pack that Pulumi's engine runs: each rule of `policy.rules` as a policy over the whole stack."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pulumi_policy import (
    EnforcementLevel,
    PolicyConfigSchema,
    PolicyPack,
    PolicyResource,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    StackValidationArgs,
    StackValidationPolicy,
)

sys.path.insert(0, str(Path(__file__).parents[1]))  # the engine runs this directory as a program

from policy.resources import Resource
from policy.rules import RULES
from policy.rules.rule import Rule

_inputs: dict[str, Mapping[str, Any]] = {}
"""Inputs of each resource by URN. In a preview, objects of a cluster that does not exist yet have nothing else."""


def _remember(resource: ResourceValidationArgs, _: ReportViolation) -> None:
    _inputs[resource.urn] = resource.props


def _resources(given: list[PolicyResource]) -> list[Resource]:
    """The engine's resources in the rules' own form, with their parents."""
    by_urn: dict[str, Resource] = {}

    def converted(resource: PolicyResource) -> Resource:
        if resource.urn not in by_urn:
            parent = converted(resource.parent) if resource.parent else None
            properties = resource.props or _inputs.get(resource.urn, {})
            by_urn[resource.urn] = Resource(resource.resource_type, resource.name, properties, resource.urn, parent)
        return by_urn[resource.urn]

    return [converted(resource) for resource in given]


def _policy(rule: Rule) -> StackValidationPolicy:
    def validate(stack: StackValidationArgs, report: ReportViolation) -> None:
        for violation in rule.violations(_resources(stack.resources), stack.get_config()):
            report(violation.sentence, violation.resource.urn)

    return StackValidationPolicy(
        name=rule.name,
        description=rule.description,
        validate=validate,
        enforcement_level=EnforcementLevel.MANDATORY if rule.is_mandatory else EnforcementLevel.ADVISORY,
        config_schema=PolicyConfigSchema({name: dict(schema) for name, schema in rule.settings.items()})
        if rule.settings
        else None,
    )


_READS_INPUTS = ResourceValidationPolicy(
    name="inputs",
    description="Remembers the inputs of each resource for the other rules, and finds nothing.",
    validate=_remember,
    enforcement_level=EnforcementLevel.ADVISORY,
)

PolicyPack(name="heavylift", policies=[_READS_INPUTS, *map(_policy, RULES)])
