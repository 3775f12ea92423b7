"""Writes cards, addresses and zones of every instance type to config/data/aws_instances.json (`make aws-instances`)."""

import json
import re

from config.catalogue.reading import DATA, load
from tests.recorded_ec2 import shape

FILE = DATA / "aws_instances.json"

_LIST_OF_TEXTS = re.compile(r"\[\s+\"[^\[\]{}]*\]")
"""A list of texts over several lines."""


def main() -> None:
    """Replaces what was recorded, and keeps the rest: prices are not recorded."""
    document = load(FILE)
    document["instances"] = [{**entry, **shape(entry["type"])} for entry in document["instances"]]
    text = json.dumps(document, indent=1)
    FILE.write_text(_LIST_OF_TEXTS.sub(lambda found: " ".join(found.group().split()), text) + "\n")


if __name__ == "__main__":
    main()
