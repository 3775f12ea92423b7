"""The stager beside what people use instead, from the same servers, in one run: `python -m bench.stager`.

`hf download`, `s5cmd` and boto3 do not verify, so each is shown without and with a SHA-256 pass over its files, by
the fastest hash at hand on all cores; heavylift always verifies. Rounds are interleaved, the median counts. On a disk,
the time until the bytes are on it is measured for all. `--capped` puts everything into a network namespace whose
loopback carries 250 MB/s, and needs `tc`.
"""

import argparse
import os
import re
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path

from bench.stager_servers import (
    BUCKET,
    COMMIT,
    REPOSITORY,
    S3_ENVIRONMENT,
    Server,
    fill_bucket,
    lock_of,
    running_nginx,
    running_versitygw,
    write_files,
)

CHECKOUT = Path(__file__).parents[1]
MIB = 1024 * 1024
POLL_SECONDS = 0.02
CAP_BYTES_PER_SECOND = 250_000_000
IN_NAMESPACE = "HEAVYLIFT_BENCH_CAPPED"
HASH_ALL = """
import hashlib, os, pathlib, sys
from concurrent.futures import ThreadPoolExecutor
def digest(path):
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
    list(pool.map(digest, pathlib.Path(sys.argv[1]).glob("*.safetensors")))
"""


@dataclass(frozen=True)
class Run:
    """The time and memory of one run of a client."""

    seconds: float
    cpu_seconds: float
    peak_mib: float
    server_cpu_seconds: float


@dataclass(frozen=True)
class Client:
    """A program that downloads the files into a directory."""

    name: str
    server: Server
    command: Callable[[Path], Sequence[str | Path]]
    environment: Mapping[str, str]
    verifies: bool = False


def clients(hub: Server, s3: Server, lock: Path) -> list[Client]:
    """Returns heavylift and the other clients, by server."""
    python, tools = sys.executable, Path(sys.executable).parent
    s5cmd = str(distribution("s5cmd").locate_file("s5cmd/bin/s5cmd"))  # the program itself, without its Python wrapper
    at_hub = {"HF_ENDPOINT": hub.url, "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    at_s3 = {**S3_ENVIRONMENT, "AWS_ENDPOINT_URL_S3": s3.url, "S3_ENDPOINT_URL": s3.url}
    stage: list[str | Path] = [
        python,
        "-m",
        "stager",
        "stage",
        "--repository",
        REPOSITORY,
        "--revision",
        COMMIT,
        "--directory",
    ]
    from_s3: list[str | Path] = ["--lock", lock, "--source", f"s3://{BUCKET}/{{path}}"]
    download: list[str | Path] = [tools / "hf", "download", REPOSITORY, "--revision", COMMIT, "--local-dir"]
    return [
        Client("heavylift, hub", hub, lambda to: [*stage, to], at_hub, verifies=True),
        Client("hf download", hub, lambda to: [*download, to], at_hub),
        Client("heavylift, S3", s3, lambda to: [*stage, to, *from_s3], at_s3, verifies=True),
        Client("s5cmd", s3, lambda to: [s5cmd, "cp", f"s3://{BUCKET}/*", f"{to}/"], at_s3),
        Client("boto3", s3, lambda to: [python, "-m", "bench.stager_boto3", BUCKET, to], at_s3),
    ]


def _usage_if_ended(process: subprocess.Popen[bytes]) -> resource.struct_rusage | None:
    ended, status, usage = os.wait4(process.pid, os.WNOHANG)
    if not ended:
        return None
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage


def _resident_kib(pid: int) -> int:
    """Returns the resident memory of a process and its children at this moment."""
    try:
        match = re.search(r"VmRSS:\s*(\d+) kB", Path(f"/proc/{pid}/status").read_text())
        lists = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    except (FileNotFoundError, ProcessLookupError):  # it has ended
        return 0
    return (int(match[1]) if match else 0) + sum(_resident_kib(int(child)) for child in " ".join(lists).split())


def measure(command: Sequence[str | Path], environment: Mapping[str, str], server: Server | None, to: Path) -> Run:
    """Runs a command, and waits until its bytes are on the disk."""
    before = server.cpu_seconds() if server else 0.0
    began = time.monotonic()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            list(map(str, command)),
            cwd=CHECKOUT,
            env={"PATH": os.environ["PATH"], "HOME": str(to.parent), **environment},
            stdout=output,
            stderr=output,
        )
        peak_kib = 0
        while (usage := _usage_if_ended(process)) is None:
            peak_kib = max(peak_kib, _resident_kib(process.pid))
            time.sleep(POLL_SECONDS)
        if process.returncode:
            output.seek(0)
            raise RuntimeError(f"{command}: {output.read().decode()[-2000:]}")
    subprocess.run(["sync", "-f", to], check=True)
    return Run(
        seconds=time.monotonic() - began,
        cpu_seconds=usage.ru_utime + usage.ru_stime,
        peak_mib=peak_kib / 1024,
        server_cpu_seconds=(server.cpu_seconds() if server else 0.0) - before,
    )


@dataclass(frozen=True)
class Played:
    """One round of a client: its run, its extra hash pass, and its run on the complete directory."""

    run: Run
    hashing: Run | None
    again: Run | None

    @property
    def verified_seconds(self) -> float:
        """Seconds until the files are downloaded and hashed."""
        return self.run.seconds + (self.hashing.seconds if self.hashing else 0.0)

    @property
    def verified_cpu_seconds(self) -> float:
        """The client's CPU seconds until the files are downloaded and hashed."""
        return self.run.cpu_seconds + (self.hashing.cpu_seconds if self.hashing else 0.0)


def play(client: Client, place: Path) -> Played:
    """Runs one round of a client in an empty directory."""
    to = place / "tree"
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir(parents=True)
    run = measure(client.command(to), client.environment, client.server, to)
    hashing, again = None, None
    if client.verifies:
        again = measure(client.command(to), client.environment, None, to)
    else:
        hashing = measure([sys.executable, "-c", HASH_ALL, to], {}, None, to)
    shutil.rmtree(to)
    return Played(run, hashing, again)


def row(client: Client, rounds: Sequence[Played], total: int) -> str:
    """Returns a table row with the medians of a client's rounds."""
    runs = [played.run for played in rounds]
    seconds = statistics.median(run.seconds for run in runs)
    verified = statistics.median(played.verified_seconds for played in rounds)
    cpu = statistics.median(played.verified_cpu_seconds for played in rounds)
    share = statistics.median(run.server_cpu_seconds / (run.server_cpu_seconds + run.cpu_seconds) for run in runs)
    fetched = "" if client.verifies else f"{total / seconds / 1e6:,.0f}"
    times = sorted(played.verified_seconds for played in rounds)
    again = f"{statistics.median(p.again.seconds for p in rounds if p.again):.2f}" if client.verifies else ""
    return (
        f"| {client.name} | {fetched} | {total / verified / 1e6:,.0f} | {times[0]:.1f} to {times[-1]:.1f} | {cpu:.1f} "
        f"| {share:.0%} | {max(run.peak_mib for run in runs):,.0f} | {again} |"
    )


def ratios(results: Mapping[str, Sequence[Played]], ours: str, rivals: Sequence[str]) -> str:
    """Returns the speed of `ours` relative to the fastest other client, with and without a hash pass."""
    mine = statistics.median(played.run.seconds for played in results[ours])
    plain = min(statistics.median(played.run.seconds for played in results[rival]) for rival in rivals)
    verified = min(statistics.median(played.verified_seconds for played in results[rival]) for rival in rivals)
    return (
        f"{ours} runs at {verified / mine:.2f} times the speed of the fastest other with a hash pass, "
        f"and at {plain / mine:.2f} times the speed of the fastest other without."
    )


def compare(place: Path, hub: Server, s3: Server, lock: Path, rounds: int, total: int) -> None:
    """Runs all clients in `place` in turn, and prints the table."""
    entrants = clients(hub, s3, lock)
    results: dict[str, list[Played]] = {client.name: [] for client in entrants}
    for _ in range(rounds):
        for client in entrants:
            results[client.name].append(play(client, place))
    print(
        "| client | fetched, MB/s | verified, MB/s | seconds to verified | CPU seconds to verified "
        "| server's share of the fetch's CPU | peak MiB | again, s |\n|---|---|---|---|---|---|---|---|"
    )
    for client in entrants:
        print(row(client, results[client.name], total))
    print()
    print(ratios(results, "heavylift, hub", ["hf download"]))
    print(ratios(results, "heavylift, S3", ["s5cmd", "boto3"]), flush=True)


def enter_capped_namespace() -> None:
    """Runs this program again in a network namespace with a slow loopback, and exits with its status."""
    rate = f"{CAP_BYTES_PER_SECOND * 8 // 1_000_000}mbit"
    shape = f"ip link set lo up && tc qdisc add dev lo root tbf rate {rate} burst 1mb latency 50ms"
    script = f'{shape} && exec "$@"'
    unshare = ["unshare", "-n"] if os.geteuid() == 0 else ["unshare", "-rn"]
    command = [*unshare, "sh", "-c", script, "sh", sys.executable, "-m", "bench.stager", *sys.argv[1:]]
    sys.exit(subprocess.run(command, cwd=CHECKOUT, env={**os.environ, IN_NAMESPACE: "1"}, check=False).returncode)


def main() -> None:
    """Starts the servers, runs the clients and prints the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.stager", description=__doc__)
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--mib", type=int, default=512, help="size of each file (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--capped", action="store_true", help="over a loopback of 250 MB/s")
    parser.add_argument("--memory", type=Path, default=Path("/dev/shm"), help="a tmpfs")  # noqa: S108 - the tmpfs it is
    parser.add_argument("--disk", type=Path, default=Path.home(), help="a directory on a disk")
    options = parser.parse_args()
    if options.capped and IN_NAMESPACE not in os.environ:
        enter_capped_namespace()
    total = options.files * options.mib * MIB
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that servers and files go
    with (
        tempfile.TemporaryDirectory(dir=options.memory) as memory,
        tempfile.TemporaryDirectory(dir=options.disk) as disk,
    ):
        scratch, buckets = Path(memory, "scratch"), Path(memory, "buckets")
        for directory in (scratch, buckets):
            directory.mkdir()
        scratch.chmod(0o755)
        Path(memory).chmod(0o755)
        with running_versitygw(buckets) as s3:
            source = scratch / "source"
            source.mkdir()
            files = write_files(source, options.files, options.mib * MIB)
            fill_bucket(s3, source, files)
            shutil.rmtree(source)
            lock = scratch / "lock.json"
            lock.write_text(lock_of(files))
            with running_nginx(buckets / BUCKET, files, scratch) as hub:
                for name, place in (("memory", Path(memory)), ("disk", Path(disk))):
                    print(f"\n{options.files} files of {options.mib} MiB to {name}, {options.rounds} rounds:\n")
                    compare(place, hub, s3, lock, options.rounds, total)


if __name__ == "__main__":
    main()
