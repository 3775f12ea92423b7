"""What all handlers of one hub share."""

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
    """One hub: what it serves, to whom, and how it misbehaves."""

    repositories: dict[str, Repository]
    tokens: dict[str, TokenEntry]
    digests: Digests
    signed_urls: SignedUrls
    wheels: Path | None = None
    storage_port: int = 0
    """Where the files in LFS are served; known once the hub listens."""
    faults: Faults = field(default_factory=Faults)
    log: RequestLog = field(default_factory=RequestLog)


HUB = web.AppKey("hub", Hub)
PATH_LOG = web.RequestKey("path_log", PathLog)
