"""The labels of every object of a stack, for selectors and kubectl."""

from collections.abc import Mapping


def identity(instance: str) -> dict[str, str]:
    """Returns the labels that every object of the stack `instance` has."""
    return {"app.kubernetes.io/name": "heavylift", "app.kubernetes.io/instance": instance}


def labels(instance: str, component: str) -> dict[str, str]:
    """Returns Kubernetes' recommended labels for a component ("weights", "stage", "server") of the stack `instance`."""
    return {
        **identity(instance),
        "app.kubernetes.io/component": component,
        "app.kubernetes.io/managed-by": "pulumi",
    }


WEIGHTS_LABEL = "stage.heavylift/weights"
"""Label of the pods that stage weights: the digest of the weights."""


def stage_labels(instance: str, component: str, digest: str) -> dict[str, str]:
    """Returns the labels that select the pods that stage one set of weights."""
    return {**labels(instance, component), WEIGHTS_LABEL: digest}


def selector(labels: Mapping[str, str]) -> str:
    """Returns the label selector of objects with all of these labels."""
    return ",".join(f"{name}={value}" for name, value in labels.items())
