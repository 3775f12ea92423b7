"""The labels that every object of a stack carries, by which people and selectors find it."""


def identity(instance: str) -> dict[str, str]:
    """The labels by which every object of the stack `instance` is known."""
    return {"app.kubernetes.io/name": "heavylift", "app.kubernetes.io/instance": instance}


def labels(instance: str, component: str) -> dict[str, str]:
    """Kubernetes' recommended labels for one part ("weights", "stage", "server") of the stack `instance`."""
    return {
        **identity(instance),
        "app.kubernetes.io/component": component,
        "app.kubernetes.io/managed-by": "pulumi",
    }
