"""The types of values in a stack file, and the base of its sections."""

from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, Strict

from config.matching import Checking, Matching
from stager.listing import REPOSITORY
from stager.source_name import SOURCES, is_source


def _is_plain_source(name: str) -> bool:
    """Whether a text names a source without relative parts, which are plain names in S3 and nothing in other places."""
    return is_source(name) and not {".", ".."} & set(name.split("/"))


Count = Annotated[int, Strict(), Field(gt=0)]
"""A whole number above 0. Strict: strings are not coerced."""

Text = Annotated[str, Matching(r"\S(.*\S)?", "text that neither is empty nor begins or ends with a space")]
DnsLabel = Annotated[
    str, Matching(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", "at most 63 lower-case letters, digits and inner hyphens")
]
NodeName = Annotated[
    str, Matching(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", "the node's name as `kubectl get nodes` prints it")
]
ResourceName = Annotated[
    str,
    Matching(
        r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", "a name of lower-case letters, digits, inner hyphens and inner dots"
    ),
]
AbsolutePath = Annotated[
    str, Matching(r"(/(?!\.{1,2}(/|$))[\w.@+-]+)+", "an absolute path such as /mnt/nvme, without `..`")
]
Repository = Annotated[str, Matching(REPOSITORY.pattern, "owner/name, such as moonshotai/Kimi-K2.5")]
BucketName = Annotated[
    str, Matching(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", "the name of an S3 bucket, without s3:// and prefix")
]
Device = Annotated[str, Matching(r"[\w.-]+", "a device's name without spaces, such as mlx5_0 or eth0")]
Attachment = Annotated[
    str,
    Matching(
        r"([a-z0-9-]+/)?[a-z0-9]([a-z0-9.-]*[a-z0-9])?", "a NetworkAttachmentDefinition, as name or namespace/name"
    ),
]
Source = Annotated[str, Checking(_is_plain_source, f"{SOURCES}, without `.` or `..` as a part of the path")]
ListenAddress = Annotated[str, Matching(r"0\.0\.0\.0|::", "0.0.0.0, or :: in a cluster with IPv6")]
DriverVersion = Annotated[str, Matching(r"\d+(\.\d+){0,2}", "a driver version in quotes, such as '580.95.05' or '580'")]


class Section(BaseModel):
    """One object of the stack file: frozen; unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, protected_namespaces=())


AnySection = TypeVar("AnySection", bound=Section)
