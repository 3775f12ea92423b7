"""The checkout's lab, taken up for these tests where it is not up, and then taken down after them."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab import engine
from lab.hub.client import HubClient, running_hub
from lab.lifecycle import Lab
from lab.project import Project
from lab.simulated import SimulatedNodes
from lab.site import CHECKOUT, Site, directory_of
from tests.lab.kubectl import Kubectl
from tests.lab.serving import own_hub

PROGRAMS = Path(__file__).parent / "programs"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything below this directory needs the lab."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.lab)


def state_of_checkout() -> str:
    """What git says of the checkout: every file changed or added."""
    command = ["git", "status", "--porcelain", "--untracked-files=all"]
    return subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="session", autouse=True)
def checkout_before() -> str:
    """The state of the checkout before the first test on the lab."""
    return state_of_checkout()


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """The lab, with one real node."""
    found = Lab()
    was_up = found.up
    found.start()
    yield found
    if not was_up:
        found.stop()


@pytest.fixture(scope="session")
def site(lab: Lab) -> Site:
    """Where it is."""
    return lab.site


@pytest.fixture(scope="session")
def environment(site: Site) -> dict[str, str]:
    """What `python -m lab env` prints."""
    return engine.settings(site)


@pytest.fixture(scope="session")
def kubectl(site: Site) -> Kubectl:
    """kubectl as administrator."""
    return Kubectl(site.kubeconfig)


@pytest.fixture(scope="module")
def hub(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubClient]:
    """A hub on the host, where pods reach it."""
    state = tmp_path_factory.mktemp("hub")
    with running_hub(own_hub(site), state_dir=state, host=site.host_address) as running:
        yield running


@pytest.fixture
def nodes(site: Site) -> Iterator[Callable[[str], SimulatedNodes]]:
    """Adds a profile's simulated nodes and removes them after the test."""
    simulated = SimulatedNodes(site)
    added: list[str] = []

    def add(profile: str) -> SimulatedNodes:
        added.extend(simulated.add(profile))
        return simulated

    yield add
    for name in added:
        simulated.delete(name)


@pytest.fixture
def namespace(kubectl: Kubectl, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace of the test's own."""
    name = request.node.name.replace("_", "-").lower()[:50].strip("-")
    kubectl("create", "namespace", name)
    yield name
    kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def gate(tmp_path: Path, environment: dict[str, str]) -> Iterator[Project]:
    """The throw-away program in `programs/gate`."""
    project = Project.copy(PROGRAMS / "gate", tmp_path / "gate", environment, "test")
    yield project
    removed = project.destroy(GATE_COMMAND="true")
    assert removed.status == 0, removed
    project.pulumi("stack", "rm", "--yes", "--force", "test")


@pytest.fixture
def second_checkout(tmp_path: Path) -> Iterator[Path]:
    """Another clone of what is in the working tree, with this one's virtual environment."""
    checkout = tmp_path / "clone"
    unwanted = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", ".hypothesis")
    shutil.copytree(CHECKOUT, checkout, ignore=unwanted)
    (checkout / ".venv").symlink_to(Path(sys.prefix))
    yield checkout
    Lab(directory_of(checkout)).stop()
