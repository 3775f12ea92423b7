"""The controller of LeaderWorkerSets, for servers over several nodes, from its pinned manifest."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict

import pulumi

_MANIFEST = Path(__file__).parent / "manifests" / "leader_worker_set.json"
"""Written by `python -m lab.build.leader_worker_set`."""

_FIRST = ("Namespace", "CustomResourceDefinition")
_LAST = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


class LeaderWorkerSetControllerArgs(TypedDict):
    """The arguments of `LeaderWorkerSetController`: none."""


class LeaderWorkerSetController(pulumi.ComponentResource):
    """The controller in the namespace `lws-system`. It makes its own certificates, for its webhooks."""

    def __init__(
        self, name: str, args: LeaderWorkerSetControllerArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("heavylift:index:LeaderWorkerSetController", name, dict(args), opts)
        self._name = name
        objects: list[Mapping[str, Any]] = json.loads(_MANIFEST.read_text())["objects"]
        first = [self._object(each, []) for each in objects if each["kind"] in _FIRST]
        others = [self._object(each, first) for each in objects if each["kind"] not in (*_FIRST, *_LAST)]
        for each in objects:
            if each["kind"] in _LAST:  # they refuse LeaderWorkerSets until the controller answers
                self._object(each, others)
        self.register_outputs({})

    def _object(self, manifest: Mapping[str, Any], after: list[pulumi.Resource]) -> pulumi.Resource:
        version, kind = manifest["apiVersion"], manifest["kind"]
        group = version if "/" in version else f"core/{version}"
        name = f"{self._name}-{kind}-{manifest['metadata']['name']}".lower()
        own = pulumi.ResourceOptions(parent=self, depends_on=after)
        return pulumi.CustomResource(f"kubernetes:{group}:{kind}", name, dict(manifest), own)
