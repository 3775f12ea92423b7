"""An engine that records what a program registers, for tests without Pulumi's engine, a cluster or a network.

It extends the SDK's mock monitor. The mock monitor is not a public interface, so only this module uses it. A recording
has names, inputs, parents, dependencies and options as the program sets them, without what the real engine adds
(inherited retention, autonaming, defaults of the server).
"""

import asyncio
import contextlib
import contextvars
import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pulumi
from google.protobuf import empty_pb2
from google.protobuf.json_format import MessageToDict
from pulumi.output import Unknown
from pulumi.runtime import mocks, rpc, settings
from pulumi.runtime.stack import run_in_stack

AUTONAME = "{name}-0123abcd"
"""The generated name of an object without a name."""


@dataclass(frozen=True)
class Registration:
    """One resource as the program registered it."""

    urn: str
    type: str
    name: str
    parent: str
    """Name of the parent. Empty: the stack."""
    inputs: Mapping[str, Any]
    secrets: frozenset[str]
    """Every text that was registered as a secret, at any place in the inputs."""
    depends_on: frozenset[str]
    """URNs."""
    options: Mapping[str, Any]
    """The set options, with the names of the engine's protocol."""


@dataclass
class Recording:
    """The registrations of one run of a program in order, its outputs and its messages."""

    registrations: list[Registration] = field(default_factory=list)
    outputs: dict[str, Any] = field(default_factory=dict)
    """Registered outputs of components and of the stack, by URN."""
    infos: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    state: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Type and outputs of each resource of the stack's last state, by URN, for programs that ask the engine."""

    def of_type(self, kind: str) -> list[Registration]:
        """Returns the registrations with a type that ends with `kind`, such as "batch/v1:Job" or ":WeightStage"."""
        return [registration for registration in self.registrations if registration.type.endswith(kind)]

    def only(self, kind: str) -> Registration:
        """Returns the only registration of a kind."""
        (registration,) = self.of_type(kind)
        return registration

    def outputs_of(self, kind: str) -> list[dict[str, Any]]:
        """Returns the registered outputs of all components of a kind, such as "WeightStage", or of the "Stack"."""
        return [outputs for urn, outputs in self.outputs.items() if urn.split("::")[2].endswith(f":{kind}")]


_LOOK_UPS: dict[str, dict[str, Any]] = {
    "aws:eks/getCluster:getCluster": {
        "id": "theirs",
        "arn": "arn:aws:eks:::theirs",
        "endpoint": "https://theirs.example",
        "certificateAuthorities": [{"data": "Q0E="}],
        "vpcConfig": {
            "clusterSecurityGroupId": "sg-theirs",
            "vpcId": "vpc-theirs",
            "subnetIds": ["subnet-b", "subnet-a"],
        },
    },
    "aws:ec2/getSubnets:getSubnets": {"id": "us-east-2", "ids": ["subnet-b", "subnet-a"]},
}
"""What AWS answers to look-ups of a cluster that exists."""


def _of_aws(kind: str, name: str) -> dict[str, Any]:
    """Returns what AWS adds to a resource, as far as programs read it."""
    added: dict[str, Any] = {"name": name, "bucket": name, "arn": f"arn:aws:service:::{name}", "latestVersion": 1}
    if kind == "aws:eks/cluster:Cluster":
        added |= {"endpoint": "https://eks.example", "certificateAuthority": {"data": "Q0E="}}
        added["vpcConfig"] = {"clusterSecurityGroupId": "sg-cluster"}
    if kind == "aws:eks/nodeGroup:NodeGroup":
        added |= {"nodeGroupName": name, "resources": [{"autoscalingGroups": [{"name": f"eks-{name}"}]}]}
    return added


class _Answers(mocks.Mocks):
    """Returns an object's inputs as its state, with a generated name if it has none."""

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str | None, dict[Any, Any]]:
        state = copy.deepcopy(args.inputs)
        if args.typ.startswith("kubernetes:"):
            metadata = state.setdefault("metadata", {})
            metadata.setdefault("name", AUTONAME.format(name=args.name))
        if args.typ.startswith("aws:"):
            state |= _of_aws(args.typ, args.name)
        return f"{args.name}-id", state

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def call(self, args: mocks.MockCallArgs) -> tuple[dict[Any, Any], list[tuple[str, str]] | None]:
        if args.token == "pulumi:pulumi:readStackResourceOutputs":
            return {"name": args.args["stackName"], "outputs": dict(self._recording.state)}, []
        if args.token in _LOOK_UPS:
            return {**args.args, **_LOOK_UPS[args.token]}, []
        raise AssertionError(f"the program asks the provider ({args.token}), which a preview cannot rely on")


@contextlib.contextmanager
def _thread_loop_closed() -> Iterator[None]:
    """Closes the event loop that the mock monitor creates and leaves open in each worker thread."""
    yield
    with contextlib.suppress(RuntimeError):
        loop = asyncio.get_event_loop()
        if not loop.is_running():
            loop.close()
            asyncio.set_event_loop(None)


class _RecordingMonitor(mocks.MockMonitor):
    def __init__(self, recording: Recording) -> None:
        super().__init__(_Answers(recording))
        self._recording = recording

    def RegisterResource(self, request: Any) -> Any:
        with _thread_loop_closed():
            response = super().RegisterResource(request)  # type: ignore[no-untyped-call]
        if request.type != "pulumi:pulumi:Stack":
            self._recording.registrations.append(_registration(request, response.urn))
        return response

    def Invoke(self, request: Any) -> Any:
        with _thread_loop_closed():
            return super().Invoke(request)  # type: ignore[no-untyped-call]

    def RegisterResourceOutputs(self, request: Any) -> Any:
        self._recording.outputs[request.urn] = _unwrapped(rpc.deserialize_properties(request.outputs))
        return super().RegisterResourceOutputs(request)  # type: ignore[no-untyped-call]


class _RecordingEngine(mocks.MockEngine):
    def __init__(self, recording: Recording) -> None:
        super().__init__(None)
        self._recording = recording

    def Log(self, request: Any) -> None:
        kinds = {1: self._recording.infos, 2: self._recording.warnings}
        kinds.get(request.severity, []).append(request.message)


_OPTIONS = (
    "aliases",
    "customTimeouts",
    "deleteBeforeReplace",
    "ignoreChanges",
    "importId",
    "protect",
    "provider",
    "replaceOnChanges",
    "retainOnDelete",
)


def _registration(request: Any, urn: str) -> Registration:
    raw = MessageToDict(request)
    return Registration(
        urn=urn,
        type=request.type,
        name=request.name,
        parent="" if "::pulumi:pulumi:Stack::" in request.parent else request.parent.rsplit("::", 1)[-1],
        inputs=_unwrapped(rpc.deserialize_properties(request.object, keep_unknowns=True)),
        secrets=frozenset(_secret_texts(raw.get("object", {}))),
        depends_on=frozenset(request.dependencies),
        options={name: raw[name] for name in _OPTIONS if name in raw},
    )


def _unwrapped(value: Any) -> Any:
    """Returns plain values: secrets as their content, unknown values as a text."""
    if rpc.is_rpc_secret(value):
        return _unwrapped(rpc.unwrap_rpc_secret(value))
    if isinstance(value, Unknown):
        return "(known after apply)"
    if isinstance(value, dict):
        return {key: _unwrapped(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_unwrapped(inner) for inner in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)  # the protocol has only one number type
    return value


def _secret_texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        if value.get(rpc._special_sig_key) == rpc._special_secret_sig:
            return _texts(value.get("value"))
        return [text for inner in value.values() for text in _secret_texts(inner)]
    if isinstance(value, list):
        return [text for inner in value for text in _secret_texts(inner)]
    return []


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for inner in value.values() for text in _texts(inner)]
    if isinstance(value, list):
        return [text for inner in value for text in _texts(inner)]
    return [value] if isinstance(value, str) else []


def record(
    program: Callable[[], object],
    *,
    preview: bool = False,
    stack: str = "unit",
    config: Mapping[str, str] | None = None,
    secret_keys: Sequence[str] = (),
    into: Recording | None = None,
) -> Recording:
    """Runs a program and returns what it registers. If the program may raise, pass the recording as `into`.

    `config` has full keys ("heavylift:model") and text values, objects as JSON, as from the engine.
    """
    recording = into or Recording()
    contextvars.copy_context().run(_run, program, recording, preview, stack, dict(config or {}), list(secret_keys))
    return recording


def _run(
    program: Callable[[], object],
    recording: Recording,
    preview: bool,
    stack: str,
    config: dict[str, str],
    secret_keys: list[str],
) -> None:
    monitor = _RecordingMonitor(recording)
    features = set(monitor.GetDeploymentInfo(empty_pb2.Empty()).supportedFeatures)  # type: ignore[no-untyped-call]
    settings.ROOT.set(None)
    settings.configure(
        mocks.MockSettings(  # type: ignore[no-untyped-call]
            monitor=monitor,
            monitor_features=features,
            engine=_RecordingEngine(recording),
            project="heavylift",
            stack=stack,
            dry_run=preview,
            organization=None,
            callbacks=None,
        )
    )
    pulumi.runtime.set_all_config(config, secret_keys)
    try:
        asyncio.run(run_in_stack(lambda: _called(program)))
    finally:
        # Outputs of a failed program belong to a closed loop. The next program must not wait for them.
        settings.SETTINGS.outputs.clear()
        settings.SETTINGS.rpc_manager.clear()


def _called(program: Callable[[], object]) -> None:
    program()
