"""The directory on the weights volume in which a server keeps what its engine compiles and tunes.

The stage Job makes it for the server's user alone, because the engine runs the code in it without a check. Other
stacks, images and users have directories of their own.
"""

from dataclasses import dataclass
from hashlib import sha256

import pulumi

from components.pods.security import PodSecurity
from config.stack.sections import StackConfig
from stager.kept_cache import CACHES


@dataclass(frozen=True)
class KeptCache:
    """The directory of one server."""

    owner: pulumi.Input[str]
    """Owner of the staged weights, as `<namespace>/<owner>`."""
    key: str
    """16 hexadecimal digits for the server's image, release and user."""

    @property
    def sub_path(self) -> pulumi.Input[str]:
        """Returns its path on the volume."""
        if isinstance(self.owner, str):
            return f"{CACHES}/{self.owner}/{self.key}"
        return pulumi.Output.concat(f"{CACHES}/", self.owner, f"/{self.key}")


def cache_key(stack: StackConfig) -> str | None:
    """Returns the key of a stack's cache. None: it keeps none."""
    if not stack.weights.cache:
        return None
    user = PodSecurity.of_server(stack.security).user
    named = f"{stack.engine.image}\n{stack.engine.version}\n{user}"
    return sha256(named.encode()).hexdigest()[:16]
