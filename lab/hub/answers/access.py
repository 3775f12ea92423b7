"""Authentication and authorisation: bearer tokens, gated repositories, missing repositories."""

from aiohttp import web

from lab.hub.answers import refusals
from lab.hub.faults import Move
from lab.hub.hub import HUB
from lab.hub.stored.repository import Repository, Revision
from lab.hub.stored.table import TokenEntry


def token(request: web.Request) -> TokenEntry | None:
    """Returns the token of a request. None: no token.

    Raises:
        Refusal: the token is unknown.
    """
    said = request.headers.get("Authorization")
    if said is None:
        return None
    known = request.app[HUB].tokens.get(said.removeprefix("Bearer "))
    if known is None:
        raise refusals.invalid_token()
    return known


def repository(request: web.Request) -> Repository:
    """Returns the repository in the path. The list of files of a gated repository is public, as on the real hub.

    Raises:
        Refusal: there is none.
    """
    authenticated = token(request) is not None
    found = request.app[HUB].repositories.get(request.match_info["repository"])
    if found is None:
        raise refusals.repository_not_found(authenticated=authenticated)
    return found


def revision(request: web.Request, stored: Repository) -> Revision:
    """Returns the revision in the path, or else the branch `main`.

    Raises:
        Refusal: there is none.
    """
    name = request.match_info.get("revision", "main")
    if name in stored.branches and (moved := request.app[HUB].faults.take(Move, request)):
        name = moved.commit
    found = stored.revision(name)
    if found is None:
        raise refusals.revision_not_found(name)
    return found


def may_read(request: web.Request, stored: Repository) -> None:
    """Checks that the request may read the files of a repository.

    Raises:
        Refusal: the repository is gated and the token does not list it.
    """
    asking = token(request)
    if stored.gated and (asking is None or stored.name not in asking.gated):
        raise refusals.gated(stored.name, authenticated=asking is not None)
