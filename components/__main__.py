"""The components as a Pulumi package: `pulumi package add DIRECTORY` gives them to a program in any language.

Pulumi's component host, with one difference: what a component refuses is shown as it is. The host's own would add a
stack of Python calls, with which nobody can do anything in another language.
"""

import sys
from pathlib import Path
from typing import Any

import pulumi
from pulumi.provider.experimental.component import ComponentProvider
from pulumi.provider.provider import ConstructResult
from pulumi.provider.server import ComponentInitError, main

# Started as a directory; its own folders would hide those of other packages.
sys.path[0] = str(Path(__file__).resolve().parent.parent)

from components.package import COMPONENTS, PACKAGE  # noqa: E402 - found by the line above


class Host(ComponentProvider):
    """Constructs the components."""

    def construct(self, name: str, resource_type: str, inputs: Any, options: Any = None) -> ConstructResult:
        """One component. Raises InputPropertiesError with what it refuses."""
        try:
            return super().construct(name, resource_type, inputs, options)
        except ComponentInitError as failure:
            if isinstance(failure.inner, pulumi.RunError):
                raise pulumi.InputPropertiesError(str(failure.inner), []) from None
            raise


if __name__ == "__main__":
    main(Host(list(COMPONENTS), PACKAGE), sys.argv[1:])
