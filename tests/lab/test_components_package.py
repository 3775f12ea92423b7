"""Other programs that use the components: two models in Python on simulated GPUs, and a served model in YAML."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.demo import Target
from lab.lifecycle import Lab
from lab.project import NOT_COPIED, Project
from lab.site import CHECKOUT, Site
from tests.lab.conftest import AddNodes
from tests.lab.kubectl import Kubectl
from tests.lab.sharing import on_nodes_of

EXAMPLES = CHECKOUT / "examples"


def with_components(example: str, directory: Path, environment: dict[str, str], site: Site) -> Project:
    """Copies an example for the lab's cluster and adds the package."""
    shutil.copytree(CHECKOUT, directory / "heavylift", ignore=NOT_COPIED)  # Pulumi writes a schema there
    project = Project.copy(EXAMPLES / example, directory / example, environment, "test")
    added = project.pulumi("package", "add", "../heavylift/components")
    assert added.status == 0, added
    set_kubeconfig = project.pulumi("config", "set", "--secret", "kubeconfig", site.kubeconfig.read_text())
    assert set_kubeconfig.status == 0, set_kubeconfig
    project.pulumi("config", "set", "context", "lab")
    return project


@pytest.fixture
def two_models(
    tmp_path: Path, public_environment: dict[str, str], site: Site, nodes: AddNodes, kubectl: Kubectl
) -> Iterator[Project]:
    """Two models on a simulated node with eight GPUs."""
    nodes("8xh200")
    project = with_components("two_models", tmp_path, public_environment, site)
    yield project
    destroyed = project.destroy("--remove")
    assert destroyed.status == 0, destroyed
    kubectl("delete", "namespace", "two-models", "--ignore-not-found")


@on_nodes_of("8xh200")
def test_two_models_share_a_node_and_nothing_else(two_models: Project, kubectl: Kubectl) -> None:
    up = two_models.up()
    assert up.status == 0, up
    outputs = two_models.outputs()
    assert outputs["chat"] == "http://test-chat.two-models.svc:8000/v1"
    assert outputs["code"] == "http://test-code.two-models.svc:8000/v1"
    assert {plan["verdict"] for plan in outputs["plans"].values()} == {"fits"}
    pods = kubectl.get("pods", "-n", "two-models", "-l", "app.kubernetes.io/name=heavylift")["items"]
    servers = [pod for pod in pods if "server" in pod["metadata"]["labels"]["app.kubernetes.io/component"]]
    assert [pod["spec"]["nodeName"] for pod in servers] == ["h200-0", "h200-0"]
    for service in ("test-chat", "test-code"):
        (slices,) = kubectl.get("endpointslices", "-n", "two-models", "-l", f"kubernetes.io/service-name={service}")[
            "items"
        ]
        assert len(slices["endpoints"]) == 1, "each Service leads to the pod of its own model"

    preview = two_models.preview("--expect-no-changes", "--diff")
    assert preview.status == 0, preview

    destroyed = two_models.destroy()
    assert destroyed.status == 0, destroyed
    assert kubectl.get("deployments", "-n", "two-models")["items"] == []


@on_nodes_of("8xh200")
def test_a_model_that_does_not_fit_is_refused_in_the_planners_words(two_models: Project, kubectl: Kubectl) -> None:
    program = two_models.directory / "__main__.py"
    program.write_text(program.read_text().replace("MiniMaxAI/MiniMax-M2.5", "moonshotai/Kimi-K2.5"))
    preview = two_models.preview()
    assert preview.status != 0
    assert "rejected: moonshotai/Kimi-K2.5 on 4 H200" in preview.output
    assert "weights_do_not_fit" in preview.output


@pytest.fixture
def tiny_model(
    tmp_path: Path, environment: dict[str, str], site: Site, lab: Lab, kubectl: Kubectl
) -> Iterator[Project]:
    """The model of the stack `dev`, on the real node, in Pulumi YAML."""
    project = with_components("served_model_yaml", tmp_path, environment, site)
    for key, value in {
        "node": "real-0",
        "stageImage": environment["HEAVYLIFT_STAGE_IMAGE"],
        "engineImage": environment["HEAVYLIFT_ENGINE_IMAGE"],
        "hub": environment["HF_ENDPOINT"],
    }.items():
        project.pulumi("config", "set", key, value)
    yield project
    destroyed = project.destroy("--remove")
    assert destroyed.status == 0, destroyed


def test_a_program_without_python_serves_a_model_that_answers(tiny_model: Project, site: Site) -> None:
    up = tiny_model.up()
    assert up.status == 0, up
    outputs = tiny_model.outputs()
    assert outputs["answered"] == "yes"
    assert outputs["release"]["weightsDigest"] == "0881a52b5b77b719"
    target = Target(site.kubeconfig, "lab", tiny_model.directory, tiny_model.environment)
    assert target.ask(outputs["endpoint"], "The capital of France is", tokens=4)

    preview = tiny_model.preview("--expect-no-changes", "--diff")
    assert preview.status == 0, preview
