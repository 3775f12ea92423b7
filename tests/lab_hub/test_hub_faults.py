"""All faults, with a client that does not retry."""

import http.client
import json
import subprocess
import threading
import time
from urllib.parse import urlsplit

import pytest
from huggingface_hub import HfApi

from lab.hub.client import HubClient

from .conftest import PINNED, Sample
from .plain_http import fetch, located

FILE = "acme/real/resolve/main/tiny.gguf"


@pytest.fixture
def url(hub: HubClient) -> str:
    return f"{hub.url}/{FILE}"


@pytest.fixture
def signed(url: str) -> str:
    return located(url)


def struck(hub: HubClient) -> list[int]:
    return [fault["struck"] for fault in hub.faults()]


@pytest.mark.parametrize("status", [429, 500, 502, 503])
def test_an_error_status_with_its_headers(hub: HubClient, url: str, status: int) -> None:
    hub.fault("status", path=f"/{FILE}", status=status, headers={"Retry-After": "7"}, count=1)
    answer = fetch(url)
    assert (answer.status, answer.headers["Retry-After"]) == (status, "7")
    assert fetch(url).status == 302, "expected one request to be struck"


def test_a_reset_before_the_headers(hub: HubClient, signed: str) -> None:
    hub.fault("reset", path="/storage/*")
    with pytest.raises(ConnectionResetError):
        fetch(signed)
    assert hub.requests()[urlsplit(signed).path].answers == {"GET 0": 1}


def test_a_reset_in_the_middle_of_the_body(hub: HubClient, signed: str) -> None:
    hub.fault("reset_body", offset=1_000_000)
    parts = urlsplit(signed)
    connection = http.client.HTTPConnection(parts.netloc, timeout=10)
    connection.request("GET", f"{parts.path}?{parts.query}")
    response = connection.getresponse()
    assert response.status == 200
    with pytest.raises(ConnectionResetError):
        response.read()
    connection.close()
    assert hub.requests()[parts.path].bytes == 1_000_000


def test_a_body_cut_short_in_good_order(hub: HubClient, signed: str, sample: Sample) -> None:
    hub.fault("truncate", offset=1_234_567)
    with pytest.raises(http.client.IncompleteRead) as broken:
        fetch(signed)
    assert broken.value.partial == sample.content[:1_234_567]


def test_a_stall_and_then_the_rest(hub: HubClient, signed: str, sample: Sample) -> None:
    hub.fault("stall", offset=500_000, seconds=0.6)
    began = time.monotonic()
    assert fetch(signed).body == sample.content
    assert time.monotonic() - began >= 0.6


def test_a_stall_that_a_client_does_not_wait_for(hub: HubClient, signed: str) -> None:
    hub.fault("stall", offset=500_000, seconds=60)
    with pytest.raises(TimeoutError):
        fetch(signed, timeout=1.5)
    assert hub.requests()[urlsplit(signed).path].bytes == 500_000


def test_one_wrong_byte(hub: HubClient, signed: str, sample: Sample) -> None:
    hub.fault("flip", offset=2_000_000)
    body = fetch(signed).body
    different = [index for index, (found, right) in enumerate(zip(body, sample.content, strict=True)) if found != right]
    assert different == [2_000_000]


@pytest.mark.parametrize("by", [-5, 7])
def test_a_file_of_the_wrong_length(hub: HubClient, signed: str, sample: Sample, by: int) -> None:
    hub.fault("length", by=by)
    answer = fetch(signed)
    assert answer.headers["Content-Length"] == str(len(sample.content) + by)
    assert answer.body == (sample.content[:by] if by < 0 else sample.content + bytes(by))


def test_a_web_page_instead_of_the_file(hub: HubClient, signed: str) -> None:
    hub.fault("html", path="/storage/*")
    answer = fetch(signed)
    assert answer.status == 200
    assert answer.headers["Content-Type"].startswith("text/html")
    assert answer.body.startswith(b"<!DOCTYPE html>")


def test_a_redirect_to_where_nobody_listens(hub: HubClient, url: str) -> None:
    hub.fault("redirect", path="*/resolve/*")
    with pytest.raises(ConnectionRefusedError):
        fetch(located(url))


def test_a_rate(hub: HubClient, signed: str, sample: Sample) -> None:
    hub.fault("slow", bytes_per_second=6_000_000)
    began = time.monotonic()
    assert fetch(signed).body == sample.content
    assert 0.45 < time.monotonic() - began < 5


def test_a_rate_is_shared_by_all_streams(hub: HubClient, signed: str, sample: Sample) -> None:
    hub.fault("slow", path="/storage/*", bytes_per_second=12_000_000)
    streams = [threading.Thread(target=fetch, args=(signed,)) for _ in range(3)]
    began = time.monotonic()
    for stream in streams:
        stream.start()
    for stream in streams:
        stream.join()
    assert time.monotonic() - began > 0.9 * 3 * len(sample.content) / 12_000_000


def test_an_expired_url_is_refused_until_another_is_asked_for(hub: HubClient, url: str, signed: str) -> None:
    hub.fault("expire", path="/storage/*", count=1)
    assert fetch(signed).status == 403
    assert fetch(signed).status == 403, "expected the same URL to stay expired"
    assert fetch(located(url)).status == 200


def test_a_wrong_entity_tag(hub: HubClient, url: str, signed: str) -> None:
    hub.fault("etag", etag='"wrong"')
    assert fetch(url).headers["X-Linked-ETag"] == '"wrong"'
    assert fetch(signed, method="HEAD").headers["ETag"] == '"wrong"'


def test_a_wrong_commit(hub: HubClient, url: str) -> None:
    hub.fault("commit", commit=PINNED)
    assert fetch(url).headers["X-Repo-Commit"] == PINNED


def test_a_branch_that_moves_midway(hub: HubClient) -> None:
    api = HfApi(endpoint=hub.url, token=False)
    hub.fault("move", path="*acme/generated*", commit=PINNED, after=1)
    before = api.model_info("acme/generated").sha
    assert before != PINNED
    assert api.model_info("acme/generated").sha == PINNED
    assert fetch(f"{hub.url}/acme/generated/resolve/main/config.json").headers["X-Repo-Commit"] == PINNED
    assert api.model_info("acme/generated", revision=before).sha == before, "commits do not move"


def test_a_range_that_is_ignored(hub: HubClient, signed: str, sample: Sample) -> None:
    hub.fault("ignore_range")
    answer = fetch(signed, headers={"Range": "bytes=10-19"})
    assert answer.status == 200
    assert answer.body == sample.content


def test_a_fault_at_an_offset_strikes_only_the_range_that_contains_it(hub: HubClient, signed: str) -> None:
    hub.fault("flip", offset=1000)
    hub.fault("truncate", offset=1000)
    for wanted in ("bytes=0-999", "bytes=1001-2000"):
        fetch(signed, headers={"Range": wanted})
    assert struck(hub) == [0, 0]
    with pytest.raises(http.client.IncompleteRead):
        fetch(signed, headers={"Range": "bytes=990-1010"})
    assert struck(hub) == [1, 1]


def test_a_fault_in_the_bytes_is_not_used_up_on_the_way_to_them(hub: HubClient, url: str) -> None:
    hub.fault("flip", offset=0, count=1)
    signed = located(url)
    fetch(signed, method="HEAD")
    assert struck(hub) == [0]
    wrong, right = fetch(signed).body, fetch(signed).body
    assert wrong != right
    assert struck(hub) == [1]


def test_a_fault_may_let_requests_pass_and_strike_a_number_of_times(hub: HubClient, url: str) -> None:
    hub.fault("status", status=503, after=2, count=3)
    assert [fetch(url).status for _ in range(7)] == [302, 302, 503, 503, 503, 302, 302]


def test_a_fault_may_strike_one_method(hub: HubClient, url: str) -> None:
    hub.fault("status", status=503, method="HEAD")
    assert [fetch(url, method=method).status for method in ("GET", "HEAD")] == [302, 503]


def test_faults_are_listed_and_cleared(hub: HubClient, url: str) -> None:
    hub.fault("status", status=500)
    fetch(url)
    (listed,) = hub.faults()
    assert (listed["kind"], listed["status"], listed["struck"]) == ("status", 500, 1)
    hub.clear_faults()
    assert hub.faults() == []
    assert fetch(url).status == 302


def test_a_fault_is_told_and_seen_with_curl(hub: HubClient, url: str) -> None:
    fault = json.dumps({"kind": "truncate", "path": "/storage/*", "offset": 100})
    subprocess.run(
        ["curl", "-sS", "--noproxy", "*", "-d", fault, f"{hub.url}/lab/faults"], check=True, capture_output=True
    )
    seen = subprocess.run(["curl", "-sSL", "--noproxy", "*", "-o", "-", url], capture_output=True, check=False)
    assert len(seen.stdout) == 100
    assert seen.returncode == 18, "curl's status for a transfer that ended early"


def test_a_fault_that_makes_no_sense_is_refused_with_all_reasons(hub: HubClient) -> None:
    with pytest.raises(ValueError, match=r"stall\.offset: .* \(found -1\).*stall\.seconds: Field required"):
        hub.fault("stall", offset=-1)
    with pytest.raises(ValueError, match=r"'stal' .*'stall'"):
        hub.fault("stal")
    assert hub.faults() == []


def test_the_log_counts_requests_answers_and_bytes_by_path(hub: HubClient, url: str, signed: str) -> None:
    hub.clear_requests()
    for headers in ({"Range": "bytes=0-99"}, {"Range": "bytes=100-149"}):
        fetch(signed, headers=headers)
    fetch(signed, method="HEAD")
    log = hub.requests()
    assert list(log) == [urlsplit(signed).path]
    (path,) = log.values()
    assert (path.requests, path.bytes, path.answers) == (3, 150, {"GET 206": 2, "HEAD 200": 1})
    hub.clear_requests()
    assert hub.requests() == {}
