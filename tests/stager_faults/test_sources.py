"""Sources other than the hub: a directory and a web server; for each file, the next source if one fails."""

import functools
import http.server
import resource
import shutil
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from lab.hub.client import HubClient
from stager.verify import problems

from .conftest import COMMIT, SHARD, RunStager, StartStager
from .running import Stager, manifest_of
from .small_share import Share

SHARD_1 = "model-00001-of-00002.safetensors"


@pytest.fixture
def share(stage: RunStager, hub: HubClient, tmp_path: Path) -> Path:
    """Creates a directory with all files, in the default layout."""
    place = tmp_path / "share" / "acme/model" / COMMIT
    assert stage(directory=place).status == 0
    shutil.rmtree(place / ".heavylift")
    hub.clear_requests()
    return tmp_path / "share"


@pytest.fixture
def lock(stage: RunStager, share: Path, hub: HubClient, tmp_path: Path) -> Path:
    path = tmp_path / "lock.json"
    Stager(
        ["lock", "acme/model", "--revision", COMMIT, "--output", path], log_directory=tmp_path, HF_ENDPOINT=hub.url
    ).wait()
    hub.clear_requests()
    return path


class NoRanges(http.server.SimpleHTTPRequestHandler):
    """A web server without ranges and log. It also accepts requests to a proxy."""

    def translate_path(self, path: str) -> str:
        """Returns the file of a path or of an address in a request to a proxy."""
        return super().translate_path(path.removeprefix("http://files.invalid"))

    def log_message(self, *_: object) -> None:
        """Logs nothing."""


@pytest.fixture
def web(share: Path) -> Iterator[str]:
    handler = functools.partial(NoRanges, directory=str(share))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def private_web(share: Path, tmp_path: Path) -> Iterator[str]:
    """Yields a web server with TLS. The certificate of its private authority is in `tmp_path/ca.pem`."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    handler = functools.partial(NoRanges, directory=str(share))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"https://localhost:{server.server_port}"
        server.shutdown()


def test_a_share_is_enough_where_there_is_a_lock(
    stage: RunStager, hub: HubClient, share: Path, lock: Path, tmp_path: Path
) -> None:
    ended = stage("--lock", lock, "--source", share)
    assert ended.status == 0, ended.log
    assert hub.requests() == {}
    assert problems(tmp_path / "tree", full=True) == []
    assert not (tmp_path / "tree" / SHARD_1).is_symlink()


def test_a_share_may_have_a_layout_of_its_own(stage: RunStager, share: Path, lock: Path) -> None:
    place = f"file://{share}/acme/model/{{commit}}/{{path}}"
    assert stage("--lock", lock, "--source", place).status == 0


def test_a_file_that_the_first_source_has_not_comes_from_the_second(
    stage: RunStager, hub: HubClient, share: Path, lock: Path, tmp_path: Path
) -> None:
    (share / "acme/model" / COMMIT / SHARD_1).unlink()
    ended = stage("--lock", lock, "--source", share, "--source", "hub")
    assert ended.status == 0, ended.log
    assert hub.bytes_sent() == SHARD
    assert manifest_of(tmp_path / "tree")["source"] == f"{share}, hub {hub.url}"


def test_a_file_that_is_wrong_in_the_first_source_comes_from_the_second(
    stage: RunStager, hub: HubClient, share: Path, lock: Path, tmp_path: Path
) -> None:
    with (share / "acme/model" / COMMIT / SHARD_1).open("r+b") as file:
        file.write(b"rotten")
    ended = stage("--lock", lock, "--source", share, "--source", "hub")
    assert ended.status == 0, ended.log
    assert f"{SHARD_1} from {share}: expected SHA-256" in ended.log
    assert hub.bytes_sent() == SHARD
    assert problems(tmp_path / "tree", full=True) == []


def test_a_file_that_is_wrong_everywhere_is_reported_with_the_last_source(
    stage: RunStager, hub: HubClient, share: Path, lock: Path
) -> None:
    hub.fault("flip", path=f"*{SHARD_1}*", offset=0)
    with (share / "acme/model" / COMMIT / SHARD_1).open("r+b") as file:
        file.write(b"rotten")
    ended = stage("--lock", lock, "--source", share, "--source", "hub")
    assert ended.status == 1
    assert f"{SHARD_1}: wrong content from hub {hub.url}" in ended.message


def test_every_source_that_lacks_a_file_is_named_with_its_reason(
    stage: RunStager, hub: HubClient, share: Path, lock: Path, tmp_path: Path
) -> None:
    (share / "acme/model" / COMMIT / SHARD_1).unlink()
    hub.fault("html", path=f"/storage/*{SHARD_1}*")
    ended = stage("--lock", lock, "--source", share, "--source", "hub")
    assert ended.status == 1
    assert "No such file or directory" in ended.message
    assert "a web page came instead of the file" in ended.message


def test_a_dead_source_is_left_for_the_next_one(stage: RunStager, lock: Path, share: Path, hub: HubClient) -> None:
    hub.fault("reset", path="*")
    ended = stage("--lock", lock, "--source", "http://127.0.0.1:9", "--source", share)
    assert ended.status == 0, ended.log
    assert "leaving it alone for 60 s" in ended.log
    assert hub.requests() == {}


def test_a_web_server_without_ranges_serves_files_of_one_block_only(
    stage: RunStager, lock: Path, web: str, tmp_path: Path
) -> None:
    small = stage("--lock", lock, "--source", web, "--include", "*.json", directory=tmp_path / "small")
    assert small.status == 0, small.log
    whole = stage("--lock", lock, "--source", web)
    assert whole.status == 1
    assert "the server does not give ranges of a file" in whole.message


def test_an_address_of_ipv6_is_a_source(stage: RunStager, tmp_path: Path) -> None:
    class OnIpv6(http.server.ThreadingHTTPServer):
        address_family = socket.AF_INET6

    share = Share(tmp_path, {"config.json": b"{}", "model.bin": bytes(100_000)})
    handler = functools.partial(NoRanges, directory=str(tmp_path / "share"))
    with OnIpv6(("::1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        ended = stage("--lock", share.lock, "--source", f"http://[::1]:{server.server_port}/{{path}}")
        server.shutdown()
    assert ended.status == 0, ended.log
    assert share.is_in(tmp_path / "tree")


def test_the_processor_time_of_many_small_files_does_not_grow_with_their_square(
    start: StartStager, tmp_path: Path
) -> None:
    """It was 33 s for 5,000 files when every stream looked at every file; now about 8 s, half of it in `fsync`."""
    share = Share(tmp_path, {f"f{number}.txt": b"%d" % number for number in range(5_000)})
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = start(*share.options).wait(300)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert ended.status == 0, ended.log
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 25
    assert problems(tmp_path / "tree") == []


def test_user_and_password_of_a_source_are_in_no_log(stage: RunStager, lock: Path, web: str, tmp_path: Path) -> None:
    with_password = web.replace("http://", "http://user:hunter2@")
    ended = stage("--lock", lock, "--source", with_password, "--include", "*.json")
    assert ended.status == 0, ended.log
    assert "hunter2" not in ended.log
    assert "hunter2" not in str(manifest_of(tmp_path / "tree"))


def test_a_proxy_of_the_environment_is_used(stage: RunStager, lock: Path, web: str) -> None:
    """The web server is the proxy: a host that does not exist can be reached only through it."""
    options = ["--lock", lock, "--source", "http://files.invalid", "--include", "*.json"]
    ended = stage(*options, http_proxy=web)
    assert ended.status == 0, ended.log


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "AWS_CA_BUNDLE"])
def test_a_private_authority_is_trusted_where_it_is_given(
    stage: RunStager, lock: Path, private_web: str, tmp_path: Path, variable: str
) -> None:
    options = ["--lock", lock, "--source", private_web, "--include", "*.json"]
    refused = stage(*options)
    assert refused.status == 1
    assert "unable to get local issuer certificate: give the certificate authority in SSL_CERT_FILE" in refused.message
    trusting = stage(*options, **{variable: str(tmp_path / "ca.pem")})
    assert trusting.status == 0, trusting.log
