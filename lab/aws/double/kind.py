"""Kinds of resources: what `fields.toml` says of each, and the calls that create, read, update and delete one."""

import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from botocore.exceptions import ClientError

from lab.aws.double.wire import Properties, at

TABLE = Path(__file__).parent / "fields.toml"
RETRIED = ("DependencyViolation", "InvalidIPAddress.InUse", "DeleteConflict", "ResourceInUseException")
"""Refusals to delete that pass: the real provider tries again too (terraform-provider-aws: ec2/vpc_.go,
ec2/vpc_internet_gateway.go, ec2/vpc_subnet.go)."""
RETRY_SECONDS = 60.0
PAUSE_SECONDS = 0.2

Api = Callable[[str], Any]
"""boto3's client of a service, by the service's name."""


class Kind(Protocol):
    """The calls of one kind. `tags` in arguments are the resource's and the provider's."""

    def create(self, api: Api, given: Properties) -> str:
        """Creates a resource and returns its id."""

    def read(self, api: Api, identity: str, state: Properties) -> Properties | None:
        """Returns what AWS says of a resource: outputs, and arguments as they are now. None: it is gone."""

    def update(self, api: Api, identity: str, old: Properties, new: Properties) -> None:
        """Changes a resource in place."""

    def delete(self, api: Api, identity: str, state: Properties) -> None:
        """Deletes a resource. Does nothing if it is gone."""


class Fields:
    """What `fields.toml` says of a kind."""

    def __init__(self, entry: Mapping[str, Any]) -> None:
        self.replace: Sequence[str] = entry.get("replace", ())
        self.update: Sequence[str] = entry.get("update", ())
        self.computed: Sequence[str] = entry.get("computed", ())
        self.changing: Sequence[str] = entry.get("changing", ())
        self.name: Mapping[str, Any] | None = entry.get("name")
        self.source: str = entry["source"]

    @property
    def arguments(self) -> set[str]:
        """The names of all arguments."""
        return {path.partition(".")[0] for path in (*self.replace, *self.update)}

    def changed(self, old: Properties, new: Properties) -> list[str]:
        """Returns the arguments that differ."""
        return sorted(name for name in {*old, *new} & self.arguments if old.get(name) != new.get(name))

    def replacing(self, old: Properties, new: Properties) -> list[str]:
        """Returns the arguments, or parts of them, whose change replaces the resource."""
        return sorted(path for path in self.replace if at(old, path) != at(new, path))


@cache
def fields_of() -> dict[str, Fields]:
    """Returns the fields of all kinds, by the kind's type."""
    return {token: Fields(entry) for token, entry in tomllib.loads(TABLE.read_text()).items()}


def tag_list(given: Properties) -> list[dict[str, str]]:
    """Returns tags as most services take them."""
    return [{"Key": key, "Value": value} for key, value in sorted(given.get("tags", {}).items())]


def tag_map(tags: Sequence[Mapping[str, str]] | None) -> dict[str, str]:
    """Returns tags as pulumi-aws has them. AWS' own are left out."""
    return {each["Key"]: each["Value"] for each in tags or () if not each["Key"].startswith("aws:")}


def code_of(fault: ClientError) -> str:
    """Returns the code of an error."""
    return str(fault.response["Error"]["Code"])


def gone(fault: ClientError) -> bool:
    """Whether the error says that there is no such resource."""
    code = code_of(fault)
    return code == "404" or "NotFound" in code or code.startswith("NoSuch") or code.endswith(".Unknown")


def found(call: Callable[..., Any], **parameters: Any) -> Any:
    """Calls the API. None: there is no such resource."""
    try:
        return call(**parameters)
    except ClientError as fault:
        if gone(fault):
            return None
        raise


def delete(call: Callable[..., Any], **parameters: Any) -> None:
    """Deletes. Tries again while something else uses the resource, as the real provider does."""
    deadline = time.monotonic() + RETRY_SECONDS
    while True:
        try:
            call(**parameters)
        except ClientError as fault:
            if gone(fault):
                return
            if code_of(fault) not in RETRIED or time.monotonic() > deadline:
                raise
            time.sleep(PAUSE_SECONDS)
        else:
            return
