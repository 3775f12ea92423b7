"""Service Quotas: the vCPUs of each family of instance types, and the network's."""

from collections.abc import Mapping

from moto.core.responses import ActionResult
from moto.servicequotas.responses import ServiceQuotasResponse

from lab.aws.server.refusal import refuse
from lab.aws.server.store import REGIONS, Region

QUOTAS: Mapping[tuple[str, str], tuple[str, float]] = {
    ("ec2", "L-1216C47A"): ("Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances", 64),
    ("ec2", "L-417A185B"): ("Running On-Demand P instances", 384),
    ("ec2", "L-DB2E81BA"): ("Running On-Demand G and VT instances", 384),
    ("ec2", "L-7212CCBC"): ("All P Spot Instance Requests", 0),
    ("ec2", "L-3819A6DF"): ("All G and VT Spot Instance Requests", 0),
    ("ec2", "L-0263D0A3"): ("EC2-VPC Elastic IPs", 5),
    ("vpc", "L-F678F1CE"): ("VPCs per Region", 5),
    ("eks", "L-1194D53C"): ("Clusters", 100),
}
"""Name and value, by service and quota code. The values are an account's that has been granted two P nodes; a new
account's P and G quotas are 0."""
FAMILIES = {"p": "L-417A185B", "g": "L-DB2E81BA"}
"""Quota of on-demand instances by the first letter of the type. Others: standard."""
STANDARD = "L-1216C47A"


def quota(region: Region, service: str, code: str) -> float:
    """Returns the value of a quota, as it was set or as it is at first."""
    return region.quotas.get(code, QUOTAS[service, code][1])


def vcpu_quota(region: Region, kind: str) -> float | None:
    """Returns the vCPUs that all on-demand instances of the type's family may have together."""
    return quota(region, "ec2", FAMILIES.get(kind[0], STANDARD))


class LabServiceQuotas(ServiceQuotasResponse):
    """moto's Service Quotas, with those of EC2 and EKS."""

    def __init__(self) -> None:
        super().__init__()
        self.automated_parameter_parsing = True

    def get_service_quota(self) -> ActionResult:  # type: ignore[override]
        """GetServiceQuota."""
        service, code = self.params["ServiceCode"], self.params["QuotaCode"]
        if (service, code) not in QUOTAS:
            refuse("quota-unknown", service=service, quota=code)
        return ActionResult({"Quota": self._record(service, code)})

    def list_service_quotas(self) -> ActionResult:
        """ListServiceQuotas."""
        service = self.params["ServiceCode"]
        return ActionResult({"Quotas": [self._record(owner, code) for owner, code in QUOTAS if owner == service]})

    def _record(self, service: str, code: str) -> dict[str, object]:
        value = quota(REGIONS[self.current_account][self.region], service, code)
        name = QUOTAS[service, code][0]
        return {"ServiceCode": service, "QuotaCode": code, "QuotaName": name, "Value": value, "Adjustable": True}
