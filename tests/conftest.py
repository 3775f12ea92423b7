"""Options and hooks of all tests, such as the option that regenerates golden files."""

import pytest
from _pytest.nodeid import NodeId


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--regenerate-golden",
        action="store_true",
        help="write tests/golden/*.json from what the program does now; read the diff before you commit it",
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Appends each test's xdist group to its id, because pytest 9.2 does not accept how pytest-xdist 3.8 does it."""
    if not getattr(config.option, "loadgroup", False):
        return
    for item in items:
        if group := item.get_closest_marker("xdist_group"):
            item._id = NodeId.parse(f"{item.nodeid}@{group.args[0]}")
            assert item.nodeid.endswith(f"@{group.args[0]}")
