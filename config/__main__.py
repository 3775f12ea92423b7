"""Command line of catalogue and stack files: `python -m config add | pin | promote`.

Exit status: 0 written, or nothing to write; 1 not written, or with `--check` a difference; 2 usage.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from config.catalogue import DATA


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one subcommand. Returns the exit status."""
    options = _parser().parse_args(arguments)
    return {"add": _add, "pin": _pin, "promote": _promote}[options.command](options)


def _add(options: Namespace) -> int:
    # Imported here because it imports the hub's client, which `promote` does not need.
    from config.add import AddError, add

    try:
        added = add(
            options.repository,
            options.revision,
            include=options.include,
            quality=options.quality,
            data=options.output,
        )
    except AddError as error:
        print(f"config add: {error}", file=sys.stderr)
        return 1
    print(f"wrote {added.path}: read it, and complete what the hub does not know (serving, quality)")
    if added.advice:
        print(added.advice)
    return 0


def _pin(options: Namespace) -> int:
    # Imported here because it imports the hub's client, which `promote` does not need.
    from config.errors import StackError
    from config.pin import pin_of, write

    try:
        pin = pin_of(options.stack)
        if not options.dry_run:
            write(pin)
    except StackError as error:
        reasons = "\n  ".join(error.faults)
        print(f"config pin: {options.stack} is not pinned, nothing was written:\n  {reasons}", file=sys.stderr)
        return 1
    for key, value in pin.values.items():
        print(f"{key}: {value['revision'] if isinstance(value, dict) else value}")
    done, locks = "would write" if options.dry_run else "wrote", " and ".join(map(str, pin.locks))
    print(f"{done} {pin.file} and {locks}. Next: read the comments beside these keys, and commit the files.")
    return 0


def _promote(options: Namespace) -> int:
    # This program may import what is above its package (tests/unit/test_layers.py): nothing imports it.
    from review.promote_command import promote

    return promote(options.source, options.target, check=options.check, dry_run=options.dry_run)


def _parser() -> ArgumentParser:
    parser = ArgumentParser(prog="python -m config", description="The catalogue of models, and stack files.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="add | pin | promote")
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
    pinning = commands.add_parser(
        "pin", help="write the model's commit, the digests of the images and a weights lock into a stack file"
    )
    pinning.add_argument("stack", metavar="STACK", help="stack in the current directory")
    pinning.add_argument("--dry-run", action="store_true", help="say what would be written; write nothing")
    promoting = commands.add_parser(
        "promote", help="copy the release of a stack (model, lock, engine) to another one, and not its nodes and sizes"
    )
    promoting.add_argument("source", metavar="FROM", help="stack that has the release")
    promoting.add_argument("target", metavar="TO", help="stack to get it")
    only = promoting.add_mutually_exclusive_group()
    only.add_argument("--dry-run", action="store_true", help="say what would be written, or why not; write nothing")
    only.add_argument("--check", action="store_true", help="only list the keys of the release that differ")
    return parser


if __name__ == "__main__":
    sys.exit(main())
