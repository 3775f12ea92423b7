"""The model hub: the file list of a repository at one commit, and the address of each file.

`huggingface_hub` handles the hub's protocol, tokens and errors; `stager.ranges` reads the bytes.
Environment: `HF_TOKEN` and `HF_ENDPOINT`, as for the hub's own tools. Refuses a repository that is gated for this
token, missing or private, and a revision that does not exist; errors say what to do.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NoReturn, TypeVar
from urllib.parse import quote

import httpx2
from huggingface_hub import HfApi, get_hf_file_metadata, get_token, hf_hub_url
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from stager.environment import hub_endpoint
from stager.errors import SourceRefusal, SourceTrouble, StagerError
from stager.listing import FULL_COMMIT, Listing, RemoteFile
from stager.ranges import TRANSIENT, Address, server_wait, without_secrets
from stager.retry import RetryPolicy, ask_with_retries
from stager.stopping import pause_until, unless_stopped

ANSWER_SECONDS = 30
LISTING_SECONDS = 120
"""The timeout for the whole list of files."""

Answer = TypeVar("Answer")


def listing_from_hub(
    repository: str,
    revision: str,
    *,
    retries: RetryPolicy,
    say: Callable[[str], None],
    stop_event: threading.Event,
) -> Listing:
    """All files of `repository` at `revision`; retries transient errors of the hub."""
    hub = Hub()

    def ask() -> Listing:
        try:
            return unless_stopped(stop_event, lambda: hub.listing(repository, revision), LISTING_SECONDS)
        except TimeoutError as error:
            raise SourceTrouble(f"{hub.name}: {error}") from None

    return ask_with_retries(ask, retries=retries, say=say, pause=pause_until(stop_event))


class Hub:
    """The hub that `HF_ENDPOINT` names."""

    def __init__(self) -> None:
        self.endpoint = hub_endpoint()
        self.name = f"hub {without_secrets(self.endpoint)}"
        self._api = HfApi(endpoint=self.endpoint, library_name="heavylift-stager")
        self._token = get_token()

    def listing(self, repository: str, revision: str) -> Listing:
        """All files of `repository` at `revision`, with the commit of the revision.

        Raises `SourceTrouble` for a transient error, else `StagerError` with what to do.
        """
        info = self._ask(
            repository,
            revision,
            lambda: self._api.model_info(repository, revision=revision, files_metadata=True, timeout=ANSWER_SECONDS),
        )
        if info.gated and not get_token():
            raise StagerError(self._gated(repository))
        if not info.sha or (FULL_COMMIT.fullmatch(revision) and info.sha != revision):
            raise StagerError(f"{self.name} answers commit {info.sha} for {repository} at {revision}")
        files = tuple(
            RemoteFile(
                path=str(sibling.rfilename),
                size=sibling.lfs.size if sibling.lfs else sibling.size,  # type: ignore[arg-type]  # judged by `select`
                sha256=sibling.lfs.sha256 if sibling.lfs else None,
                blob_id=sibling.blob_id,
            )
            for sibling in info.siblings or ()
        )
        listing = Listing(repository, revision, info.sha, files)
        if info.gated and files:
            self._ask(repository, revision, lambda: self._metadata(listing, files[0]))
        return listing

    def cache_address(self, listing: Listing, file: RemoteFile) -> Address:
        """The address that the hub redirects to for a file outside of large-file storage.

        Not documented, but seen: https://github.com/huggingface/swift-transformers/pull/209
        """
        place = quote(f"{listing.repository}/{listing.commit}/{file.path}")
        return self._with_token(f"{self.endpoint}/api/resolve-cache/models/{place}")

    def permanent_address(self, listing: Listing, file: RemoteFile) -> Address:
        """The address that redirects to `file`."""
        return self._with_token(self._url(listing, file))

    def locate(self, listing: Listing, file: RemoteFile) -> Address:
        """The address of `file` for the next minutes; only the hub gets the token.

        Raises `SourceRefusal` with what to do if the hub refuses the file.
        """
        try:
            metadata = self._ask(listing.repository, listing.commit, lambda: self._metadata(listing, file))
        except StagerError as error:
            raise SourceRefusal(f"{file.path}: {error}") from None
        if metadata.location.startswith(self.endpoint + "/"):
            return self._with_token(metadata.location)
        return Address(metadata.location)

    def _with_token(self, url: str) -> Address:
        return Address(url, {"Authorization": f"Bearer {self._token}"} if self._token else {})

    def _url(self, listing: Listing, file: RemoteFile) -> str:
        return hf_hub_url(listing.repository, file.path, revision=listing.commit, endpoint=self.endpoint)

    def _metadata(self, listing: Listing, file: RemoteFile):  # type: ignore[no-untyped-def]
        url = self._url(listing, file)
        return unless_stopped(
            threading.Event(),
            lambda: get_hf_file_metadata(url, timeout=ANSWER_SECONDS, library_name="heavylift-stager"),
            2 * ANSWER_SECONDS,
        )

    def _ask(self, repository: str, revision: str, question: Callable[[], Answer]) -> Answer:
        try:
            return question()
        except GatedRepoError:
            raise StagerError(self._gated(repository)) from None
        except RevisionNotFoundError:
            raise StagerError(f"{self.name}: {repository} has no revision {revision!r}") from None
        except RepositoryNotFoundError:
            raise StagerError(
                f"{self.name}: no repository {repository!r}, or it is private and "
                f"{'this token may not read it' if get_token() else 'HF_TOKEN is not set'}"
            ) from None
        except HFValidationError as error:
            raise StagerError(f"repository {repository!r}: {error}") from None
        except OfflineModeIsEnabled:
            raise StagerError(
                "HF_HUB_OFFLINE is set, but the stager needs the hub; unset it or list a mirror"
            ) from None
        except HfHubHTTPError as error:
            self._raise_for_answer(error)
        except (httpx2.HTTPError, OSError) as error:
            raise SourceTrouble(f"{self.name}: {type(error).__name__}: {error}") from None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise SourceTrouble(f"{self.name}: the answer is not a model hub's (a proxy's or login page?)") from None

    def _raise_for_answer(self, error: HfHubHTTPError) -> NoReturn:
        status = error.response.status_code
        text = f"{self.name}: HTTP {status}"
        if status in TRANSIENT:
            raise SourceTrouble(text, server_wait(error.response.headers)) from None
        if status == 401:
            raise StagerError(f"{text}: HF_TOKEN is not valid there, or is missing") from None
        raise StagerError(f"{text}{f': {error.server_message}' if error.server_message else ''}") from None

    def _gated(self, repository: str) -> str:
        page = f"{without_secrets(self.endpoint)}/{repository}"
        if get_token():
            return (
                f"{repository} is gated and this token has no access; accept its terms at {page} as the token's owner"
            )
        return f"{repository} is gated and HF_TOKEN is not set; accept its terms at {page} and give a token of yours"
