"""The lab's AWS in this process, and an account for each test."""

from collections.abc import Iterator

import pytest

from lab.aws.client import LabAWS
from lab.aws.server.running import running_server
from tests.unit.lab.aws.account import Account


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The server's URL."""
    with running_server() as url:
        yield url


@pytest.fixture
def aws(server: str) -> Iterator[LabAWS]:
    """The server without faults."""
    aws = LabAWS(server)
    # The groups of all tests share the quota.
    aws.quotas(L_417A185B=10**6)
    yield aws
    aws.faults()


@pytest.fixture
def account(aws: LabAWS, request: pytest.FixtureRequest) -> Account:
    """An account with names of this test's own."""
    return Account(aws, f"t{abs(hash(request.node.nodeid)) % 10**9}")
