"""Add-ons and the versions of them."""

from collections.abc import Mapping

from moto.core.responses import ActionResult

from lab.aws.server.eks.base import EKSOperations, now
from lab.aws.server.eks.clusters import VERSIONS
from lab.aws.server.refusal import refuse
from lab.aws.server.store import Record, identifier

ADDONS: Mapping[str, str] = {
    "vpc-cni": "v1.21.1-eksbuild.1",
    "kube-proxy": "v{version}.0-eksbuild.2",
    "coredns": "v1.13.1-eksbuild.1",
    "eks-pod-identity-agent": "v1.3.10-eksbuild.2",
    "eks-node-monitoring-agent": "v1.5.1-eksbuild.1",
    "aws-ebs-csi-driver": "v1.55.0-eksbuild.1",
    "metrics-server": "v0.8.0-eksbuild.6",
}
"""Names of AWS' own add-ons that heavylift or its users ask for. The versions are examples of the form."""


class Addons(EKSOperations):
    """Operations on add-ons."""

    def _default_version(self, addon: str, version: str) -> str:
        return ADDONS[addon].format(version=version)

    def _addon(self) -> Record:
        cluster, name = self._cluster()["name"], self.params["addonName"]
        if (cluster, name) not in self._kept.addons:
            refuse("addon-unknown", addon=name, cluster=cluster)
        return self._kept.addons[cluster, name]

    def _check_addon_version(self, addon: str, version: str) -> str:
        """Returns the version of the request, or the default. Refuses others, as EKS does."""
        default = self._default_version(addon, version)
        asked: str = self.params.get("addonVersion") or default
        if asked != default:
            refuse("addon-version-not-supported")
        return asked

    def create_addon(self) -> ActionResult:
        """CreateAddon. The add-on is ACTIVE at the next DescribeAddon."""
        cluster, name = self._cluster(), self.params["addonName"]
        if (cluster["name"], name) in self._kept.addons:
            refuse("addon-exists")
        if name not in ADDONS:
            refuse("addon-not-supported", addon=name, version=cluster["version"])
        made = {
            "addonName": name,
            "clusterName": cluster["name"],
            "status": "ACTIVE",
            "addonVersion": self._check_addon_version(name, cluster["version"]),
            "health": {"issues": []},
            "addonArn": self._arn("addon", cluster["name"], name, identifier("addon")),
            "createdAt": now(),
            "modifiedAt": now(),
            "tags": self.params.get("tags", {}),
            "configurationValues": self.params.get("configurationValues", ""),
            "podIdentityAssociations": [],
        }
        self._kept.addons[cluster["name"], name] = made
        return ActionResult({"addon": {**made, "status": "CREATING"}})

    def describe_addon(self) -> ActionResult:
        """DescribeAddon."""
        return ActionResult({"addon": self._addon()})

    def list_addons(self) -> ActionResult:
        """ListAddons."""
        name = self._cluster()["name"]
        return ActionResult({"addons": [addon for owner, addon in self._kept.addons if owner == name]})

    def update_addon(self) -> ActionResult:
        """UpdateAddon."""
        addon = self._addon()
        if "addonVersion" in self.params:
            addon["addonVersion"] = self._check_addon_version(addon["addonName"], self._cluster()["version"])
        if "configurationValues" in self.params:
            addon["configurationValues"] = self.params["configurationValues"]
        addon["modifiedAt"] = now()
        return self._updated("AddonUpdate")

    def delete_addon(self) -> ActionResult:
        """DeleteAddon."""
        addon = self._addon()
        del self._kept.addons[addon["clusterName"], addon["addonName"]]
        return ActionResult({"addon": {**addon, "status": "DELETING"}})

    def describe_addon_versions(self) -> ActionResult:
        """DescribeAddonVersions: one version of each add-on for each version of Kubernetes."""
        asked = self.params.get("kubernetesVersion")
        names = [self.params["addonName"]] if "addonName" in self.params else list(ADDONS)
        found = [
            {"addonName": name, "addonVersions": self._versions_of(name, [asked] if asked else list(VERSIONS))}
            for name in names
            if name in ADDONS
        ]
        return ActionResult({"addons": found})

    def _versions_of(self, addon: str, kubernetes: list[str]) -> list[Record]:
        found: dict[str, list[Record]] = {}
        for version in kubernetes:
            compatibility = {"clusterVersion": version, "platformVersions": ["*"], "defaultVersion": True}
            found.setdefault(self._default_version(addon, version), []).append(compatibility)
        return [{"addonVersion": version, "compatibilities": each} for version, each in found.items()]
