"""The engine's protocol (pulumi.provider.ResourceProvider) over the table of kinds."""

import json
import os
import traceback
from collections.abc import Callable
from typing import Any, NoReturn
from urllib.parse import urlsplit

import boto3
import grpc
from botocore.exceptions import BotoCoreError, ClientError
from google.protobuf import any_pb2, empty_pb2
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc, status_pb2

from lab.aws.double.kind import Fields, Kind, fields_of
from lab.aws.double.kinds import FUNCTIONS, KINDS
from lab.aws.double.version import VERSION
from lab.aws.double.wire import UNKNOWN, Properties, at, automatic_name, read, with_value, write

NEVER_REACHED = ("127.", "10.", "localhost")
"""Where a lab's servers are. Nothing else is reached: the double must not touch an account."""
ENDPOINT_MISSING = (
    "this is the lab's provider double of pulumi-aws, and AWS_ENDPOINT_URL names no server of a lab: "
    'run `eval "$(python -m lab env --aws)"`'
)
NO_CREDENTIALS = "unable to validate AWS credentials. Details: No valid credential sources found."
"""The beginning of the real provider's message (pulumi/pulumi-aws, provider/resources.go)."""
NO_REGION = (
    "unable to validate AWS credentials because the region is not set. "
    "Set `aws:region`, `AWS_REGION`, or the region of the profile."
)


class Double(provider_pb2_grpc.ResourceProviderServicer):
    """Stands in the place of the provider of pulumi-aws."""

    def __init__(self) -> None:
        self._session: Any = None
        self._default_tags: dict[str, str] = {}

    def _api(self, service: str) -> Any:
        return self._session.client(service)

    # The provider

    def Handshake(self, request: Any, context: Any) -> Any:
        """Says what this provider can do."""
        return provider_pb2.ProviderHandshakeResponse()

    def GetPluginInfo(self, request: Any, context: Any) -> Any:
        """Says the version."""
        return plugin_pb2.PluginInfo(version=VERSION)

    def CheckConfig(self, request: Any, context: Any) -> Any:
        """Accepts the provider's arguments."""
        return provider_pb2.CheckResponse(inputs=request.news)

    def DiffConfig(self, request: Any, context: Any) -> Any:
        """Another region replaces the provider, and with it what it made."""
        old, new = read(request.old_inputs), read(request.news)
        replaced = ["region"] if old.get("region") != new.get("region") else []
        changed = old != new
        return provider_pb2.DiffResponse(changes=_changes(changed), diffs=replaced, replaces=replaced)

    def Configure(self, request: Any, context: Any) -> Any:
        """Takes region and default tags. Refuses without region or credentials, in previews too, as the real one."""
        given = read(request.args)
        region = given.get("region") or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        if not region:
            _abort(context, NO_REGION)
        endpoint = os.environ.get("AWS_ENDPOINT_URL", "")
        if not (urlsplit(endpoint).hostname or "").startswith(NEVER_REACHED):
            _abort(context, ENDPOINT_MISSING)
        self._session = boto3.session.Session(region_name=region)
        if self._session.get_credentials() is None:
            _abort(context, NO_CREDENTIALS)
        try:
            self._api("sts").get_caller_identity()
        except (BotoCoreError, ClientError) as fault:
            _abort(context, f"unable to validate AWS credentials. Details: {fault}")
        tags = given.get("defaultTags", {})
        # Nested arguments of a provider come as JSON.
        self._default_tags = (tags if isinstance(tags, dict) else _json(tags)).get("tags", {})
        return provider_pb2.ConfigureResponse(supportsPreview=True)

    def Cancel(self, request: Any, context: Any) -> Any:
        """Has nothing to end."""
        return empty_pb2.Empty()

    def Invoke(self, request: Any, context: Any) -> Any:
        """Calls a function."""
        if request.tok not in FUNCTIONS:
            _abort(context, f"the provider double has no function {request.tok}")
        answer = _tried(context, request.tok, lambda: FUNCTIONS[request.tok](self._api, read(request.args)))
        return provider_pb2.InvokeResponse(**{"return": write(answer)})

    # Resources

    def Check(self, request: Any, context: Any) -> Any:
        """Names what has no name. Refuses kinds and arguments that the double does not know."""
        token = _token(request.urn)
        if token not in KINDS:
            reason = f"the provider double has no resource {token}"
            return provider_pb2.CheckResponse(failures=[provider_pb2.CheckFailure(reason=reason)])
        fields, given, old = fields_of()[token], read(request.news), read(request.olds)
        failures = [
            provider_pb2.CheckFailure(property=name, reason=f"the provider double has no argument {name} of {token}")
            for name in sorted(given.keys() - fields.arguments)
        ]
        if fields.name and fields.name["argument"] not in given:
            argument, most = fields.name["argument"], int(fields.name["most"])
            made = automatic_name(_name(request.urn), request.urn, request.randomSeed, most)
            given[argument] = old.get(argument) or (made.lower() if argument == "bucket" else made)
        return provider_pb2.CheckResponse(inputs=write(given), failures=failures)

    def Diff(self, request: Any, context: Any) -> Any:
        """Says which arguments differ, and which of them replace the resource."""
        token = _token(request.urn)
        fields, old, new = fields_of()[token], read(request.old_inputs), read(request.news)
        changed, replacing = fields.changed(old, new), fields.replacing(old, new)
        if token.endswith(":Cluster") and "encryptionConfig" in old and "encryptionConfig" not in new:
            replacing.append("encryptionConfig")
        if replacing:
            changed = sorted({*changed, *(path.partition(".")[0] for path in replacing)})
        return provider_pb2.DiffResponse(changes=_changes(changed), diffs=changed, replaces=replacing)

    def Create(self, request: Any, context: Any) -> Any:
        """Creates a resource. In a preview: says which outputs are unknown."""
        token, given = _token(request.urn), read(request.properties)
        fields, kind = fields_of()[token], KINDS[token]
        if request.preview:
            return provider_pb2.CreateResponse(id="", properties=write(_unknown(given, fields.computed)))
        identity = _tried(context, token, lambda: kind.create(self._api, self._tagged(given, fields)))
        state = self._made(context, token, identity, given)
        return provider_pb2.CreateResponse(id=identity, properties=write(state))

    def _made(self, context: Any, token: str, identity: str, given: Properties) -> Properties:
        """Waits for what was created and returns its state. If that fails, the engine keeps the id, for `destroy`."""
        kind = KINDS[token]
        try:
            if ready := getattr(kind, "ready", None):
                ready(self._api, identity)
            return self._state(kind, identity, given)
        except (BotoCoreError, ClientError, RuntimeError) as fault:
            inputs = write(given)
            detail = plugin_error(identity, inputs, f"{token}: {fault}")
            context.set_trailing_metadata((("grpc-status-details-bin", detail),))
            _abort(context, "resource was created but its initialization failed", grpc.StatusCode.UNKNOWN)

    def _state(self, kind: Kind, identity: str, given: Properties) -> Properties:
        found = kind.read(self._api, identity, self._tagged(given, None))
        if found is None:
            raise RuntimeError(f"{identity} was made and is gone")
        tags = found.pop("tags", None)
        return {**given, **found, **({"tagsAll": tags, "tags": given.get("tags")} if tags is not None else {})}

    def _tagged(self, given: Properties, fields: Fields | None) -> Properties:
        """Returns arguments with the provider's default tags, if the kind has tags."""
        if fields is not None and "tags" not in fields.update:
            return given
        return {**given, "tags": {**self._default_tags, **given.get("tags", {})}}

    def Read(self, request: Any, context: Any) -> Any:
        """Reads a resource: its outputs, and the program's arguments as they are now."""
        token = _token(request.urn)
        kind, inputs = KINDS[token], read(request.inputs)
        state = {**read(request.properties), **inputs}
        found = _tried(context, token, lambda: kind.read(self._api, request.id, self._tagged(state, None)))
        if found is None:
            return provider_pb2.ReadResponse()
        tags = found.pop("tags", None)
        given = {name: _as_given(value, found.get(name, value)) for name, value in inputs.items()}
        if tags is not None:
            own = {key: value for key, value in tags.items() if self._default_tags.get(key) != value}
            given |= {"tags": own} if "tags" in inputs else {}
            found["tagsAll"] = tags
        outputs = {**state, **{name: _merged(value, found.get(name)) for name, value in given.items()}}
        outputs |= {name: value for name, value in found.items() if name not in given}
        return provider_pb2.ReadResponse(id=request.id, properties=write(outputs), inputs=write(given))

    def Update(self, request: Any, context: Any) -> Any:
        """Updates a resource in place."""
        token = _token(request.urn)
        kind, fields = KINDS[token], fields_of()[token]
        old, new = read(request.old_inputs), read(request.news)
        before = read(request.olds)
        if request.preview:
            unknown = _unknown({**before, **new}, fields.changing)
            return provider_pb2.UpdateResponse(properties=write(unknown))
        tagged = self._tagged(old, fields), self._tagged(new, fields)
        _tried(context, token, lambda: kind.update(self._api, request.id, *tagged))
        state = _tried(context, token, lambda: self._state(kind, request.id, new))
        return provider_pb2.UpdateResponse(properties=write(state))

    def Delete(self, request: Any, context: Any) -> Any:
        """Deletes a resource."""
        token, state = _token(request.urn), read(request.properties)
        _tried(context, token, lambda: KINDS[token].delete(self._api, request.id, state))
        return empty_pb2.Empty()


def plugin_error(identity: str, inputs: Any, reason: str) -> bytes:
    """Returns the detail by which the engine keeps a resource that was created and then failed."""
    detail = any_pb2.Any()
    detail.Pack(provider_pb2.ErrorResourceInitFailed(id=identity, properties=inputs, reasons=[reason], inputs=inputs))
    status = status_pb2.Status(code=grpc.StatusCode.UNKNOWN.value[0], message=reason, details=[detail])
    return bytes(status.SerializeToString())


def _changes(changed: object) -> Any:
    return provider_pb2.DiffResponse.DIFF_SOME if changed else provider_pb2.DiffResponse.DIFF_NONE


def _json(text: str) -> Properties:
    found: Properties = json.loads(text)
    return found


def _token(urn: str) -> str:
    """Returns the kind of a URN, without its parents' kinds."""
    return urn.split("::")[2].rpartition("$")[2]


def _name(urn: str) -> str:
    return urn.split("::", 3)[3]


def _unknown(given: Properties, paths: Any) -> Properties:
    """Returns properties with the computed outputs unknown. What the program gives stays."""
    made = given
    for path in paths:
        if at(given, path) is None or ("." not in path and path not in given):
            made = with_value(made, path, UNKNOWN)
    return made


def _as_given(given: Any, found: Any) -> Any:
    """Returns what was found with no more keys than the program gave, and in its order if only that differs."""
    if isinstance(given, dict) and isinstance(found, dict):
        return {key: _as_given(value, found.get(key, value)) for key, value in given.items()}
    if isinstance(given, list) and isinstance(found, list) and sorted(map(str, given)) == sorted(map(str, found)):
        return given
    return found


def _merged(given: Any, found: Any) -> Any:
    """Returns an argument with what AWS adds to it, such as the security group in a cluster's network."""
    return {**found, **given} if isinstance(given, dict) and isinstance(found, dict) else given


def _tried(context: Any, what: str, action: Callable[[], Any]) -> Any:
    """Runs an action. Its fault goes to the engine in one message."""
    try:
        return action()
    except (BotoCoreError, ClientError, RuntimeError, NotImplementedError) as fault:
        _abort(context, f"{what}: {fault}")
    except Exception:
        _abort(context, f"{what}: a fault of the provider double:\n{traceback.format_exc()}")


def _abort(context: Any, message: str, code: grpc.StatusCode = grpc.StatusCode.UNKNOWN) -> NoReturn:
    context.abort(code, message)
    raise AssertionError("abort raises")
