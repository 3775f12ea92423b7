"""The way to the cluster: named by the stack, and never the one that kubectl would take."""

from pathlib import Path

import pytest
import yaml

from config.errors import StackError
from config.stack.kubeconfig import read_kubeconfig
from config.stack.sections import Cluster

FILE = Path(__file__).parents[2] / "kubeconfig.yaml"


def cluster(context: str | None = "test", path: Path | None = FILE) -> Cluster:
    return Cluster(kubeconfig=str(path) if path else None, context=context)


def test_only_the_named_context_is_taken_over() -> None:
    kubeconfig = read_kubeconfig(cluster())
    assert kubeconfig["current-context"] == "test"
    assert [entry["name"] for kind in ("contexts", "clusters", "users") for entry in kubeconfig[kind]] == [
        "test",
        "test",
        "tester",
    ]
    assert "somebody-elses-token" not in yaml.safe_dump(kubeconfig)


def test_kubectls_own_choice_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(FILE))
    with pytest.raises(StackError) as caught:
        read_kubeconfig(cluster(context=None, path=None))
    assert caught.value.faults == (
        "heavylift:cluster.kubeconfig: is missing: expected the path of a kubeconfig file, here or in "
        "HEAVYLIFT_KUBECONFIG; kubectl's choice is not used",
        "heavylift:cluster.context: is missing: expected the name of a context of that file, here or in "
        "HEAVYLIFT_KUBE_CONTEXT; kubectl's choice is not used",
    )


def test_an_unknown_context_is_refused_with_those_of_the_file() -> None:
    with pytest.raises(StackError, match=r"'prod' is not in '.*': expected one of somebody-elses, test"):
        read_kubeconfig(cluster(context="prod"))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StackError, match=r"heavylift:cluster\.kubeconfig: '.*nowhere' cannot be read"):
        read_kubeconfig(cluster(path=tmp_path / "nowhere"))


@pytest.mark.parametrize("content", ["[", "just text", ""])
def test_a_file_that_is_no_kubeconfig_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "config").write_text(content)
    with pytest.raises(StackError, match=r"heavylift:cluster\.kubeconfig"):
        read_kubeconfig(cluster(path=tmp_path / "config"))


def test_certificates_beside_the_file_are_found_from_anywhere(tmp_path: Path) -> None:
    document = yaml.safe_load(FILE.read_text())
    document["clusters"][1]["cluster"]["certificate-authority"] = "ca.pem"
    (tmp_path / "config").write_text(yaml.safe_dump(document))
    kubeconfig = read_kubeconfig(cluster(path=tmp_path / "config"))
    assert kubeconfig["clusters"][0]["cluster"]["certificate-authority"] == str(tmp_path / "ca.pem")


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xfe",
        b"contexts: {lab: {}}",
        b"contexts: [{context: {}}]",
        b"contexts: [lab]",
        b"- a list",
    ],
)
def test_a_file_that_is_no_kubeconfig_is_named(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "kubeconfig"
    file.write_bytes(content)
    with pytest.raises(StackError, match=r"is not (YAML|a kubeconfig file)"):
        read_kubeconfig(Cluster(kubeconfig=str(file), context="lab"))


@pytest.mark.parametrize(
    ("context", "message"),
    [
        ("{name: lab}", "names no cluster"),
        ("{name: lab, context: {cluster: gone}}", "its cluster 'gone' is not in"),
        ("{name: lab, context: {cluster: here, user: gone}}", "its user 'gone' is not in"),
    ],
)
def test_a_context_whose_parts_are_not_in_the_file_is_refused(tmp_path: Path, context: str, message: str) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(f"contexts: [{context}]\nclusters: [{{name: here, cluster: {{server: x}}}}]\n")
    with pytest.raises(StackError, match=message):
        read_kubeconfig(Cluster(kubeconfig=str(file), context="lab"))
