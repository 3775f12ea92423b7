"""Prints a token for an EKS cluster: `python -m components.aws.cluster_token REGION CLUSTER`, a credential plugin.

The token is a signed request to STS, by which EKS learns who the caller is; no request is sent
(github.com/kubernetes-sigs/aws-iam-authenticator, README, "API Authorization from Outside a Cluster"). Credentials and
profile are those of boto3. Prints an ExecCredential (client.authentication.k8s.io).
"""

import base64
import json
import sys
from datetime import UTC, datetime, timedelta

import boto3
from botocore.exceptions import BotoCoreError
from botocore.signers import RequestSigner

_HEADER = "x-k8s-aws-id"
_PREFIX = "k8s-aws-v1."
_SIGNED_SECONDS = 60
"""Longest lifetime that EKS accepts of a signature; the token itself is good for 15 minutes."""

_TOKEN_LIFETIME = timedelta(minutes=14)


def token(region: str, cluster: str) -> str:
    """A token for the cluster. Raises BotoCoreError without credentials."""
    session = boto3.session.Session(region_name=region)
    sts = session.client("sts")
    signer = RequestSigner(
        sts.meta.service_model.service_id, region, "sts", "v4", session.get_credentials(), session.events
    )
    url: str = signer.generate_presigned_url(
        {
            "method": "GET",
            "url": f"https://sts.{region}.amazonaws.com/?Action=GetCallerIdentity&Version=2011-06-15",
            "body": {},
            "headers": {_HEADER: cluster},
            "context": {},
        },
        region_name=region,
        expires_in=_SIGNED_SECONDS,
        operation_name="",
    )
    return _PREFIX + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")


def exec_credential(region: str, cluster: str, now: datetime) -> str:
    """What a credential plugin prints."""
    status = {
        "token": token(region, cluster),
        "expirationTimestamp": (now + _TOKEN_LIFETIME).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    return json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status})


def main() -> int:
    """Exit status 0, or 1 with the reason on standard error."""
    try:
        region, cluster = sys.argv[1:]
        print(exec_credential(region, cluster, datetime.now(UTC)))
    except ValueError:
        print("expected: REGION CLUSTER", file=sys.stderr)
        return 1
    except BotoCoreError as fault:
        print(f"no token for the EKS cluster {cluster}: {fault}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
