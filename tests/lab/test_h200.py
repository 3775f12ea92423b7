"""`pulumi up --stack h200` on a simulated node with eight H200, as in the README, and the errors of the preflight."""

import json
import select
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from lab.cluster.simulated import SimulatedNodes
from lab.project import Answer, Project
from tests.lab.conftest import AddNodes
from tests.lab.kubectl import Kubectl
from tests.lab.sharing import committed_stack, on_nodes_of

pytestmark = on_nodes_of("8xh200")

NAMESPACE, REFUSED = "h200-test", "h200-refused"
# moonshotai/Kimi-K2.5 at the pinned commit: derived from its config.json, and equal to public start-up logs.
WEIGHTS_BYTES = 595_147_639_776


@pytest.fixture
def h200(settings: dict[str, str], tmp_path: Path, kubectl: Kubectl, nodes: AddNodes) -> Iterator[Project]:
    """The stack `h200` as committed, in a namespace of these tests. Its node is removed after it."""
    with committed_stack("h200", NAMESPACE, tmp_path, settings, kubectl) as project:
        yield project


def created_in(kubectl: Kubectl, namespace: str = NAMESPACE) -> list[str]:
    """Returns the names of a stack's objects in the cluster."""
    found = kubectl("get", "all,configmaps,pvc", "-n", namespace, "-o", "name").split()
    return [name for name in found if "kube-root-ca" not in name]


@pytest.fixture(scope="module")
def refused(settings: dict[str, str], kubectl: Kubectl, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """The stack `h200`, for tests in which `up` creates nothing."""
    directory = tmp_path_factory.mktemp("refused")
    with committed_stack("h200", REFUSED, directory, settings, kubectl) as project:
        yield project


def moment(text: str) -> datetime:
    """Parses a timestamp of the API server."""
    return datetime.fromisoformat(text)


def test_the_articles_production_setup_goes_up_in_order_stays_as_it_is_and_destroy_keeps_the_weights(
    nodes: AddNodes, h200: Project, kubectl: Kubectl
) -> None:
    nodes("8xh200")
    preview = h200.preview()
    assert preview.status == 0, preview
    up = h200.up()
    assert up.status == 0, up

    [claim] = kubectl.get("pvc", "-n", NAMESPACE)["items"]
    volume = kubectl.get("pv", claim["spec"]["volumeName"])
    assert claim["status"]["phase"] == "Bound"
    [term] = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"][0]["values"] == ["h200-0"]
    gibibytes = int(volume["spec"]["capacity"]["storage"].removesuffix("Gi"))
    assert gibibytes * 2**30 > 2 * WEIGHTS_BYTES

    [job] = kubectl.get("jobs", "-n", NAMESPACE)["items"]
    [deployment] = kubectl.get("deployments", "-n", NAMESPACE)["items"]
    assert moment(deployment["metadata"]["creationTimestamp"]) >= moment(job["status"]["completionTime"])
    [pod] = [each for each in kubectl.get("pods", "-n", NAMESPACE)["items"] if "server" in each["metadata"]["name"]]
    assert pod["spec"]["nodeName"] == "h200-0"
    engine = pod["spec"]["containers"][0]
    assert engine["resources"]["limits"]["nvidia.com/gpu"] == "8"
    assert engine["resources"]["requests"]["cpu"] == "48"
    arguments = " ".join(engine["args"])
    for wanted in (
        "--tensor-parallel-size 8",
        "--tool-call-parser kimi_k2",
        "--reasoning-parser kimi_k2",
        "--kv-cache-dtype fp8",
        "--enable-prefix-caching",
        "--mm-encoder-tp-mode data",
        "--served-model-name moonshotai/Kimi-K2.5",
    ):
        assert wanted in arguments
    environment = {each["name"]: each.get("value") for each in engine["env"]}
    assert environment["HF_HUB_OFFLINE"] == "1"
    assert any(each["mountPath"] == "/dev/shm" for each in engine["volumeMounts"])

    again = h200.up("--expect-no-changes")
    assert again.status == 0, again
    refreshed = h200.refresh("--expect-no-changes")
    assert refreshed.status == 0, refreshed

    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    destroyed = h200.destroy()
    assert destroyed.status == 0, destroyed
    assert created_in(kubectl) == []


def test_the_articles_volume_of_400_gib_is_refused_with_the_numbers(
    nodes: AddNodes, h200: Project, kubectl: Kubectl
) -> None:
    nodes("8xh200")
    h200.configure(weights={"size": "400Gi"})
    for answer in (h200.preview(), h200.up()):
        assert answer.status != 0
        assert "400Gi" in answer.output or "429" in answer.output
        assert "595" in answer.output or "1,190" in answer.output
    assert created_in(kubectl) == []


def spoil(simulated: SimulatedNodes, fault: str) -> None:
    """Breaks the node in one way."""
    match fault:
        case "missing":
            simulated.delete("h200-0")
        case "4 of 8":
            simulated.set_resource("h200-0", "nvidia.com/gpu", 4)
        case "not Ready":
            simulated.set_unready("h200-0")


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("missing", "node h200-0: does not exist"),
        ("4 of 8", "node h200-0: has 4 of 8 nvidia.com/gpu allocatable"),
        ("not Ready", "node h200-0: is not Ready"),
    ],
)
def test_a_node_that_is_not_as_the_stack_says_gets_one_message_and_nothing_is_made(
    nodes: AddNodes, refused: Project, kubectl: Kubectl, fault: str, message: str
) -> None:
    spoil(nodes("8xh200"), fault)
    for answer in (refused.preview(), refused.up()):
        assert answer.status != 0
        assert message in answer.output
        assert "Traceback" not in answer.output
    assert created_in(kubectl, REFUSED) == []


def test_all_faults_of_a_node_come_at_once(nodes: AddNodes, refused: Project) -> None:
    simulated = nodes("8xh200")
    simulated.set_resource("h200-0", "nvidia.com/gpu", 4)
    simulated.set_unready("h200-0")
    answer = refused.preview()
    assert answer.status != 0
    assert "is not Ready" in answer.output
    assert "has 4 of 8" in answer.output


def training(gpus: int) -> dict[str, object]:
    """Returns another team's pod for the node, with `gpus` of its GPUs."""
    container = {"name": "train", "image": "training", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    spec = {"nodeSelector": {"kubernetes.io/hostname": "h200-0"}, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "train-0"}, "spec": spec}


def test_gpus_that_another_pod_holds_end_an_up_and_are_free_when_it_is_gone(
    nodes: AddNodes, h200: Project, kubectl: Kubectl, namespace: str
) -> None:
    nodes("8xh200")
    kubectl.apply(training(2), namespace=namespace)
    kubectl.wait("pod/train-0", "--for=condition=PodScheduled", "-n", namespace)
    said = f"node h200-0: 2 of 8 nvidia.com/gpu are held by {namespace}/train-0 (2), and the server needs 8"
    preview = h200.preview()
    assert preview.status == 0, preview
    assert said in preview.output
    refused = h200.up()
    assert refused.status != 0
    assert said in refused.output
    assert created_in(kubectl) == []

    kubectl("delete", "pod", "train-0", "-n", namespace)
    up = h200.up()
    assert up.status == 0, up
    again = h200.preview("--expect-no-changes")
    assert again.status == 0, again
    assert "are held by" not in again.output, "its own server holds them"


class WayToTheCluster:
    """A kubeconfig whose server is reachable only while a forwarder runs."""

    def __init__(self, kubeconfig: Path, directory: Path) -> None:
        text = kubeconfig.read_text()
        [line] = [line for line in text.splitlines() if "server:" in line]
        address = urlsplit(line.split()[-1])
        self._target = (address.hostname or "", address.port or 443)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self._port = listener.getsockname()[1]
        self.kubeconfig = directory / "through-the-forwarder"
        self.kubeconfig.write_text(text.replace(line, f"    server: https://127.0.0.1:{self._port}"))

    @contextmanager
    def open(self) -> Iterator[None]:
        """Forwards connections while the block runs, and closes them afterwards."""
        target = self._target

        class Forward(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                with socket.create_connection(target) as there:
                    ends = {self.request: there, there: self.request}
                    while ready := select.select(list(ends), [], [])[0]:
                        for end in ready:
                            if not (content := end.recv(65536)):
                                return
                            ends[end].sendall(content)

        class Forwarder(socketserver.ThreadingTCPServer):
            allow_reuse_address, daemon_threads = True, True

        with Forwarder(("127.0.0.1", self._port), Forward) as forwarder:
            thread = threading.Thread(target=forwarder.serve_forever)
            thread.start()
            yield
            forwarder.shutdown()
            thread.join()


def steps(preview: Answer) -> dict[str, str]:
    """Returns the step of each resource in `pulumi preview --json`, by name."""
    assert preview.status == 0, preview
    text = preview.output
    plan = json.loads(text[text.index("{") : text.rindex("}") + 1])
    return {step["urn"].rpartition("::")[2]: step["op"] for step in plan["steps"]}


def unreachable(kubeconfig: Path, directory: Path) -> Path:
    """A kubeconfig for an address on which no server listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    text = kubeconfig.read_text()
    [server] = [line for line in text.splitlines() if "server:" in line]
    changed = directory / "unreachable"
    changed.write_text(text.replace(server, f"    server: https://127.0.0.1:{port}"))
    return changed


def test_a_preview_of_a_deployed_stack_shows_the_same_steps_without_its_cluster(
    nodes: AddNodes, h200: Project, tmp_path: Path
) -> None:
    nodes("8xh200")
    way = WayToTheCluster(Path(h200.environment["HEAVYLIFT_KUBECONFIG"]), tmp_path)
    with way.open():
        up = h200.up(HEAVYLIFT_KUBECONFIG=str(way.kubeconfig))
        assert up.status == 0, up
    unchanged = h200.preview("--expect-no-changes", HEAVYLIFT_KUBECONFIG=str(way.kubeconfig))
    assert unchanged.status == 0, unchanged
    assert "cannot be reached" in unchanged.output

    h200.configure(engine={"cpus": 40})
    without = h200.preview("--json", HEAVYLIFT_KUBECONFIG=str(way.kubeconfig))
    with way.open():
        reached = h200.preview("--json", HEAVYLIFT_KUBECONFIG=str(way.kubeconfig))
    assert steps(without) == steps(reached)
    assert [step for step, operation in steps(without).items() if operation != "same"] == ["server"]
    with way.open():
        destroyed = h200.destroy()
    assert destroyed.status == 0, destroyed


def test_a_server_that_was_scaled_away_ends_the_next_up_with_what_to_type(
    nodes: AddNodes, h200: Project, kubectl: Kubectl
) -> None:
    nodes("8xh200")
    first = h200.up()
    assert first.status == 0, first
    kubectl("scale", "deployment", "--all", "--replicas=0", "-n", NAMESPACE)
    kubectl("wait", "pod", "-l", "app.kubernetes.io/component=server", "--for=delete", "--timeout=60s", "-n", NAMESPACE)
    again = h200.up()
    assert again.status != 0
    assert "is scaled to 0 of 1 replicas" in again.output
    assert "`pulumi up --refresh`" in again.output
    mended = h200.up("--refresh")
    assert mended.status == 0, mended
    [deployment] = kubectl.get("deployments", "-n", NAMESPACE)["items"]
    assert deployment["status"]["readyReplicas"] == 1


def test_a_preview_works_without_the_cluster_and_up_ends_in_one_line(
    refused: Project, environment: dict[str, str], tmp_path: Path
) -> None:
    elsewhere = str(unreachable(Path(environment["HEAVYLIFT_KUBECONFIG"]), tmp_path))
    preview = refused.preview(HEAVYLIFT_KUBECONFIG=elsewhere)
    assert preview.status == 0, preview
    assert "cannot be reached" in preview.output
    up = refused.up(HEAVYLIFT_KUBECONFIG=elsewhere)
    assert up.status != 0
    [line] = [line for line in up.output.splitlines() if line.strip().startswith("error: cluster")]
    assert "cannot be reached" in line
    assert "nothing was created" in line
    assert "Traceback" not in up.output
