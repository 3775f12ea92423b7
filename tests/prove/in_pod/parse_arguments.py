"""Runs in a pod with vLLM: parses command lines of `vllm serve` with its own parser, and prints the result as JSON.

Reads a list of argument lists from the standard input. Prints the parser's flags, and for each list what is wrong with
it, or an empty text.
"""

import argparse
import contextlib
import io
import json
import sys

from vllm.entrypoints.cli.serve import cmd_init
from vllm.utils.argparse_utils import FlexibleArgumentParser


def fault_of(parser: argparse.ArgumentParser, command: object, arguments: list[str]) -> str:
    """Returns what vLLM says of the arguments, without the usage."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            command.validate(parser.parse_args(["serve", *arguments]))  # type: ignore[attr-defined]
    except SystemExit:
        return said.getvalue().strip().splitlines()[-1]
    except (TypeError, ValueError) as fault:
        return str(fault)
    return ""


def main() -> None:
    """Prints flags and faults, as the last line: vLLM's modules print too."""
    [command] = cmd_init()
    parser = FlexibleArgumentParser()
    serve = command.subparser_init(parser.add_subparsers(dest="subparser"))
    flags = sorted(flag for action in serve._actions for flag in action.option_strings)
    faults = [fault_of(parser, command, arguments) for arguments in json.load(sys.stdin)]
    print(json.dumps({"flags": flags, "faults": faults}))


if __name__ == "__main__":
    main()
