"""The policy pack that Pulumi's engine runs: each rule of `policy.rules` as a policy over the whole stack."""

import sys
from pathlib import Path

from pulumi_policy import (
    EnforcementLevel,
    PolicyConfigSchema,
    PolicyPack,
    PolicyResource,
    ReportViolation,
    StackValidationArgs,
    StackValidationPolicy,
)

sys.path.insert(0, str(Path(__file__).parents[1]))  # the engine runs this directory as a program

from policy.resources import Resource
from policy.rules import RULES
from policy.rules.rule import Rule


def _resources(given: list[PolicyResource]) -> list[Resource]:
    """The engine's resources in the rules' own form, with their parents."""
    by_urn: dict[str, Resource] = {}

    def converted(resource: PolicyResource) -> Resource:
        if resource.urn not in by_urn:
            parent = converted(resource.parent) if resource.parent else None
            by_urn[resource.urn] = Resource(resource.resource_type, resource.name, resource.props, resource.urn, parent)
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


PolicyPack(name="heavylift", policies=[_policy(rule) for rule in RULES])
