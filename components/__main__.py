"""The components as a Pulumi package: `pulumi package add DIRECTORY` adds them to a program in any language.

Runs Pulumi's component host, with one difference: it reports a component's input errors without a Python stack trace,
which does not help the user of another language.
"""

import sys
from pathlib import Path
from typing import Any

import pulumi
from pulumi.provider.experimental.component import ComponentProvider
from pulumi.provider.provider import ConstructResult
from pulumi.provider.server import ComponentInitError, main

# Python runs this directory as a program and puts it first on the path, where its folders would shadow other packages.
sys.path[0] = str(Path(__file__).resolve().parent.parent)

from components.package import COMPONENTS, PACKAGE  # noqa: E402 - found by the line above


class Host(ComponentProvider):
    """Constructs the components."""

    def construct(self, name: str, resource_type: str, inputs: Any, options: Any = None) -> ConstructResult:
        """Constructs one component. Raises InputPropertiesError with the component's input errors."""
        try:
            return super().construct(name, resource_type, inputs, options)
        except ComponentInitError as failure:
            if isinstance(failure.inner, pulumi.RunError):
                raise pulumi.InputPropertiesError(str(failure.inner), []) from None
            raise


if __name__ == "__main__":
    main(Host(list(COMPONENTS), PACKAGE), sys.argv[1:])
