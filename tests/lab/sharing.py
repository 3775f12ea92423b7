"""Isolates tests that share one lab: xdist groups for conflicting tests, and a separate stack for each test."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab.cluster.simulated import profile
from lab.project import Project
from lab.site import CHECKOUT
from tests.lab.kubectl import Kubectl

# Tests run in several processes on one lab. The tests of one group conflict, and run in one process.
REAL_NODES_WITH_GPUS = pytest.mark.xdist_group("real nodes with GPUs")
LABS_OF_THEIR_OWN = pytest.mark.xdist_group("labs of their own")


def on_nodes_of(profile_name: str) -> pytest.MarkDecorator:
    """Returns the xdist group of tests with simulated nodes of a profile, which have the same names in every test."""
    return pytest.mark.xdist_group(f"nodes {profile(profile_name)['nodes'][0].rpartition('-')[0]}")


def with_own_state(settings: Mapping[str, str], directory: Path) -> dict[str, str]:
    """Returns the settings of an engine with its state in a directory."""
    state = directory / "pulumi-state"
    state.mkdir()
    return {**settings, "PULUMI_BACKEND_URL": f"file://{state}"}


def public(settings: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings without the lab's images and hub."""
    return {key: value for key, value in settings.items() if not key.endswith("_IMAGE") and key != "HF_ENDPOINT"}


@contextmanager
def committed_stack(
    name: str, namespace: str, directory: Path, settings: Mapping[str, str], kubectl: Kubectl
) -> Iterator[Project]:
    """Yields a stack as committed, in a namespace and with its own state, and destroys it afterwards."""
    project = Project.copy(CHECKOUT, directory / "program", public(with_own_state(settings, directory)), name)
    project.configure(cluster={"namespace": namespace})
    try:
        yield project
    finally:
        destroyed = project.destroy()
        assert destroyed.status == 0, destroyed
        kubectl("delete", "namespace", namespace, "--ignore-not-found")
