"""Lab tests that share a fixture of their module run in one process: two would use one namespace at the same time."""

from pathlib import Path

import pytest

LAB = Path(__file__).parents[1] / "lab"
SHARING = [path for path in sorted(LAB.glob("test_*.py")) if 'scope="module"' in path.read_text()]


@pytest.mark.parametrize("path", SHARING, ids=lambda path: path.name)
def test_a_module_that_shares_a_fixture_is_one_group(path: Path) -> None:
    assert "\npytestmark = " in path.read_text()
