"""`heavylift:network` and `heavylift:expose`: who reaches the server, and what its pods may reach."""

from collections.abc import Mapping, Sequence
from ipaddress import ip_network
from typing import Annotated

from pydantic import ConfigDict, Field, StrictBool, model_validator

from config.matching import Checking, Matching
from config.stack.sections.fields import DnsLabel, Section, Text


def _is_range(text: str) -> bool:
    try:
        ip_network(text)
    except ValueError:
        return False
    return "/" in text


AddressRange = Annotated[
    str, Checking(_is_range, "a range of addresses whose host part is 0, such as 10.0.0.0/16 or fd00::/64")
]


class Caller(Section):
    """Clients that may call the server: pods, or a range of addresses. Pods and namespace narrow each other."""

    namespace: DnsLabel | None = None
    """Namespace of the pods. Unset: the stack's own, if `pods` is set."""
    pods: Mapping[str, Text] = {}
    """Labels of the pods. Unset: every pod of the namespace."""
    cidr: AddressRange | None = None
    """Addresses outside the cluster, such as `10.0.0.0/16`. Most network plugins match no pod by its address."""

    @model_validator(mode="after")
    def _is_one_kind(self) -> "Caller":
        if (self.cidr is None) == (self.namespace is None and not self.pods):
            raise ValueError("expected either cidr, or namespace and pods, or one of these two")
        return self


class Network(Section):
    """Who may call the server, and what its pods may reach. The ranks of a server reach one another only, and no pod
    reaches the Jobs: the stack makes NetworkPolicies, which a network plugin of the cluster must enforce."""

    model_config = ConfigDict(populate_by_name=True)

    callers: Sequence[Caller] | None = Field(default=None, alias="from")
    """Clients that may call the server, besides the API server, through which `pulumi up` requests the first token.
    `[]`: none. Unset: every client that has a route to the pods. Components call this key `callers`."""
    media: StrictBool = False
    """Let the server connect to any address, for images and videos that requests name by URL. Unset: it reaches its
    own ranks and DNS only, and takes them as data URLs."""


GatewayName = Annotated[
    str,
    Matching(
        r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?/[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?",
        "namespace/name of a Gateway, such as infra/public",
    ),
]
Hostname = Annotated[
    str,
    Matching(
        r"(?=.{1,253}$)(\*\.)?[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*",
        "a host name in lower case, such as kimi.example.com or *.example.com",
    ),
]
ExposedPath = Annotated[
    str,
    Matching(
        r"(/(?!\.{1,2}(/|$))[\w.~-]+)+(/\*)?",
        "a path such as /v1/models, or with /* at its end one with all below it, without `..`",
    ),
]

MODEL_PATHS = (
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/embeddings",
    "/v1/messages",
    "/v1/models",
    "/v1/responses",
)
"""Paths by which clients ask a model, in vLLM and in llama.cpp. All others stay closed."""


class Expose(Section):
    """What of the API clients outside the cluster reach: an HTTPRoute on a Gateway that is there, to these paths only.
    The Gateway terminates TLS. Inside the cluster, the Service stays as it is."""

    gateway: GatewayName
    """The Gateway, as `<namespace>/<name>`. It must admit routes of the stack's namespace."""
    hostname: Hostname
    """Host name that clients use. A listener of the Gateway must have it, or none."""
    paths: Annotated[Sequence[ExposedPath], Field(min_length=1, max_length=64)] = MODEL_PATHS
    """Paths that clients reach: each exactly, or with `/*` at its end with all paths below it. Unset: those of chat and
    text completions, responses, messages, embeddings and the list of models."""
