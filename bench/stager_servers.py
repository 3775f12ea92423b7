"""The servers of the stager's benchmark: nginx as the model hub, and versitygw for S3.

Both serve the same files from memory. nginx comes from the distribution's package, unpacked into the cache. The hub's
responses are static files, so that nginx alone serves a client.
"""

import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import boto3

from lab.build.cache import Piece, Progress, ensure
from lab.build.debian import release, unpack
from lab.build.pieces import VERSITYGW_PIECE

REPOSITORY = "acme/bench"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
BUCKET = "bench"
S3_ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "bench",
    "AWS_SECRET_ACCESS_KEY": "bench-secret",
    "AWS_REGION": "us-east-1",
}
CHUNK = 16 * 1024 * 1024


def _build_nginx(workspace: Path, progress: Progress) -> None:
    unpack(["nginx-light"], workspace / "root", workspace, progress)
    shutil.rmtree(workspace / "apt")


NGINX = Piece("nginx", ("nginx-light", release()), _build_nginx, "about 20 s")


@dataclass(frozen=True)
class BenchFile:
    """One served file."""

    name: str
    size: int
    sha256: str


def write_files(directory: Path, count: int, size: int) -> list[BenchFile]:
    """Writes `count` files of `size` random bytes, named as shards of a model."""
    files = []
    for number in range(1, count + 1):
        name = f"model-{number:05d}-of-{count:05d}.safetensors"
        digest = hashlib.sha256()
        with (directory / name).open("wb") as file:
            for _ in range(size // CHUNK):
                content = os.urandom(CHUNK)
                digest.update(content)
                file.write(content)
        files.append(BenchFile(name, size, digest.hexdigest()))
    return files


def lock_of(files: Sequence[BenchFile]) -> str:
    """Returns the weights lock of the files."""
    entries = [{"path": file.name, "size": file.size, "sha256": file.sha256} for file in files]
    names = {"version": 1, "repository": REPOSITORY, "revision": COMMIT, "commit": COMMIT}
    return json.dumps({**names, "files": entries, "total_bytes": sum(file.size for file in files)})


class Server:
    """A running server: its URL, and the CPU time of the server and its children."""

    def __init__(self, url: str, process: subprocess.Popen[bytes]) -> None:
        self.url = url
        self._process = process

    def cpu_seconds(self) -> float:
        """Returns the CPU seconds of the server's process group so far (proc_pid_stat(5), fields 14 and 15)."""
        ticks = 0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(fields[2]) == self._process.pid:
                ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")


@contextmanager
def running_nginx(served: Path, files: Sequence[BenchFile], scratch: Path) -> Iterator[Server]:
    """Runs nginx as a hub with one repository, with its files in `served`."""
    port = free_port()
    for name, answer in hub_answers(files).items():
        (scratch / name).write_text(json.dumps(answer))
    configuration = scratch / "nginx.conf"
    configuration.write_text(_nginx_configuration(port, served, files, scratch))
    program = next((ensure(NGINX) / "root").glob("usr/sbin/nginx"))
    with running([program, "-c", configuration, "-p", scratch, "-e", scratch / "errors"], {}, port) as server:
        yield server


@contextmanager
def running_versitygw(buckets: Path) -> Iterator[Server]:
    """Runs versitygw with each folder of `buckets` as a bucket."""
    port = free_port()
    secrets = {
        "ROOT_ACCESS_KEY": S3_ENVIRONMENT["AWS_ACCESS_KEY_ID"],
        "ROOT_SECRET_KEY": S3_ENVIRONMENT["AWS_SECRET_ACCESS_KEY"],
    }
    program = ensure(VERSITYGW_PIECE) / "versitygw"
    with running([program, "--port", f"127.0.0.1:{port}", "posix", buckets], secrets, port) as server:
        yield server


def fill_bucket(server: Server, served: Path, files: Sequence[BenchFile]) -> None:
    """Uploads the files to the bucket."""
    client = boto3.client(
        "s3",
        endpoint_url=server.url,
        aws_access_key_id=S3_ENVIRONMENT["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=S3_ENVIRONMENT["AWS_SECRET_ACCESS_KEY"],
        region_name=S3_ENVIRONMENT["AWS_REGION"],
    )
    client.create_bucket(Bucket=BUCKET)
    for file in files:
        client.upload_file(str(served / file.name), BUCKET, file.name)


def free_port() -> int:
    """Returns a free port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


@contextmanager
def running(
    command: Sequence[str | Path], environment: Mapping[str, str], port: int, *, scheme: str = "http"
) -> Iterator[Server]:
    """Runs a server process on `port` until the block ends."""
    process = subprocess.Popen(
        list(map(str, command)),
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        _wait_for_port(process, port)
        yield Server(f"{scheme}://127.0.0.1:{port}", process)
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()


def _wait_for_port(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError(f"{process.args!r} does not listen on port {port}")


def hub_answers(files: Sequence[BenchFile]) -> dict[str, object]:
    """Returns the hub's two API responses about a repository, by file name."""
    lfs = {file.name: {"sha256": file.sha256, "size": file.size, "pointerSize": 134} for file in files}
    siblings = [{"rfilename": f.name, "size": f.size, "blobId": "0" * 40, "lfs": lfs[f.name]} for f in files]
    tree = [
        {
            "type": "file",
            "path": file.name,
            "size": file.size,
            "oid": "0" * 40,
            "lfs": {"oid": file.sha256, "size": file.size, "pointerSize": 134},
        }
        for file in files
    ]
    info = {"id": REPOSITORY, "sha": COMMIT, "siblings": siblings, "private": False, "gated": False, "tags": []}
    return {"info.json": {**info, "downloads": 0, "likes": 0}, "tree.json": tree}


def _nginx_configuration(port: int, served: Path, files: Sequence[BenchFile], scratch: Path) -> str:
    hashes = "\n".join(f"        ~/{file.name}$ '\"{file.sha256}\"';" for file in files)
    temporary = "\n".join(
        f"    {kind}_temp_path {scratch}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    return f"""
worker_processes {len(os.sched_getaffinity(0))};
{"user root;" if os.geteuid() == 0 else ""}
daemon off;
pid {scratch}/pid;
events {{}}
http {{
    access_log off;
    error_log {scratch}/errors;
    sendfile on;
    sendfile_max_chunk 2m;
    keepalive_requests 100000;
    default_type application/octet-stream;
{temporary}
    map $uri $linked_etag {{
{hashes}
    }}
    server {{
        listen 127.0.0.1:{port};
        location = /api/models/{REPOSITORY}/revision/{COMMIT} {{
            default_type application/json;
            alias {scratch}/info.json;
        }}
        location = /api/models/{REPOSITORY}/tree/{COMMIT} {{
            default_type application/json;
            alias {scratch}/tree.json;
        }}
        location /{REPOSITORY}/resolve/{COMMIT}/ {{
            alias {served}/;
            add_header X-Repo-Commit {COMMIT};
            add_header X-Linked-Etag $linked_etag;
        }}
    }}
}}
"""
