"""`python -m lab.hub`: a model hub and a package index in the foreground, until SIGTERM."""

import argparse
import asyncio
import sys
from pathlib import Path

from lab.hub.hub import Hub
from lab.hub.server import serve
from lab.hub.signed_urls import SignedUrls
from lab.hub.stored.digests import Digests
from lab.hub.stored.repository import stored_repositories
from lab.hub.stored.table import TableError, read_table


def main() -> int:
    """Serves the given table. Returns 2 if the hub cannot serve it."""
    options = _parser().parse_args()
    try:
        asyncio.run(serve(_hub(options), host=options.host, port=options.port, storage_port=options.storage_port))
    except (TableError, OSError) as error:
        print(f"lab.hub: {error}", file=sys.stderr)
        return 2
    return 0


def _hub(options: argparse.Namespace) -> Hub:
    if options.wheels is not None and not options.wheels.is_dir():
        raise NotADirectoryError(f"--wheels {options.wheels}: expected a directory of wheels, found none")
    table = read_table(options.repositories)
    digests = Digests(options.state_dir)
    return Hub(
        repositories=stored_repositories(table, digests),
        tokens={entry.token: entry for entry in table.tokens},
        digests=digests,
        signed_urls=SignedUrls(options.url_lifetime),
        wheels=options.wheels,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m lab.hub", description="A model hub and a package index.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=0, help="port of the hub; 0 picks a free one (default)")
    parser.add_argument("--storage-port", type=int, default=0, help="port of the storage; 0 picks a free one (default)")
    parser.add_argument("--repositories", type=Path, required=True, help="table of repositories, YAML or JSON")
    parser.add_argument("--wheels", type=Path, help="directory of wheels to serve at /simple/")
    parser.add_argument("--state-dir", type=Path, help="directory where computed hashes are kept")
    parser.add_argument(
        "--url-lifetime", type=float, default=3600, help="seconds until a signed URL expires (default: %(default)s)"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
