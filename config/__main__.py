"""Command line of the catalogue: `python -m config add REPOSITORY --revision COMMIT`.

Exit status: 0 written, 1 not written, 2 usage.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from config.add import AddError, add
from config.catalogue import DATA


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one subcommand. Returns the exit status."""
    parser = ArgumentParser(prog="python -m config", description="The catalogue of models.")
    commands = parser.add_subparsers(required=True, metavar="add")
    adding = commands.add_parser(
        "add", help="write a catalogue entry from the headers of a repository on the model hub"
    )
    adding.add_argument("repository", help="such as moonshotai/Kimi-K2.5")
    adding.add_argument("--revision", required=True, help="commit or branch; the commit is written down")
    adding.add_argument(
        "--include", action="append", default=[], metavar="PATTERN", help="one quantisation of a GGUF set"
    )
    adding.add_argument("--quality", default="", choices=("good", "high", "frontier"), help="its class in `recommend`")
    adding.add_argument("--output", type=Path, default=DATA / "models", metavar="DIR", help="default: the catalogue")
    options = parser.parse_args(arguments)
    try:
        path = add(
            options.repository,
            options.revision,
            include=options.include,
            quality=options.quality,
            data=options.output,
        )
    except AddError as error:
        print(f"config add: {error}", file=sys.stderr)
        return 1
    print(f"wrote {path}: read it, and complete what the hub does not know (serving, quality)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
