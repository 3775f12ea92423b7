"""Which Prometheus of the cluster will select a PodMonitor and a PrometheusRule, and what is missing if none does.

The Prometheus Operator selects by labels of the object and of its namespace. A selector that is absent selects no
object, and an absent one for namespaces only the Prometheus' own; an empty one selects all (prometheus-operator.dev,
API reference, `podMonitorSelector`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from components.cluster.api import ClusterApi, ClusterUnreachable
from config.stack.sections.network import Network

MONITORING = "monitoring.coreos.com/v1"
"""API group and version of PodMonitors and PrometheusRules."""
_AGENTS = "monitoring.coreos.com/v1alpha1"
NAMESPACE_NAME = "kubernetes.io/metadata.name"
"""Label that the API server gives every namespace."""

Labels = Mapping[str, str]
Selector = Mapping[str, Any] | None


@dataclass(frozen=True)
class Selecting:
    """How a Prometheus selects objects of one kind."""

    objects: Selector
    namespaces: Selector


@dataclass(frozen=True)
class Prometheus:
    """A Prometheus, or PrometheusAgent, that the operator runs."""

    kind: str
    namespace: str
    name: str
    monitors: Selecting
    rules: Selecting | None
    """None: an agent, which evaluates no alerts."""

    @property
    def title(self) -> str:
        """As messages name it."""
        return f"{self.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True)
class Monitoring:
    """The Prometheus Operator of a cluster."""

    has_api: bool = False
    """Whether the cluster has PodMonitors."""
    prometheuses: Sequence[Prometheus] = ()
    hidden: str | None = None
    """Why these could not be read. None: read."""


@dataclass(frozen=True)
class Selection:
    """What happens to the stack's PodMonitor and PrometheusRule."""

    selected: Sequence[str] = ()
    """Sentences about each Prometheus that selects them."""
    missing: Sequence[str] = ()
    """Sentences about what is missing, if one of the two is selected by none."""
    scrapers: Sequence[Prometheus] = ()
    """Each Prometheus that selects the PodMonitor."""


def read_monitoring(api: ClusterApi, *, wanted: bool) -> Monitoring:
    """Reads the operator's objects of all namespaces, if they are `wanted`.

    Raises ClusterUnreachable if the cluster does not answer.
    """
    if not wanted or api.find(f"/apis/{MONITORING}") is None:
        return Monitoring()
    try:
        servers = api.read(f"/apis/{MONITORING}/prometheuses")["items"]
        agents = (api.find(f"/apis/{_AGENTS}/prometheusagents") or {"items": []})["items"]
    except ClusterUnreachable as refusal:
        return Monitoring(has_api=True, hidden=str(refusal))
    found = [
        *(_prometheus("Prometheus", each) for each in servers),
        *(_prometheus("PrometheusAgent", a) for a in agents),
    ]
    return Monitoring(has_api=True, prometheuses=found)


def _prometheus(kind: str, thing: Mapping[str, Any]) -> Prometheus:
    metadata, spec = thing["metadata"], thing.get("spec") or {}
    rules = Selecting(spec.get("ruleSelector"), spec.get("ruleNamespaceSelector")) if kind == "Prometheus" else None
    monitors = Selecting(spec.get("podMonitorSelector"), spec.get("podMonitorNamespaceSelector"))
    return Prometheus(kind, metadata["namespace"], metadata["name"], monitors, rules)


def selection(
    monitoring: Monitoring, namespace: str, of_namespace: Labels, labels: Labels, *, rules: bool
) -> Selection:
    """Returns which Prometheus selects objects with these labels in a namespace with its labels.

    `rules`: whether there is a PrometheusRule beside the PodMonitor.
    """
    if monitoring.hidden:
        return Selection(missing=[f"which Prometheus will select the PodMonitor was not checked: {monitoring.hidden}"])
    if not monitoring.prometheuses:
        return Selection(missing=["the cluster has no Prometheus object, so nothing will select the PodMonitor"])
    selected: list[str] = []
    missing: list[str] = []
    scrapers = [
        each
        for each in monitoring.prometheuses
        if _reason(each, each.monitors, namespace, of_namespace, labels) is None
    ]
    kinds = [("PodMonitor", [(each, each.monitors) for each in monitoring.prometheuses])]
    if rules:
        kinds.append(("PrometheusRule", [(each, each.rules) for each in monitoring.prometheuses if each.rules]))
    for kind, candidates in kinds:
        reasons = {each.title: _reason(each, how, namespace, of_namespace, labels) for each, how in candidates}
        taking = [title for title, reason in reasons.items() if reason is None]
        selected += [f"{title} selects the {kind}" for title in taking]
        if not taking:
            missing += [f"{title} will not select the {kind}: {reason}" for title, reason in reasons.items()]
    return Selection(selected, missing, scrapers)


def unreached(scrapers: Sequence[Prometheus], network: Network) -> str | None:
    """Returns a warning if no Prometheus that scrapes the server is among those who may call it. A range of addresses
    may cover one."""
    callers = network.callers
    if not scrapers or callers is None or any(caller.cidr for caller in callers):
        return None
    named = {caller.namespace for caller in callers}
    if any(each.namespace in named for each in scrapers):
        return None
    return (
        f"heavylift:network.from does not let {scrapers[0].title} reach the server, which has one port for API and "
        f"metrics: add {{namespace: {scrapers[0].namespace}}}"
    )


def _reason(each: Prometheus, how: Selecting, namespace: str, of_namespace: Labels, labels: Labels) -> str | None:
    """Returns why a Prometheus does not select an object. None: it selects the object."""
    if how.objects is None:
        return "its selector is unset, which selects nothing"
    if unmet := list(_unmet(how.objects, labels)):
        plain = {
            key: value for key, value in (how.objects.get("matchLabels") or {}).items() if labels.get(key) != value
        }
        fix = (
            f"; set heavylift:metrics.labels to {{{', '.join(f'{k}: {v}' for k, v in plain.items())}}}" if plain else ""
        )
        return f"it wants {' and '.join(unmet)}{fix}"
    if how.namespaces is None:
        return None if each.namespace == namespace else f"it takes those of its own namespace {each.namespace} only"
    if unmet := list(_unmet(how.namespaces, of_namespace)):
        return f"it takes those of namespaces with {' and '.join(unmet)}; namespace {namespace} has another label"
    return None


def _unmet(selector: Mapping[str, Any], labels: Labels) -> Iterator[str]:
    """Yields the requirements of a label selector that labels do not meet (kubernetes.io, "Labels and Selectors")."""
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            yield f"the label {key}: {value}"
    for each in selector.get("matchExpressions") or []:
        key, values = each["key"], each.get("values") or []
        met = {
            "In": labels.get(key) in values,
            "NotIn": labels.get(key) not in values,
            "Exists": key in labels,
            "DoesNotExist": key not in labels,
        }
        if not met.get(each["operator"], True):
            yield f"the label {key} {each['operator']} {', '.join(values)}".rstrip()
