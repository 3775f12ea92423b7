"""An S3 bucket, on AWS or behind any endpoint, with credentials from boto3's usual chain.

`stager.ranges` reads the bytes from signed URLs, which are made here without a request; so S3 has the same speed and
the same checks as every other source. Environment: all that boto3 knows, among them
`AWS_ENDPOINT_URL_S3`, `AWS_REGION`, and the role of the pod's service account (EKS Pod Identity, or a web identity) or
of the instance.
"""

from __future__ import annotations

import threading
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, CredentialRetrievalError, NoCredentialsError

from stager.errors import NoCredentials, SourceRefusal, SourceTrouble, StagerError, Unanswered
from stager.listing import RemoteFile
from stager.ranges import Address

SIGNATURE_SECONDS = 3600


def s3_client(connections: int = 10) -> Any:
    """A client that retries, keeps `connections` open, and signs in a way that every S3 server accepts."""
    config = Config(
        signature_version="s3v4",
        max_pool_connections=connections,
        retries={"mode": "standard", "max_attempts": 8},
        s3={"addressing_style": "auto"},
    )
    try:
        return boto3.session.Session().client("s3", config=config)
    except (BotoCoreError, ValueError) as error:
        raise StagerError(f"S3: {error}") from None


def require_credentials() -> None:
    """Raise `NoCredentials` if boto3 finds none, and `Unanswered` if their server does not answer.

    EKS Pod Identity puts the address of its agent (AWS_CONTAINER_CREDENTIALS_FULL_URI) into a pod when the API server
    admits it. A pod that was admitted before the association was known never gets it.
    """
    try:
        found = boto3.session.Session().get_credentials()
    except CredentialRetrievalError as error:
        raise Unanswered(f"S3: {error}") from None
    except (BotoCoreError, ValueError) as error:
        raise StagerError(f"S3: {error}") from None
    if found is None:
        raise NoCredentials(
            "S3: no AWS credentials in this pod, which its service account was to give it: a new pod gets them, once a "
            "role is associated with the service account"
        )


class Bucket:
    """Reads the objects of one bucket."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._client = s3_client()
        self._lock = threading.Lock()

    def locate(self, file: RemoteFile, key: str) -> Address:
        """A URL for the object `key`, which holds `file`; valid for an hour."""
        parameters = {"Bucket": self._name, "Key": key}
        try:
            with self._lock:
                url = self._client.generate_presigned_url("get_object", parameters, ExpiresIn=SIGNATURE_SECONDS)
        except NoCredentialsError:
            raise SourceRefusal(
                f"{file.path}: s3://{self._name}: no AWS credentials in the environment, the service account or the "
                "instance profile"
            ) from None
        except CredentialRetrievalError as error:
            raise SourceTrouble(f"{file.path}: s3://{self._name}: {error}") from None
        except BotoCoreError as error:
            raise SourceRefusal(f"{file.path}: s3://{self._name}: {error}") from None
        return Address(url)
