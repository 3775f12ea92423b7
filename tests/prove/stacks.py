"""The stacks that are proved: committed stack files, with what a lab without GPUs needs otherwise."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab import engine
from lab.build.cache import ensure
from lab.build.vllm_image import VLLM, VLLM_IMAGE, release
from lab.cluster.simulated import GPU, SimulatedNodes
from lab.hub.client import running_hub
from lab.lifecycle import Lab
from lab.project import Project
from lab.site import CHECKOUT, LABS, Site
from tests.lab.kubectl import Kubectl
from tests.lab.sharing import with_own_state
from tests.prove import tiny_model
from tests.prove.server import EnginePod

REPOSITORY, REVISION = "Qwen/Qwen3-0.6B", "1" * 40
"""A model of the catalogue: the planner computes arguments for it, and the hub of the lab has the tiny one."""
CONTEXT = 32768
API_KEY = "sample-key-of-32-characters-0001"
WEIGHTS = "/var/lib/heavylift/weights"
ON_A_CPU = {
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB of each rank
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "TORCHDYNAMO_DISABLE": "1",
}
"""What replaces GPUs. The image has no C++ compiler, which compiled kernels need."""


@dataclass(frozen=True)
class Scenario:
    """A stack file, and the nodes of the lab that it serves from with two ranks."""

    name: str
    stack: str
    nodes: tuple[str, ...]

    @property
    def namespace(self) -> str:
        """The scenario's own namespace."""
        return f"prove-{self.name}"

    @property
    def gpus(self) -> int:
        """Stand-in GPUs that each node advertises."""
        return 2 // len(self.nodes)

    def sections(self) -> dict[str, Any]:
        """Returns what differs from the committed stack file, as sections of a stack file."""
        return {
            "cluster": {"namespace": self.namespace},
            "nodes": {"names": list(self.nodes), "gpus_per_node": self.gpus, "driver": None, "fabric": None},
            "model": {"repository": REPOSITORY, "revision": REVISION},
            # Two busy cores need longer than the plan says of GPUs, and the time limit follows from this.
            "weights": {"path": f"{WEIGHTS}/{self.namespace}", "read_bandwidth": "1 MB/s"},
            "engine": {
                "version": release(),
                "image": VLLM_IMAGE,
                "tensor_parallel": 2,
                "pipeline_parallel": None,
                "max_model_len": CONTEXT,
                "kv_cache_dtype": None,
                "mm_encoder_tp_mode": None,
                "cpus": None,
                "memory": "10Gi",
                "enforce_eager": True,
                "environment": ON_A_CPU,
            },
            "promotion": None,
        }


ONE_NODE = Scenario("one-node", "h200", ("real-0",))
TWO_NODES = Scenario("two-nodes", "h100x16", ("real-0", "real-1"))


class Stack:
    """A scenario's stack in a lab."""

    def __init__(self, lab: Lab, project: Project, scenario: Scenario) -> None:
        self.lab, self.project, self.scenario = lab, project, scenario
        self.kubectl = Kubectl(lab.site.kubeconfig)

    def log(self) -> str:
        """Returns the end of what the engine of each pod said."""
        words = ("-l", "app.kubernetes.io/component=server", "-c", "engine", "--tail=100", "--prefix")
        return self.kubectl("logs", "-n", self.scenario.namespace, *words)

    def pods(self) -> list[EnginePod]:
        """Returns the server's pods, leader first."""
        selector = ("-l", "app.kubernetes.io/component=server")
        found = self.kubectl.get("pods", "-n", self.scenario.namespace, *selector)["items"]
        pods = [EnginePod(self.kubectl, self.lab, API_KEY, pod) for pod in found]
        return sorted(pods, key=lambda pod: pod.name)


@contextmanager
def running_lab(nodes: int) -> Iterator[Lab]:
    """A lab of its own, whose real nodes have the image and enforce NetworkPolicies."""
    image = ensure(VLLM) / "image.tar"
    lab = Lab(LABS / f"{CHECKOUT.name}-vllm")
    lab.start()
    try:
        while lab.real_nodes < nodes:
            lab.add_real_node()
        lab.enforce_network_policies()
        for index in range(nodes):
            lab.on_node(f"real-{index}", "ctr", "--namespace", "k8s.io", "images", "import", image)
        yield lab
    finally:
        lab.stop()


@contextmanager
def served_stack(lab: Lab, scenario: Scenario, directory: Path) -> Iterator[Stack]:
    """A scenario's stack, in a namespace that admits `restricted` pods only, until the end of the block."""
    site = lab.site
    state = directory / "hub"
    state.mkdir(parents=True)
    kubectl = Kubectl(site.kubeconfig)
    kubectl("create", "namespace", scenario.namespace)
    kubectl("label", "namespace", scenario.namespace, "pod-security.kubernetes.io/enforce=restricted")
    for node in scenario.nodes:
        lab.on_node(node, "mkdir", "-p", f"{WEIGHTS}/{scenario.namespace}")
        SimulatedNodes(site).set_resource(node, GPU, scenario.gpus)
    with running_hub(_hub(directory), state_dir=state, host=site.host_address) as hub:
        project = Project.copy(CHECKOUT, directory / "program", _settings(site, directory, hub.url), scenario.stack)
        project.configure(**scenario.sections())
        words = ("config", "set", "--secret", "heavylift:api_key", API_KEY, "--stack", scenario.stack)
        stored = project.pulumi(*words)
        if stored.status:
            raise RuntimeError(f"the API key could not be stored: {stored}")
        yield Stack(lab, project, scenario)
        project.destroy()


def _settings(site: Site, directory: Path, hub: str) -> dict[str, str]:
    """Returns the lab's environment, but for the image of the engine, which the stack file names."""
    settings = {**with_own_state(engine.settings(site), directory), "HF_ENDPOINT": hub}
    del settings["HEAVYLIFT_ENGINE_IMAGE"]
    return settings


def _hub(directory: Path) -> dict[str, Any]:
    """Returns the table of a hub that serves the tiny model."""
    files = directory / "model"
    files.mkdir()
    model = {name: {"disk": str(files / name)} for name in tiny_model.write(files)}
    return {"repositories": {REPOSITORY: {"revisions": [{"commit": REVISION, "branches": ["main"], "files": model}]}}}
