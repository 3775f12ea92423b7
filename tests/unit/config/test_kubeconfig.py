"""The way to the cluster: named by the stack, and never the one that kubectl would take."""

import json
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


def written(path: Path, user: str = "{token: x}", cluster: str = "{server: 'https://host:6443'}") -> Cluster:
    path.write_text(
        "contexts: [{name: lab, context: {cluster: here, user: me}}]\n"
        f"clusters: [{{name: here, cluster: {cluster}}}]\nusers: [{{name: me, user: {user}}}]\n"
    )
    return Cluster(kubeconfig=str(path), context="lab")


@pytest.mark.parametrize(
    "parts",
    [
        {"cluster": "{server: 'https://[fd00::1]:6443/k8s/clusters/c-1'}"},
        {"cluster": "{server: 'https://host', proxy-url: 'socks5://me:secret@127.0.0.1:1080'}"},
        {"cluster": "{server: 'https://host', insecure-skip-tls-verify: true, tls-server-name: other}"},
        {"user": "{}"},
        {"user": "{as: somebody, as-groups: [admins]}"},
        {"user": "{auth-provider: {name: oidc, config: {expiry: 2026-12-01T00:00:00Z}}}"},
        {"user": "{username: me, password: secret}"},
    ],
)
def test_what_kubectl_takes_is_taken_and_is_json(tmp_path: Path, parts: dict[str, str]) -> None:
    assert json.dumps(read_kubeconfig(written(tmp_path / "config", **parts)))


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"cluster": "{server: 'host:6443'}"}, "has the server 'host:6443': expected an address such as https://"),
        ({"cluster": "{}"}, "has the server '': expected an address"),
        (
            {"cluster": "{server: 'https://host', proxy-url: 'ftp://me:secret@proxy'}"},
            "has the proxy-url 'ftp://proxy': expected one that begins with http://, https://, socks5://",
        ),
        ({"user": "{auth-provider: {name: gcp}}"}, "auth-provider 'gcp', which kubectl no longer has"),
        ({"user": "{as: me, as-groups: [one, two]}"}, "acts for several groups"),
    ],
)
def test_what_nobody_can_use_is_refused_in_one_sentence(tmp_path: Path, parts: dict[str, str], message: str) -> None:
    with pytest.raises(StackError) as caught:
        read_kubeconfig(written(tmp_path / "config", **parts))
    assert message in caught.value.faults[0]
    assert "secret" not in caught.value.faults[0]


def test_a_key_with_a_password_is_refused_before_anybody_is_asked_for_it(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_text("-----BEGIN ENCRYPTED PRIVATE KEY-----\n")
    with pytest.raises(StackError, match="has a key with a password"):
        read_kubeconfig(written(tmp_path / "config", "{client-key: key.pem, client-certificate: cert.pem}"))


def test_a_plugin_beside_the_file_is_found_and_one_on_path_is_left(tmp_path: Path) -> None:
    for command, expected in (("./plugin", f"{tmp_path}/plugin"), ("aws", "aws"), ("/bin/aws", "/bin/aws")):
        [user] = read_kubeconfig(written(tmp_path / "config", f"{{exec: {{command: '{command}'}}}}"))["users"]
        assert user["user"]["exec"]["command"] == expected


def test_a_list_of_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StackError, match="is a list of paths: expected the one to use"):
        read_kubeconfig(Cluster(kubeconfig="/one:/other", context="lab"))
