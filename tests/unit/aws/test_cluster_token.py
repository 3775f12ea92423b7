"""The credential plugin: a token that EKS' authenticator accepts, by the rules that it publishes."""

import base64
import hashlib
import hmac
import json
import subprocess
import sys
from datetime import UTC, datetime
from urllib.parse import parse_qsl, quote, urlsplit

import pytest

from components.aws.cluster_token import exec_credential
from tests.program import PROGRAM

KEY, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
"""The credentials of AWS' own examples of signatures."""


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_STS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)


def signed(date: str, day: str, query: dict[str, str]) -> str:
    """The signature of version 4 of the request, computed here (docs.aws.amazon.com, "Create a signed AWS API "
    "request")."""
    pairs = "&".join(f"{quote(name, '')}={quote(value, '')}" for name, value in sorted(query.items()))
    host = "sts.us-east-2.amazonaws.com"
    canonical = (
        f"GET\n/\n{pairs}\nhost:{host}\nx-k8s-aws-id:mine\n\nhost;x-k8s-aws-id\n{hashlib.sha256(b'').hexdigest()}"
    )
    scope = f"{day}/us-east-2/sts/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{date}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = f"AWS4{SECRET}".encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def test_the_token_is_a_request_to_sts_that_is_signed_for_the_cluster() -> None:
    credential = json.loads(exec_credential("us-east-2", "mine", datetime(2026, 12, 2, 3, 0, tzinfo=UTC)))
    assert credential["kind"] == "ExecCredential"
    assert credential["status"]["expirationTimestamp"] == "2026-12-02T03:14:00Z"
    prefix, _, encoded = credential["status"]["token"].partition(".")
    assert prefix == "k8s-aws-v1"
    assert "=" not in encoded
    url = urlsplit(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode())
    query = dict(parse_qsl(url.query))
    assert (url.hostname, query["Action"], query["X-Amz-Expires"]) == (
        "sts.us-east-2.amazonaws.com",
        "GetCallerIdentity",
        "60",
    )
    assert query["X-Amz-SignedHeaders"] == "host;x-k8s-aws-id"
    signature = query.pop("X-Amz-Signature")
    day = query["X-Amz-Credential"].split("/")[1]
    assert signature == signed(query["X-Amz-Date"], day, query)


def test_without_credentials_the_plugin_says_why() -> None:
    environment = {"PATH": "/usr/bin", "AWS_EC2_METADATA_DISABLED": "true", "HOME": "/nonexistent"}
    command = [sys.executable, "-m", "components.aws.cluster_token", "us-east-2", "mine"]
    run = subprocess.run(command, cwd=PROGRAM, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert run.stderr == "no token for the EKS cluster mine: Unable to locate credentials\n"
