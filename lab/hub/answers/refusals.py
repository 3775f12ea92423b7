"""What the hub answers when it will not serve: status, `X-Error-Code` and the words that clients show to people.

The codes are those that `huggingface_hub.utils.hf_raise_for_status` (2.4) tells apart; the messages are those of the
hub as its clients print them.
"""


class Refusal(Exception):
    """An answer other than the one asked for."""

    def __init__(self, status: int, message: str, code: str | None = None, commit: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.commit = commit

    @property
    def headers(self) -> dict[str, str]:
        """The headers that carry the refusal to the client."""
        said = {"X-Error-Message": self.message, "X-Error-Code": self.code, "X-Repo-Commit": self.commit}
        return {name: value for name, value in said.items() if value is not None}


def invalid_token() -> Refusal:
    """A token that the hub does not know."""
    return Refusal(401, "Invalid credentials in Authorization header")


def no_user() -> Refusal:
    """No token where one is needed."""
    return Refusal(401, "Invalid username or password.")


def repository_not_found(*, authenticated: bool) -> Refusal:
    """No such repository; without a token the hub does not say whether it is missing or private."""
    if authenticated:
        return Refusal(404, "Repository not found", "RepoNotFound")
    return Refusal(401, "Invalid username or password.", "RepoNotFound")


def gated(name: str, *, authenticated: bool, commit: str | None = None) -> Refusal:
    """A gated repository and a token that may not read it, or none."""
    if authenticated:
        words = f"and you are not in the authorized list. Visit https://huggingface.co/{name} to ask for access."
        return Refusal(403, f"Access to model {name} is restricted {words}", "GatedRepo", commit)
    words = "You must have access to it and be authenticated to access it. Please log in."
    return Refusal(401, f"Access to model {name} is restricted. {words}", "GatedRepo", commit)


def revision_not_found(revision: str) -> Refusal:
    """No such branch, tag or commit."""
    return Refusal(404, f"Invalid rev id: {revision}", "RevisionNotFound")


def entry_not_found(commit: str) -> Refusal:
    """No such file or folder at this commit."""
    return Refusal(404, "Entry not found", "EntryNotFound", commit)
