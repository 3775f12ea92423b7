"""The components as a Pulumi package: `pulumi package add DIRECTORY` gives them to a program in any language."""

import sys
from pathlib import Path

from pulumi.provider.experimental import component_provider_host

# Started as a directory; its own folders would hide those of other packages.
sys.path[0] = str(Path(__file__).resolve().parent.parent)

from components.package import COMPONENTS, PACKAGE  # noqa: E402 - found by the line above

if __name__ == "__main__":
    component_provider_host(components=list(COMPONENTS), name=PACKAGE)
