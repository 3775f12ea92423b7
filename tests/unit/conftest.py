"""The lab's AWS for unit tests: one server in each process, and an account for each test.

Their modules are imported by the fixtures, since other tests need not wait for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from lab.aws.client import LabAWS
    from tests.unit.lab.aws.account import Account


@pytest.fixture(scope="session")
def aws_server() -> Iterator[str]:
    """The server's URL."""
    from lab.aws.server.running import running_server

    with running_server() as url:
        yield url


@pytest.fixture
def aws(aws_server: str) -> Iterator[LabAWS]:
    """The server without faults."""
    from lab.aws.client import LabAWS
    from lab.aws.server.install import add_user

    # Tests that use moto without a server empty its accounts.
    add_user()
    aws = LabAWS(aws_server)
    # The groups of all tests share the quota.
    aws.quotas(L_417A185B=10**6)
    yield aws
    aws.faults()


@pytest.fixture
def account(aws: LabAWS, request: pytest.FixtureRequest) -> Account:
    """An account with names of this test's own."""
    from tests.unit.lab.aws.account import Account

    return Account(aws, f"t{abs(hash(request.node.nodeid)) % 10**9}")


@pytest.fixture
def aws_environment(aws: LabAWS, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment in which boto3 finds the server."""
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    for name, value in aws.settings.items():
        monkeypatch.setenv(name, value)
