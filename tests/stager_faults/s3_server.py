"""A real S3 server (versitygw) with one bucket in a directory, while a `with` block runs."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError

from lab.build.cache import ensure
from lab.build.pieces import VERSITYGW_PIECE
from lab.cluster.servers import S3_ACCESS_KEY, S3_REGION, S3_SECRET_KEY

BUCKET = "weights"


@dataclass(frozen=True)
class S3Server:
    """The address of the server, and the settings of its clients."""

    url: str
    objects: Path
    """The directory that holds the bucket's objects as files."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Returns the environment variables of an AWS client."""
        return {
            "AWS_ENDPOINT_URL_S3": self.url,
            "AWS_ACCESS_KEY_ID": S3_ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": S3_SECRET_KEY,
            "AWS_REGION": S3_REGION,
        }

    def client(self) -> Any:
        """Returns a client of the server."""
        return boto3.client(
            "s3",
            endpoint_url=self.url,
            aws_access_key_id=S3_ACCESS_KEY,
            aws_secret_access_key=S3_SECRET_KEY,
            region_name=S3_REGION,
        )


@contextmanager
def running_s3(directory: Path) -> Iterator[S3Server]:
    """Yields an S3 server with the bucket `weights` in `directory`."""
    directory.mkdir(parents=True, exist_ok=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    secrets = {"ROOT_ACCESS_KEY": S3_ACCESS_KEY, "ROOT_SECRET_KEY": S3_SECRET_KEY, "VGW_REGION": S3_REGION}
    program = ensure(VERSITYGW_PIECE) / "versitygw"
    process = subprocess.Popen(
        [program, "--port", address, "posix", directory],
        env={**os.environ, **secrets},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    server = S3Server(f"http://{address}", directory / BUCKET)
    try:
        _create_bucket(server)
        yield server
    finally:
        process.kill()
        process.wait()


def _create_bucket(server: S3Server) -> None:
    deadline = time.monotonic() + 20
    while True:
        try:
            server.client().create_bucket(Bucket=BUCKET)
        except BotoCoreError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return
