"""What all tests share: the switch that writes golden files anew, for a person to review before they are committed."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--regenerate-golden",
        action="store_true",
        help="write tests/golden/*.json from what the program does now; read the diff before you commit it",
    )
