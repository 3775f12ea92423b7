"""Writes what EC2 answered to config/data/aws_instances.json and aws_regions.json (`make aws-instances`)."""

import json
import re
from pathlib import Path

from config.catalogue.reading import DATA, Fields, load
from tests.recorded_ec2 import regions, shape

INSTANCES, REGIONS = DATA / "aws_instances.json", DATA / "aws_regions.json"

_LIST_OF_TEXTS = re.compile(r"\[\s+\"[^\[\]{}]*\]")
"""A list of texts over several lines."""


def main() -> None:
    """Replaces what was recorded, and keeps the rest: prices are not recorded."""
    document = load(INSTANCES)
    document["instances"] = [{**entry, **shape(entry["type"])} for entry in document["instances"]]
    _write(INSTANCES, document)
    _write(REGIONS, {**load(REGIONS), "regions": regions()})


def _write(file: Path, document: Fields) -> None:
    text = json.dumps(document, indent=1)
    file.write_text(_LIST_OF_TEXTS.sub(lambda found: " ".join(found.group().split()), text) + "\n")


if __name__ == "__main__":
    main()
