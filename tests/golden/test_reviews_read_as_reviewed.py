"""Comments of pull requests, word for word, as `python -m review plan --format markdown` writes them.

Each case is made of the shipped stack files, by the planner. After a wanted change:
`pytest tests/golden --regenerate-golden`, and read what changed.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from planner.__main__ import main as planner
from review import probe
from review.change import Report, compare
from review.checkout import Stacks, read_stacks, stack_files_below
from review.markdown import markdown
from tests.program import PROGRAM
from tests.review_cases import BLOCK, NEW_COMMIT, OLD_COMMIT, PREVIEWS, locked

GOLDEN = Path(__file__).parent / "review"
HOSTILE = "Pulumi.x`|<img src=x>@team #1 [a](b)\n# www.example.com\u202e.yaml"
Files = dict[str, str]


def shipped(name: str, price: str = "") -> str:
    """A shipped stack file, with a price of its GPUs."""
    text = (PROGRAM / f"Pulumi.{name}.yaml").read_text()
    return (
        text.replace("nvme_path: /mnt/nvme\n", f"nvme_path: /mnt/nvme\n    usd_per_gpu_hour: {price}\n")
        if price
        else text
    )


H200, H100 = shipped("h200", "3.20"), shipped("h100x16", "2.40")
SHORT = H200.replace("max_model_len: 262144", "max_model_len: 131072")


def with_lock(text: str, commit: str) -> str:
    """The stack at a commit, with the lock of that commit."""
    pinned = text.replace(OLD_COMMIT, commit)
    return pinned.replace("image: python:3.12-slim\n", f"image: python:3.12-slim\n    lock: {commit[:7]}.lock.json\n")


CASES: Mapping[str, tuple[Files, Files]] = {
    "context-doubled": ({"Pulumi.h200.yaml": SHORT}, {"Pulumi.h200.yaml": H200}),
    "new-revision": (
        {
            "Pulumi.production.yaml": with_lock(H200, OLD_COMMIT),
            "4d01dfe.lock.json": locked(OLD_COMMIT, "old", "gone.json"),
        },
        {
            "Pulumi.production.yaml": with_lock(H200, NEW_COMMIT),
            "0123456.lock.json": locked(NEW_COMMIT, "new", "chat_template.jinja"),
        },
    ),
    "h200-to-two-h100-nodes": ({"Pulumi.production.yaml": H200}, {"Pulumi.production.yaml": H100}),
    "rejected": (
        {"Pulumi.h200.yaml": H200},
        {
            "Pulumi.h200.yaml": H200.replace("gpus_per_node: 8", "gpus_per_node: 4").replace(
                "tensor_parallel: 8", "tensor_parallel: 4"
            )
        },
    ),
    "new-stack": ({}, {"Pulumi.h200.yaml": H200}),
    "deleted-stack": ({"Pulumi.h200.yaml": H200}, {}),
    "engine-upgrade": ({"Pulumi.h200.yaml": H200.replace("0.33.0", "0.30.0")}, {"Pulumi.h200.yaml": H200}),
    "hostile-file-name": (
        {},
        {
            HOSTILE: H200.replace('driver: "580"', 'driver: "@team [x](https://example.com) <b> | #1"'),
            "examples/Pulumi.fine.yaml": shipped("b200"),
        },
    ),
    "price-stated": ({"Pulumi.h200.yaml": shipped("h200")}, {"Pulumi.h200.yaml": H200}),
}


@pytest.fixture
def planned(tmp_path: Path) -> Callable[[str, Files], Stacks]:
    """Plans files, written to a directory of their own."""

    def plan(side: str, files: Files) -> Stacks:
        root = tmp_path / side
        root.mkdir()
        for name, text in files.items():
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).write_text(text)
        return read_stacks(root, {file: probe.planned(root, file, planner) for file in stack_files_below(root)})

    return plan


@pytest.mark.parametrize("case", CASES)
def test_a_comment_reads_as_reviewed(
    case: str, planned: Callable[[str, Files], Stacks], pytestconfig: pytest.Config
) -> None:
    before, after = CASES[case]
    stacks, unchanged = compare(planned("before", before), planned("after", after))
    written = markdown(Report(base="5d0e2b7", head="f3c1a90", stacks=stacks, unchanged=unchanged))
    golden = GOLDEN / f"{case}.md"
    if pytestconfig.getoption("--regenerate-golden"):
        golden.write_text(written)
    assert golden.exists(), f"no golden file for {case}: run with --regenerate-golden and review it"
    assert written == golden.read_text()


def test_no_golden_comment_is_left_of_a_case_that_is_gone() -> None:
    assert {file.stem for file in GOLDEN.glob("*.md")} == {*CASES, *PREVIEWS, BLOCK}


def test_nothing_is_written_where_nothing_changed(planned: Callable[[str, Files], Stacks]) -> None:
    stacks, unchanged = compare(
        planned("before", {"Pulumi.h200.yaml": H200}), planned("after", {"Pulumi.h200.yaml": f"# a comment\n{H200}"})
    )
    assert (stacks, unchanged) == ([], 1)
    assert markdown(Report("5d0e2b7", "f3c1a90", stacks, unchanged)) == ""
