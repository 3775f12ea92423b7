"""The program's own signer, and the lab's check of its tokens, which computes the signature by another code."""

from typing import Any

import pytest

from components.aws.cluster_token import token
from lab.aws.server.tokens import review
from tests.unit.lab.aws.account import Account


def reviewed(text: str) -> dict[str, Any]:
    """Returns what the API server is told about a token."""
    status: dict[str, Any] = review({"spec": {"token": text}})["status"]
    return status


@pytest.fixture
def signer(account: Account, monkeypatch: pytest.MonkeyPatch) -> Account:
    """An account whose credentials are in the environment."""
    for name, value in account.aws.settings.items():
        monkeypatch.setenv(name, value)
    return account


def test_the_creator_of_a_cluster_is_its_administrator(signer: Account) -> None:
    status = reviewed(token("us-east-1", signer.cluster))
    assert status["user"]["groups"] == ["system:masters"]


def test_a_token_for_another_cluster_is_refused(signer: Account) -> None:
    assert signer.cluster
    assert reviewed(token("us-east-1", "another")) == {"authenticated": False}


def test_a_token_of_another_key_is_refused(signer: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    assert signer.cluster
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    assert reviewed(token("us-east-1", signer.cluster)) == {"authenticated": False}


def test_a_principal_without_an_access_entry_is_refused(signer: Account) -> None:
    caller = signer("sts", "get_caller_identity")["Arn"]
    signer("eks", "delete_access_entry", clusterName=signer.cluster, principalArn=caller)
    assert reviewed(token("us-east-1", signer.cluster)) == {"authenticated": False}


@pytest.mark.parametrize("text", ["", "k8s-aws-v1.", "k8s-aws-v1.%%%", "another", "k8s-aws-v1.aHR0cHM6Ly9h"])
def test_what_is_no_token_is_refused(text: str) -> None:
    assert reviewed(text) == {"authenticated": False}
