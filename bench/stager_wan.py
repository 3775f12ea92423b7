"""The stager over a long line beside what people use: `python -m bench.stager_wan [--tls]`.

Each connection has a round trip of 40 ms and 12.5 MB/s (100 MB/s, scaled by 8 for two cores), so that what counts is
how many connections a client uses and when. Three shapes: few large files, many, and one alone. Clients that do not
verify are shown without and with a hash pass; all write to memory. The server's cores are the client's as well.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import distribution
from pathlib import Path

import trustme

from bench.stager import MIB, Client, Played, play
from bench.stager_servers import (
    BUCKET,
    COMMIT,
    REPOSITORY,
    S3_ENVIRONMENT,
    BenchFile,
    Server,
    free_port,
    hub_answers,
    lock_of,
    running,
    write_files,
)
from lab.build.cache import Piece, Progress, ensure
from lab.build.debian import release, unpack

ROUND_TRIP = 0.04
BYTES_PER_SECOND = 12.5e6
SHAPES = {"8 files of 256 MiB": (8, 256), "40 files of 64 MiB": (40, 64), "1 file of 1 GiB": (1, 1024)}


def _build_aria2(workspace: Path, progress: Progress) -> None:
    unpack(["aria2"], workspace / "root", workspace, progress)
    shutil.rmtree(workspace / "apt")


ARIA2 = Piece("aria2", ("aria2", release()), _build_aria2, "about 20 s")


@contextmanager
def running_wan(root: Path, files: Sequence[BenchFile], tls: bool) -> Iterator[tuple[Server, Path]]:
    """Runs the remote server with `files`, and yields it and the certificate authority's file."""
    port, authority = free_port(), root / "authority.pem"
    (root / "lock.json").write_text(lock_of(files))
    for name, answer in hub_answers(files).items():
        (root / name).write_text(json.dumps(answer))
    pair: list[Path] = []
    if tls:
        signer = trustme.CA()
        signer.cert_pem.write_to_path(authority)
        issued = signer.issue_cert("127.0.0.1", "localhost")
        pair = [root / "server.pem", root / "server.key"]
        issued.cert_chain_pems[0].write_to_path(pair[0])
        issued.private_key_pem.write_to_path(pair[1])
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "bench.wan_server",
        root,
        str(port),
        str(ROUND_TRIP),
        str(BYTES_PER_SECOND),
        *pair,
    ]
    with running(command, {}, port, scheme="https" if tls else "http") as server:
        yield server, authority


def clients(server: Server, root: Path, files: Sequence[BenchFile], authority: Path, tls: bool) -> list[Client]:
    """Returns heavylift and the other clients."""
    python, tools = sys.executable, Path(sys.executable).parent
    trust = {"SSL_CERT_FILE": str(authority), "AWS_CA_BUNDLE": str(authority)} if tls else {}
    hub = {"HF_ENDPOINT": server.url, "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1", **trust}
    s3 = {**S3_ENVIRONMENT, "AWS_ENDPOINT_URL_S3": server.url, "S3_ENDPOINT_URL": server.url, **trust}
    stage: list[str | Path] = [python, "-m", "stager", "stage", "--repository", REPOSITORY, "--revision", COMMIT]
    from_s3 = [*stage, "--lock", root / "lock.json", "--source", f"s3://{BUCKET}/{{path}}", "--directory"]
    s5cmd = str(distribution("s5cmd").locate_file("s5cmd/bin/s5cmd"))
    download: list[str | Path] = [tools / "hf", "download", REPOSITORY, "--revision", COMMIT, "--local-dir"]
    addresses = root / "addresses"
    addresses.write_text("".join(f"{server.url}/{BUCKET}/{file.name}\n" for file in files))
    unpacked = ensure(ARIA2) / "root"
    libraries = {"LD_LIBRARY_PATH": str(unpacked / "usr/lib/x86_64-linux-gnu")}
    aria2c: list[str | Path] = [unpacked / "usr/bin/aria2c", "-q", "-x16", "-s16", "-k1M", "-i", addresses]
    aria2c += [f"--ca-certificate={authority}"] if tls else []
    return [
        Client("heavylift, hub", server, lambda to: [*stage, "--directory", to], hub, verifies=True),
        Client("heavylift, S3", server, lambda to: [*from_s3, to], s3, verifies=True),
        Client("hf download", server, lambda to: [*download, to], hub),
        Client("s5cmd", server, lambda to: [s5cmd, "cp", f"s3://{BUCKET}/*", f"{to}/"], s3),
        Client("boto3", server, lambda to: [python, "-m", "bench.stager_boto3", BUCKET, to], s3),
        Client("aria2c, 16 connections a file", server, lambda to: [*aria2c, "-d", to], libraries),
    ]


def compare(shape: str, place: Path, tls: bool, rounds: int) -> None:
    """Runs all clients with the files of `shape` in turn, and prints the table."""
    count, mib = SHAPES[shape]
    with tempfile.TemporaryDirectory(dir=place) as directory:
        root = Path(directory)
        (root / "source").mkdir()
        files = write_files(root / "source", count, mib * MIB)
        with running_wan(root, files, tls) as (server, authority):
            entrants = clients(server, root, files, authority, tls)
            results: dict[str, list[Played]] = {client.name: [] for client in entrants}
            for _ in range(rounds):
                for client in entrants:
                    results[client.name].append(play(client, root))
    print(f"\n{shape}{', TLS' if tls else ''}, load {os.getloadavg()[0]:.1f}:\n")
    print("| client | fetched, MB/s | verified, MB/s | CPU seconds to verified | peak MiB |\n|---|---|---|---|---|")
    for client in entrants:
        print(row(client, results[client.name], count * mib * MIB))
    print()
    rivals = [client.name for client in entrants if not client.verifies]
    for client in entrants:
        if client.verifies:
            print(ratios(results, client.name, rivals), flush=True)


def row(client: Client, rounds: Sequence[Played], total: int) -> str:
    """Returns a table row with the medians of a client's rounds."""
    seconds = statistics.median(played.run.seconds for played in rounds)
    fetched = "" if client.verifies else f"{total / seconds / 1e6:,.0f}"
    verified = total / statistics.median(played.verified_seconds for played in rounds) / 1e6
    cpu = statistics.median(played.verified_cpu_seconds for played in rounds)
    peak = max(played.run.peak_mib for played in rounds)
    return f"| {client.name} | {fetched} | {verified:,.0f} | {cpu:.1f} | {peak:,.0f} |"


def ratios(results: dict[str, list[Played]], ours: str, rivals: Sequence[str]) -> str:
    """Returns the speed of `ours` relative to the fastest other client, with and without a hash pass."""
    mine = statistics.median(played.run.seconds for played in results[ours])
    plain = min(statistics.median(played.run.seconds for played in results[rival]) for rival in rivals)
    verified = min(statistics.median(played.verified_seconds for played in results[rival]) for rival in rivals)
    return f"{ours}: {verified / mine:.2f} times the fastest other with a hash pass, {plain / mine:.2f} times without."


def main() -> None:
    """Runs all shapes."""
    parser = argparse.ArgumentParser(prog="python -m bench.stager_wan", description=__doc__)
    parser.add_argument("--tls", action="store_true", help="over TLS")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--shape", choices=SHAPES, action="append", help="only this one; repeat")
    parser.add_argument("--memory", type=Path, default=Path("/dev/shm"), help="a tmpfs")  # noqa: S108 - the tmpfs it is
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that servers and files go
    for shape in options.shape or SHAPES:
        compare(shape, options.memory, options.tls, options.rounds)


if __name__ == "__main__":
    main()
