"""The state that all request handlers of a hub share."""

from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web

from lab.hub.faults import Faults
from lab.hub.request_log import PathLog, RequestLog
from lab.hub.signed_urls import SignedUrls
from lab.hub.stored.digests import Digests
from lab.hub.stored.repository import Repository
from lab.hub.stored.table import TokenEntry


@dataclass
class Hub:
    """One hub: repositories, tokens, faults and request log."""

    repositories: dict[str, Repository]
    tokens: dict[str, TokenEntry]
    digests: Digests
    signed_urls: SignedUrls
    wheels: Path | None = None
    storage_port: int = 0
    """The port of the storage for files in LFS. 0: the hub does not listen yet."""
    faults: Faults = field(default_factory=Faults)
    log: RequestLog = field(default_factory=RequestLog)


HUB = web.AppKey("hub", Hub)
PATH_LOG = web.RequestKey("path_log", PathLog)
