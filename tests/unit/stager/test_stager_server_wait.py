"""How long a server asks to be left alone, whichever way it says so, and whatever our own clock says."""

import pytest

from stager.errors import SourceTrouble
from stager.ranges import server_wait, without_secrets
from stager.retry import RetryPolicy


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"Retry-After": "7"}, 7.0),
        ({"Retry-After": "soon"}, None),
        (
            # RFC 9110, 10.2.3, gives this date as its example; the server's own clock is 90 s before it.
            {"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT", "Date": "Fri, 31 Dec 1999 23:58:29 GMT"},
            90.0,
        ),
        ({"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT", "Date": "Sat, 01 Jan 2000 00:00:10 GMT"}, 0.0),
        ({"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT"}, None),
        ({"RateLimit": '"api";r=0;t=55'}, 55.0),
        ({"RateLimit": '"resolvers";r=0;t=12', "Retry-After": "3"}, 3.0),
    ],
)
def test_a_servers_wish_is_understood(headers: dict[str, str], seconds: float | None) -> None:
    assert server_wait(headers) == seconds


def test_a_wish_counts_instead_of_our_own_wait_but_not_for_ever() -> None:
    retries = RetryPolicy()
    assert retries.wait_after(1, SourceTrouble("", wait=45)) == 45
    assert retries.wait_after(1, SourceTrouble("", wait=86_400)) == 600
    assert [
        round(retries.wait_after(number, SourceTrouble("")) / base, 1) for number, base in enumerate(retries.waits, 1)
    ] == (pytest.approx([1.0] * 6, abs=0.21))


def test_signatures_and_passwords_are_cut_from_an_address() -> None:
    assert without_secrets("https://u:p@host:8/a/b?X-Amz-Signature=s#f") == "https://host:8/a/b"
