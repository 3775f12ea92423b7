"""An engine that calls the provider double as Pulumi's does, without processes."""

from dataclasses import dataclass
from typing import Any, NoReturn

import grpc
from pulumi.runtime.proto import provider_pb2

from lab.aws.double.provider import Double
from lab.aws.double.wire import Properties, read, write


class RefusedError(Exception):
    """The provider ended a call with an error."""


class Context:
    """What gRPC gives a call."""

    def abort(self, code: grpc.StatusCode, message: str) -> NoReturn:
        """Ends the call."""
        raise RefusedError(message)

    def set_trailing_metadata(self, metadata: Any) -> None:
        """Takes the details of an error."""


@dataclass
class Resource:
    """One resource in the state."""

    urn: str
    identity: str
    inputs: Properties
    outputs: Properties


class FakeEngine:
    """Makes, changes and removes resources by the double."""

    def __init__(self, region: str = "us-east-1", tags: dict[str, str] | None = None) -> None:
        self._double, self._context = Double(), Context()
        arguments = {"region": region, "defaultTags": {"tags": tags or {}}}
        self._double.Configure(provider_pb2.ConfigureRequest(args=write(arguments)), self._context)

    def check(self, token: str, name: str, given: Properties, old: Properties | None = None) -> Properties:
        """Returns the checked arguments."""
        request = provider_pb2.CheckRequest(
            urn=f"urn:pulumi:test::heavylift::{token}::{name}", news=write(given), olds=write(old or {})
        )
        answer = self._double.Check(request, self._context)
        if answer.failures:
            raise RefusedError("; ".join(failure.reason for failure in answer.failures))
        return read(answer.inputs)

    def create(self, token: str, name: str, given: Properties) -> Resource:
        """Creates a resource."""
        urn, inputs = f"urn:pulumi:test::heavylift::{token}::{name}", self.check(token, name, given)
        made = self._double.Create(provider_pb2.CreateRequest(urn=urn, properties=write(inputs)), self._context)
        return Resource(urn, made.id, inputs, read(made.properties))

    def preview(self, token: str, given: Properties) -> Properties:
        """Returns the outputs of a preview that creates."""
        request = provider_pb2.CreateRequest(
            urn=f"urn:pulumi:test::heavylift::{token}::x", properties=write(given), preview=True
        )
        return read(self._double.Create(request, self._context).properties)

    def diff(self, resource: Resource, given: Properties) -> tuple[list[str], list[str]]:
        """Returns what differs, and what of it replaces the resource."""
        request = provider_pb2.DiffRequest(
            urn=resource.urn, id=resource.identity, old_inputs=write(resource.inputs), news=write(given)
        )
        answer = self._double.Diff(request, self._context)
        return list(answer.diffs), list(answer.replaces)

    def update(self, resource: Resource, given: Properties) -> Resource:
        """Updates a resource."""
        request = provider_pb2.UpdateRequest(
            urn=resource.urn,
            id=resource.identity,
            olds=write(resource.outputs),
            old_inputs=write(resource.inputs),
            news=write(given),
        )
        answer = self._double.Update(request, self._context)
        return Resource(resource.urn, resource.identity, given, read(answer.properties))

    def read(self, resource: Resource) -> Resource | None:
        """Reads a resource. None: it is gone."""
        request = provider_pb2.ReadRequest(
            urn=resource.urn,
            id=resource.identity,
            properties=write(resource.outputs),
            inputs=write(resource.inputs),
        )
        answer = self._double.Read(request, self._context)
        if not answer.id:
            return None
        return Resource(resource.urn, answer.id, read(answer.inputs), read(answer.properties))

    def delete(self, resource: Resource) -> None:
        """Deletes a resource."""
        request = provider_pb2.DeleteRequest(urn=resource.urn, id=resource.identity, properties=write(resource.outputs))
        self._double.Delete(request, self._context)

    def invoke(self, token: str, given: Properties) -> Properties:
        """Calls a function."""
        answer = self._double.Invoke(provider_pb2.InvokeRequest(tok=token, args=write(given)), self._context)
        return read(getattr(answer, "return"))
