"""Rules about secrets, rights and networks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from policy.resources import Pod, Resource, at, containers, pods
from policy.rules.rule import Rule, Violation

_HUB_TOKENS = {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH"}
_SECRET = re.compile(r"(^|_)(TOKEN|SECRET|PASSWORD|PASSWD|API_KEY|ACCESS_KEY|PRIVATE_KEY)(_|$)")
_NO_SECRET = re.compile(r"(^|_)(PATH|FILE|DIR|ID|LIMIT)$")
_KEY_OPTION = "--api-key"
_PUBLIC_TYPES = ("LoadBalancer", "NodePort")
_GPUS = ("nvidia.com/gpu", "amd.com/gpu")


def _token_in_stager_only(resources: Sequence[Resource], _: Mapping[str, Any]) -> Iterator[Violation]:
    for container in containers(resources):
        names = {variable.get("name") for variable in container.variables}
        if not container.pod.is_stager and (found := names & _HUB_TOKENS):
            yield Violation(
                f"{container.name} of {container.pod.owner.name} has {', '.join(sorted(map(str, found)))}: only the "
                "stager needs the hub's token. Remove it.",
                container.pod.owner,
            )


def _no_plain_secret(resources: Sequence[Resource], _: Mapping[str, Any]) -> Iterator[Violation]:
    for container in containers(resources):
        owner = container.pod.owner
        for variable in container.variables:
            name = str(variable.get("name")).upper()
            if variable.get("value") and _SECRET.search(name) and not _NO_SECRET.search(name):
                yield Violation(
                    f"{variable['name']} of {container.name} in {owner.name} is in plain text. Put it into a Secret, "
                    "and name that with valueFrom.secretKeyRef.",
                    owner,
                )


def _whole_gpus(resources: Sequence[Resource], _: Mapping[str, Any]) -> Iterator[Violation]:
    for container in containers(resources):
        owner = container.pod.owner
        limits, requests = (at(container.fields, "resources", key) or {} for key in ("limits", "requests"))
        for gpu in _GPUS:
            asked, limit = requests.get(gpu), limits.get(gpu)
            if asked is not None and str(asked) != str(limit):
                yield Violation(
                    f"{container.name} of {owner.name} requests {asked} {gpu} and is limited to {limit}: Kubernetes "
                    "admits equal numbers only. Set the limit alone.",
                    owner,
                )


def _no_public_server(resources: Sequence[Resource], _: Mapping[str, Any]) -> Iterator[Violation]:
    open_servers = [pod for pod in pods(resources) if pod.is_server and not _has_key(pod)]
    if not open_servers:
        return
    for resource in resources:
        if resource.type == "kubernetes:core/v1:Service" and _is_public(resource, open_servers):
            yield Violation(
                f"The Service {resource.name} is {at(resource.properties, 'spec', 'type')}, and its server asks for no "
                f"key: everybody who reaches it can use it. Use ClusterIP, or start the server with {_KEY_OPTION}.",
                resource,
            )
        if resource.is_of_kubernetes and resource.kind in ("Ingress", "HTTPRoute"):
            yield Violation(
                f"{resource.kind} {resource.name} leads to a stack whose server asks for no key. Start the server with "
                f"{_KEY_OPTION}.",
                resource,
            )


def _network_policy(resources: Sequence[Resource], _: Mapping[str, Any]) -> Iterator[Violation]:
    policies = [each for each in resources if each.type == "kubernetes:networking.k8s.io/v1:NetworkPolicy"]
    for pod in pods(resources):
        own = [each for each in policies if _selects(at(each.properties, "spec", "podSelector"), pod)]
        if pod.is_server and (not own or any(_admits_everybody(each) for each in own)):
            yield Violation(
                f"No NetworkPolicy names who may call {pod.owner.name}: every pod of the cluster can. Set "
                "heavylift:network.from, or add a policy that admits its callers.",
                pod.owner,
            )


def _admits_everybody(policy: Resource) -> bool:
    """Whether a rule of the policy names no source. Rules of several policies add up."""
    return any(not rule.get("from") for rule in at(policy.properties, "spec", "ingress") or ())


def _pod_security(resources: Sequence[Resource], _: Mapping[str, Any]) -> Iterator[Violation]:
    for pod in pods(resources):
        if _is_device_plugin(pod) or _is_controller(pod):
            continue
        for fault in _pod_faults(pod):
            yield Violation(f"{pod.owner.name} {fault}", pod.owner)


def _pod_faults(pod: Pod) -> Iterator[str]:
    if pod.spec.get("automountServiceAccountToken") is not False:
        yield "gets a token of the API server, which it does not need. Set automountServiceAccountToken: false."
    if pod.spec.get("hostPID") or pod.spec.get("hostIPC"):
        yield "sees the processes of its node. Remove hostPID and hostIPC."
    for volume in pod.spec.get("volumes") or ():
        if volume.get("hostPath") and volume.get("name") != "weights":
            yield f"mounts the directory '{volume['name']}' of its node. Only weights may be there: use an emptyDir."
    for container in pod.all_containers:
        context = container.fields.get("securityContext") or {}
        if context.get("privileged"):
            yield f"runs {container.name} privileged, so that it owns its node. Remove privileged."
        elif context.get("allowPrivilegeEscalation") is not False:
            yield f"lets {container.name} gain rights. Set allowPrivilegeEscalation: false."


def _is_device_plugin(pod: Pod) -> bool:
    """Device plugins register with the kubelet through a directory of the node."""
    is_daemon = pod.owner.kind == "DaemonSet" and pod.owner.namespace == "kube-system"
    return is_daemon and "device-plugin" in str(at(pod.owner.properties, "metadata", "name") or pod.owner.name)


def _is_controller(pod: Pod) -> bool:
    """The controller of LeaderWorkerSets makes pods, and so needs a token of the API server."""
    return pod.owner.kind == "Deployment" and pod.owner.namespace == "lws-system"


def _has_key(pod: Pod) -> bool:
    """Whether the server asks its callers for a key."""
    names = {variable.get("name") for container in pod.containers for variable in container.variables}
    given = any(container.option(_KEY_OPTION) for container in pod.containers)
    return given or bool(names & {"VLLM_API_KEY", "SGLANG_API_KEY", "LLAMA_API_KEY"})


def _is_public(service: Resource, servers: Sequence[Pod]) -> bool:
    spec = service.properties.get("spec") or {}
    selector = {"matchLabels": spec.get("selector") or {}}
    return spec.get("type") in _PUBLIC_TYPES and any(_selects(selector, pod) for pod in servers)


def _selects(selector: Mapping[str, Any] | None, pod: Pod) -> bool:
    """Whether the labels of a selector are the pod's. One without labels selects every pod."""
    wanted = (selector or {}).get("matchLabels") or {}
    return all(pod.labels.get(name) == value for name, value in wanted.items())


RULES = (
    Rule("hub-token-in-stager-only", "Only the stager has the hub's token.", _token_in_stager_only),
    Rule("no-secret-in-plain-text", "No environment variable has a secret in plain text.", _no_plain_secret),
    Rule("gpu-requests-equal-limits", "GPUs are requested as Kubernetes admits them.", _whole_gpus),
    Rule("no-public-server", "A server that can be reached from outside asks for a key.", _no_public_server),
    Rule("network-policy", "A NetworkPolicy names who may call a server.", _network_policy, is_mandatory=False),
    Rule("pod-security", "Pods have no rights on their node or the API server.", _pod_security),
)
