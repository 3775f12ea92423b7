"""Systems Manager: the public parameters that name EKS' AMIs, which moto lacks and nobody can put."""

import hashlib
import re
from collections.abc import Mapping, Sequence

from moto.core.responses import ActionResult
from moto.ssm.responses import SimpleSystemManagerResponse

from lab.aws.server.eks.base import now
from lab.aws.server.refusal import refuse

RELEASES: Mapping[str, Sequence[str]] = {
    "1.36": ("1.36.0-20260714", "1.36.0-20260709"),
    "1.35": ("1.35.3-20260714", "1.35.3-20260709"),
    "1.34": ("1.34.7-20260714", "1.34.7-20260709"),
    "1.33": ("1.33.9-20260714", "1.33.9-20260709"),
}
"""Releases of the AL2023 AMI by version of Kubernetes, newest first (dates: github.com/awslabs/amazon-eks-ami,
CHANGELOG.md, v20260714 and v20260709; the patch versions are examples of the form)."""
OPTIMIZED_AMI = re.compile(
    r"/aws/service/eks/optimized-ami/(?P<version>[\d.]+)/amazon-linux-2023/x86_64/(?P<variant>standard|nvidia)/"
    r"recommended/(?P<field>image_id|release_version)"
)


def ami_parameter(name: str) -> str | None:
    """Returns the value of a public parameter of EKS. None: there is no such parameter."""
    found = OPTIMIZED_AMI.fullmatch(name)
    if not found or found["version"] not in RELEASES:
        return None
    release = RELEASES[found["version"]][0]
    if found["field"] == "release_version":
        return release
    return "ami-" + hashlib.sha256(f"{found['variant']} {release}".encode()).hexdigest()[:17]


class LabParameters(SimpleSystemManagerResponse):
    """moto's Systems Manager with the parameters of EKS."""

    def get_parameter(self) -> ActionResult:
        """GetParameter."""
        name = self._get_param("Name")
        if not name.startswith("/aws/service/eks/"):
            return super().get_parameter()
        value = ami_parameter(name)
        if value is None:
            refuse("parameter-unknown", name=name)
        return ActionResult({"Parameter": self._record(name, value)})

    def get_parameters(self) -> ActionResult:
        """GetParameters, of EKS."""
        found = {name: ami_parameter(name) for name in self._get_param("Names")}
        return ActionResult(
            {
                "Parameters": [self._record(name, value) for name, value in found.items() if value is not None],
                "InvalidParameters": [name for name, value in found.items() if value is None],
            }
        )

    def _record(self, name: str, value: str) -> dict[str, object]:
        arn = f"arn:{self.partition}:ssm:{self.region}::parameter{name}"
        return {"Name": name, "Type": "String", "Value": value, "Version": 1, "LastModifiedDate": now(), "ARN": arn}
