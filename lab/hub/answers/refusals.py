"""The hub's error responses: status, `X-Error-Code` and the message that clients show.

The codes are those that `huggingface_hub.utils.hf_raise_for_status` (2.4) distinguishes. The messages are those of the
real hub.
"""


class Refusal(Exception):
    """An error response."""

    def __init__(self, status: int, message: str, code: str | None = None, commit: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.commit = commit

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the response."""
        said = {"X-Error-Message": self.message, "X-Error-Code": self.code, "X-Repo-Commit": self.commit}
        return {name: value for name, value in said.items() if value is not None}


def invalid_token() -> Refusal:
    """The token is unknown."""
    return Refusal(401, "Invalid credentials in Authorization header")


def no_user() -> Refusal:
    """The request needs a token and has none."""
    return Refusal(401, "Invalid username or password.")


def repository_not_found(*, authenticated: bool) -> Refusal:
    """The repository does not exist. Without a token, the response is the same for a private one."""
    if authenticated:
        return Refusal(404, "Repository not found", "RepoNotFound")
    return Refusal(401, "Invalid username or password.", "RepoNotFound")


def gated(name: str, *, authenticated: bool) -> Refusal:
    """The repository is gated, and the request has no token that may read it."""
    if authenticated:
        words = f"and you are not in the authorized list. Visit https://huggingface.co/{name} to ask for access."
        return Refusal(403, f"Access to model {name} is restricted {words}", "GatedRepo")
    words = "You must have access to it and be authenticated to access it. Please log in."
    return Refusal(401, f"Access to model {name} is restricted. {words}", "GatedRepo")


def revision_not_found(revision: str) -> Refusal:
    """The branch, tag or commit does not exist."""
    return Refusal(404, f"Invalid rev id: {revision}", "RevisionNotFound")


def entry_not_found(commit: str) -> Refusal:
    """The file or folder does not exist at this commit."""
    return Refusal(404, "Entry not found", "EntryNotFound", commit)
