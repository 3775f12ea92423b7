"""A Python language host for the Pulumi engine: it runs programs, policy packs and component packages.

The official host cannot be built from a module. The engine starts this one as `pulumi-language-python ADDRESS`, reads
a port from its output and calls it over gRPC, with the stubs of the `pulumi` package.

Programs run in the virtual environment that the project names, or in the host's own. The host installs only the SDKs
that `pulumi package add` generates, into the project's `sdks/installed`.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent import futures
from importlib.metadata import distributions
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any

import grpc
from google.protobuf.empty_pb2 import Empty
from pulumi.runtime.proto import language_pb2, language_pb2_grpc, plugin_pb2

# The runner's exit status if it has already shown the error.
SHOWN_TO_USER = 32
POLICY_RUNNER = ("-m", "pulumi.policy")
REQUIREMENTS = "requirements.txt"
INSTALLED = "sdks/installed"


def interpreter(info: Any) -> str:
    """Returns the Python of the project's virtual environment if it exists, or else this Python."""
    options = dict(info.options.items()) if info.HasField("options") else {}
    candidate = Path(info.root_directory, str(options.get("virtualenv") or ".venv"), "bin/python")
    return str(candidate) if candidate.exists() else sys.executable


def python_path(info: Any) -> str:
    """Returns PYTHONPATH for a project: its installed SDKs, then the engine's PYTHONPATH."""
    return os.pathsep.join(filter(None, (str(Path(info.root_directory, INSTALLED)), os.environ.get("PYTHONPATH"))))


def local_sdks(root: Path) -> list[str]:
    """Returns the lines of the project's `requirements.txt` that name directories of the project."""
    file = root / REQUIREMENTS
    lines = [line.strip() for line in file.read_text().splitlines()] if file.exists() else []
    return [line for line in lines if line and not line.startswith(("#", "-")) and (root / line).is_dir()]


def pulumi_packages(root: Path) -> Iterator[Any]:
    """Yields the provider of each installed SDK, from its `pulumi-plugin.json`."""
    for directory in (root / INSTALLED, *map(Path, sys.path)):
        for file in directory.glob("*/pulumi-plugin.json"):
            about = json.loads(file.read_text())
            if about.get("resource"):
                yield plugin_pb2.PackageDependency(name=about["name"], kind="resource", version=f"v{about['version']}")


class LanguageHost(language_pb2_grpc.LanguageRuntimeServicer):
    """The gRPC service that an engine calls for a program or policy pack in Python."""

    def __init__(self, engine_address: str) -> None:
        self._engine_address = engine_address
        self._processes: set[subprocess.Popen[bytes]] = set()

    def Handshake(self, request: Any, _context: Any) -> Any:
        """Stores the engine's address if the request has it."""
        self._engine_address = request.engine_address or self._engine_address
        return language_pb2.LanguageHandshakeResponse()

    def GetPluginInfo(self, _request: Any, _context: Any) -> Any:
        """Returns this host's version."""
        return plugin_pb2.PluginInfo(version="0.1.0")

    def GetRequiredPackages(self, request: Any, _context: Any) -> Any:
        """Returns the providers that the program can use."""
        packages = list(pulumi_packages(Path(request.info.root_directory)))
        return language_pb2.GetRequiredPackagesResponse(packages=packages)

    def GetProgramDependencies(self, _request: Any, _context: Any) -> Any:
        """Returns the installed distributions."""
        found = [language_pb2.DependencyInfo(name=each.name, version=each.version) for each in distributions()]
        return language_pb2.GetProgramDependenciesResponse(dependencies=found)

    def About(self, request: Any, _context: Any) -> Any:
        """Returns the path and version of Python."""
        return language_pb2.AboutResponse(executable=interpreter(request.info), version=sys.version.split()[0])

    def GeneratePackage(self, request: Any, context: Any) -> Any:
        """Writes an SDK with Pulumi's own generator, a Go program (`lab/build/pins/pulumi/main.go`)."""
        answer = subprocess.run(
            ["pulumi-generate-python"], input=request.SerializeToString(), capture_output=True, check=False
        )
        if answer.returncode:
            context.abort(grpc.StatusCode.INTERNAL, answer.stderr.decode())
        return language_pb2.GeneratePackageResponse.FromString(answer.stdout)

    def Link(self, request: Any, _context: Any) -> Any:
        """Adds generated SDKs to the project's `requirements.txt`."""
        root = Path(request.info.root_directory)
        known = local_sdks(root)
        with (root / REQUIREMENTS).open("a") as file:
            file.writelines(f"{each.path}\n" for each in request.packages if each.path not in known)
        names = ", ".join(each.package.name for each in request.packages)
        return language_pb2.LinkResponse(import_instructions=f"The SDK for {names} is in {REQUIREMENTS}.")

    def InstallDependencies(self, request: Any, context: Any) -> Iterator[Any]:
        """Installs the generated SDKs. `make` has installed everything else."""
        root = Path(request.info.root_directory)
        if sdks := local_sdks(root):
            offline = ("--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check")
            target = ("--upgrade", "--target", str(root / INSTALLED))
            command = [sys.executable, "-m", "pip", "install", *offline, *target, *(f"./{sdk}" for sdk in sdks)]
            answer = subprocess.run(command, cwd=root, capture_output=True, check=False)
            if answer.returncode:
                context.abort(grpc.StatusCode.INTERNAL, answer.stderr.decode())
        yield language_pb2.InstallDependenciesResponse(stdout=f"installed: {', '.join(sdks) or 'nothing'}\n".encode())

    def RuntimeOptionsPrompts(self, _request: Any, _context: Any) -> Any:
        """Returns no prompts for `pulumi new`."""
        return language_pb2.RuntimeOptionsResponse()

    def Cancel(self, _request: Any, _context: Any) -> Empty:
        """Terminates the running programs."""
        for process in list(self._processes):
            process.terminate()
        return Empty()

    def Run(self, request: Any, _context: Any) -> Any:
        """Runs a program with the SDK's runner and waits for its end."""
        runner = shutil.which("pulumi-language-python-exec")
        if runner is None:
            return language_pb2.RunResponse(error="pulumi-language-python-exec is not on PATH")
        arguments = {
            "monitor": request.monitor_address,
            "engine": self._engine_address,
            "project": request.project,
            "stack": request.stack,
            "pwd": request.pwd,
            "dry_run": str(request.dryRun).lower(),
            "parallel": str(request.parallel),
            "organization": request.organization,
            "root_directory": request.info.root_directory,
        }
        words = [word for name, value in arguments.items() if value for word in (f"--{name}", value)]
        environment = {
            "PYTHONPATH": python_path(request.info),
            "PULUMI_CONFIG": json.dumps(dict(request.config)),
            "PULUMI_CONFIG_SECRET_KEYS": json.dumps(list(request.configSecretKeys)),
        }
        program = request.program or request.info.entry_point or "."
        command = [interpreter(request.info), "-u", runner, *words, program, *request.args]
        process = self._start(command, cwd=request.pwd, environment=environment)
        status = process.wait()
        self._processes.discard(process)
        if status == SHOWN_TO_USER:
            return language_pb2.RunResponse(bail=True)
        return language_pb2.RunResponse(error=f"the program ended with exit status {status}" if status else "")

    def RunPlugin(self, request: Any, context: Any) -> Iterator[Any]:
        """Runs a policy pack or a component package, and forwards its output until the engine cancels the call."""
        program = str(Path(request.info.program_directory, request.info.entry_point or "."))
        is_policy = request.kind == "analyzer"
        words = [*POLICY_RUNNER, *request.args, program] if is_policy else [program, *request.args]
        command = [interpreter(request.info), "-u", *words]
        environment = dict(entry.split("=", 1) for entry in request.env)
        environment["PYTHONPATH"] = python_path(request.info)
        process = self._start(command, cwd=request.pwd, environment=environment, capture=True)
        context.add_callback(process.terminate)
        messages: SimpleQueue[Any] = SimpleQueue()

        def hand_on(stream: IO[bytes], message: Callable[[bytes], Any]) -> None:
            while chunk := os.read(stream.fileno(), 65536):
                messages.put(message(chunk))
            messages.put(None)

        as_output = lambda chunk: language_pb2.RunPluginResponse(stdout=chunk)  # noqa: E731
        as_error = lambda chunk: language_pb2.RunPluginResponse(stderr=chunk)  # noqa: E731
        for stream, message in ((process.stdout, as_output), (process.stderr, as_error)):
            threading.Thread(target=hand_on, args=(stream, message), daemon=True).start()
        for _ in range(2):
            yield from iter(messages.get, None)
        self._processes.discard(process)
        yield language_pb2.RunPluginResponse(exitcode=process.wait())

    def _start(
        self, command: list[str], *, cwd: str, environment: Mapping[str, str], capture: bool = False
    ) -> "subprocess.Popen[bytes]":
        pipe = subprocess.PIPE if capture else None
        process = subprocess.Popen(command, cwd=cwd, env={**os.environ, **environment}, stdout=pipe, stderr=pipe)
        self._processes.add(process)
        return process


def main() -> None:
    """Serves until the engine sends SIGINT or SIGTERM."""
    addresses = [word for word in sys.argv[1:] if not word.startswith("-")]
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=16))
    language_pb2_grpc.add_LanguageRuntimeServicer_to_server(LanguageHost(addresses[0] if addresses else ""), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    stop = threading.Event()
    for received in (signal.SIGINT, signal.SIGTERM):
        signal.signal(received, lambda *_: stop.set())
    stop.wait()
    server.stop(grace=None)


if __name__ == "__main__":
    main()
