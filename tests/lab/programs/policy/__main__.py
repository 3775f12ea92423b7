"""A policy pack with one mandatory rule that the program beside it breaks."""

from pulumi_policy import (
    EnforcementLevel,
    PolicyPack,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
)


def no_deployments(resource: ResourceValidationArgs, report: ReportViolation) -> None:
    """Reports any Deployment."""
    if resource.resource_type == "kubernetes:apps/v1:Deployment":
        report("Deployments are not welcome here", None)


PolicyPack(
    name="no-deployments",
    enforcement_level=EnforcementLevel.MANDATORY,
    policies=[
        ResourceValidationPolicy(name="no-deployments", description="No Deployments.", validate=no_deployments),
    ],
)
