"""Fixtures for tests on the checkout's lab. If the lab is not up, the tests start it and stop it afterwards."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from lab import engine
from lab.cluster.simulated import SimulatedNodes
from lab.hub.client import HubClient, running_hub
from lab.lifecycle import Lab
from lab.project import Project
from lab.site import CHECKOUT, Site, directory_of
from tests.lab.kubectl import Kubectl
from tests.lab.serving import own_hub
from tests.lab.sharing import public, with_own_state

AddNodes = Callable[..., SimulatedNodes]
PROGRAMS = Path(__file__).parent / "programs"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks all tests in this directory as lab tests."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.lab)


def state_of_checkout() -> str:
    """Returns git's list of changed and added files in the checkout."""
    command = ["git", "status", "--porcelain", "--untracked-files=all"]
    return subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="session", autouse=True)
def checkout_stays_as_it_is() -> Iterator[None]:
    """Fails if an engine, stack or test changed the checkout. Reported with the last test of each process."""
    before = state_of_checkout()
    yield
    assert state_of_checkout() == before


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """The lab, with one real node."""
    lab = Lab()
    with lab.borrowed():
        yield lab


@pytest.fixture(scope="session")
def site(lab: Lab) -> Site:
    """The lab's site."""
    return lab.site


@pytest.fixture(scope="session")
def settings(site: Site) -> dict[str, str]:
    """The variables that `python -m lab env` prints."""
    return engine.settings(site)


@pytest.fixture
def environment(settings: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """The same variables with the test's own Pulumi state, so that stack names cannot conflict."""
    return with_own_state(settings, tmp_path)


@pytest.fixture
def public_environment(environment: dict[str, str]) -> dict[str, str]:
    """The same variables without the lab's images and hub, so that a stack runs as committed."""
    return public(environment)


@pytest.fixture(scope="session")
def kubectl(site: Site) -> Kubectl:
    """kubectl as administrator."""
    return Kubectl(site.kubeconfig)


@pytest.fixture(scope="module")
def hub(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubClient]:
    """A hub on the host that pods can reach."""
    state = tmp_path_factory.mktemp("hub")
    with running_hub(own_hub(site), state_dir=state, host=site.host_address) as running:
        yield running


@pytest.fixture
def nodes(site: Site) -> Iterator[AddNodes]:
    """Adds a profile's simulated nodes, optionally with other names, and removes them after the test."""
    simulated = SimulatedNodes(site)
    with ExitStack() as removed:

        def add(profile_name: str, names: Sequence[str] = ()) -> SimulatedNodes:
            removed.enter_context(simulated.added(profile_name, names))
            return simulated

        yield add


@pytest.fixture
def namespace(kubectl: Kubectl, request: pytest.FixtureRequest) -> Iterator[str]:
    """The test's own namespace."""
    name = request.node.name.replace("_", "-").lower()[:50].strip("-")
    kubectl("create", "namespace", name)
    yield name
    kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def gate(tmp_path: Path, settings: dict[str, str]) -> Iterator[Project]:
    """The test program `programs/gate`, in the lab's Pulumi state."""
    project = Project.copy(PROGRAMS / "gate", tmp_path / "gate", settings, "test")
    yield project
    removed = project.destroy(GATE_COMMAND="true")
    assert removed.status == 0, removed
    project.pulumi("stack", "rm", "--yes", "--force", "test")


@pytest.fixture
def second_checkout(tmp_path: Path) -> Iterator[Path]:
    """Another checkout of the working tree, with this one's virtual environment."""
    checkout = tmp_path / "clone"
    unwanted = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", ".hypothesis")
    shutil.copytree(CHECKOUT, checkout, ignore=unwanted)
    (checkout / ".venv").symlink_to(Path(sys.prefix))
    yield checkout
    Lab(directory_of(checkout)).stop()
