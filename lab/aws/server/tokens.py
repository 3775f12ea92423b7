"""Tokens for EKS clusters: who signed one, and what that principal may do.

A token is a signed request to STS (github.com/kubernetes-sigs/aws-iam-authenticator, README). EKS sends it; the lab
computes the signature anew, which proves the same: the caller has the secret key, and means this cluster.
"""

import base64
import binascii
import datetime as dt
import hashlib
import hmac
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from lab.aws.credentials import ACCESS_KEY, ACCOUNT, SECRET_KEY, USER
from lab.aws.server.eks.entries import ADMIN_POLICY, policy_arn
from lab.aws.server.store import REGIONS, Record, Region

PREFIX = "k8s-aws-v1."
HEADER = "x-k8s-aws-id"
LIFETIME = dt.timedelta(minutes=15)
EMPTY = hashlib.sha256(b"").hexdigest()


def review(request: Record) -> Record:
    """Answers a TokenReview of the API server (authentication.k8s.io/v1)."""
    user = next(_users(str(request["spec"]["token"])), None)
    status: Record = {"authenticated": user is not None} | ({"user": user} if user else {})
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "status": status}


def _users(token: str) -> Iterator[Record]:
    """Yields the user of each cluster that the token is for and that admits the signer."""
    for region in list(REGIONS[ACCOUNT].values()):
        for cluster in list(region.clusters):
            if signed_for(token, cluster):
                yield from _user(region, cluster, f"arn:aws:iam::{ACCOUNT}:user/{USER}")


def _user(region: Region, cluster: str, principal: str) -> Iterator[Record]:
    entry = region.entries.get((cluster, principal))
    if entry is not None:
        admin = policy_arn(ADMIN_POLICY) in region.policies[cluster, principal]
        groups = [*entry["kubernetesGroups"], *(["system:masters"] if admin else [])]
        yield {"username": entry["username"], "groups": groups}


def signed_for(token: str, cluster: str) -> bool:
    """Whether the lab's user signed the token for this cluster within the last 15 minutes."""
    try:
        text = token.removeprefix(PREFIX)
        url = urlsplit(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode())
        asked = dict(parse_qsl(url.query, strict_parsing=True))
        signed_at = dt.datetime.strptime(asked["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=dt.UTC)
        signature = asked.pop("X-Amz-Signature")
        scope = asked["X-Amz-Credential"].split("/")
    except (binascii.Error, UnicodeDecodeError, ValueError, KeyError):
        return False
    known = token.startswith(PREFIX) and scope[0] == ACCESS_KEY and asked.get("Action") == "GetCallerIdentity"
    fresh = abs(dt.datetime.now(dt.UTC) - signed_at) < LIFETIME
    return known and fresh and hmac.compare_digest(signature, _signature(url, asked, scope, cluster))


def _signature(url: Any, asked: dict[str, str], scope: list[str], cluster: str) -> str:
    """Returns the signature of the request (docs.aws.amazon.com, "Create a signed AWS API request")."""
    query = "&".join(f"{quote(key, safe='-_.~')}={quote(asked[key], safe='-_.~')}" for key in sorted(asked))
    headers = f"host:{url.netloc}\n{HEADER}:{cluster}\n"
    canonical = "\n".join(["GET", url.path, query, headers, f"host;{HEADER}", EMPTY])
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    text = "\n".join(["AWS4-HMAC-SHA256", asked["X-Amz-Date"], "/".join(scope[1:]), digest])
    key = f"AWS4{SECRET_KEY}".encode()
    for part in scope[1:]:
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
