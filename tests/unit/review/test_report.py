"""What a report says: which stacks, in which order, with which figures, and within which limit."""

import json
from typing import Any

import pytest

from review.__main__ import status
from review.change import Report, StackChange, compare
from review.checkout import StackAt
from review.figures import MINUS, machine
from review.markdown import LIMIT, MARKER, markdown
from review.phrases import headline, notes, problems
from review.terminal import as_json, terminal
from review.text import visible
from stager.listing import Listing, RemoteFile

SECTIONS: dict[str, Any] = {
    "nodes": {"names": ["n0"], "gpu": "h200", "gpus_per_node": 8},
    "model": {"repository": "acme/model", "revision": "a" * 40},
    "engine": {"name": "vllm", "version": "0.33.0", "image": "vllm/vllm-openai:v0.33.0"},
}


def stack(verdict: str = "fits", *, sections: dict[str, Any] | None = None, **plan: Any) -> StackAt:
    return StackAt(SECTIONS if sections is None else sections, {"verdict": verdict, "layout": {"tp": 8}, **plan})


def with_section(name: str, **values: Any) -> dict[str, Any]:
    return {**SECTIONS, name: {**SECTIONS.get(name, {}), **values}}


def changed(before: StackAt | None, after: StackAt | None) -> StackChange:
    return StackChange("Pulumi.one.yaml", before, after)


def figures(change: StackChange) -> dict[str, tuple[str, str, str]]:
    return {row.label: (row.before, row.after, row.change) for row in change.rows}


def test_nodes_in_aws_are_named_by_their_instances() -> None:
    nodes = {"kind": "eks", "instance_type": "p5en.48xlarge", "count": 2, "zone": "use2-az1"}
    assert machine(stack(sections={**SECTIONS, "nodes": nodes})) == "2 x p5en.48xlarge, TP8"
    assert machine(stack()) == "8 H200, TP8"


def test_only_what_differs_is_reported_worst_first() -> None:
    before = {name: stack() for name in ("Pulumi.a.yaml", "Pulumi.b.yaml", "Pulumi.c.yaml", "Pulumi.d.yaml")}
    after = {
        "Pulumi.a.yaml": stack("tight"),
        "Pulumi.b.yaml": stack("rejected"),
        "Pulumi.c.yaml": stack(),
        "Pulumi.e.yaml": StackAt(SECTIONS, None, ["heavylift:nodes: is missing"]),
    }
    changes, unchanged = compare(before, after)
    assert [(change.name, change.kind, change.verdict) for change in changes] == [
        ("e", "new", "invalid"),
        ("b", "changed", "rejected"),
        ("a", "changed", "tight"),
        ("d", "deleted", "deleted"),
    ]
    assert unchanged == 1


def test_a_change_of_the_planner_alone_is_reported_as_one() -> None:
    change = changed(stack(kv_tokens=[1000, 2000]), stack(kv_tokens=[900, 2000]))
    assert change.settings == []
    assert figures(change)["KV cache, tokens, at least"] == ("1,000", "900", f"{MINUS}10 %")
    assert any("planner or the catalogue changed" in note for note in notes(change, visible))


def test_where_the_planner_of_the_base_does_not_run_only_changed_files_are_reported() -> None:
    other = with_section("engine", max_model_len=4096)
    before = {"Pulumi.a.yaml": StackAt(SECTIONS), "Pulumi.b.yaml": StackAt(SECTIONS)}
    changes, unchanged = compare(before, {"Pulumi.a.yaml": stack(), "Pulumi.b.yaml": stack(sections=other)})
    assert ([change.name for change in changes], unchanged) == (["b"], 1)
    assert "was" not in headline(changes[0], visible)


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        (25.6, 38.4, "38.40 $/h (+12.80 $/h, +9,344.00 $ a month)"),
        (38.4, 25.6, f"25.60 $/h ({MINUS}12.80 $/h, {MINUS}9,344.00 $ a month)"),
        (25.6, 25.6, "25.60 $/h, unchanged"),
        (25.6, None, "cost not stated"),
        (None, 25.6, "25.60 $/h"),
        (0.0, 0.0, "0.00 $/h, unchanged"),
    ],
)
def test_the_headline_says_what_it_costs(before: float | None, after: float | None, shown: str) -> None:
    change = changed(stack(cost_per_hour_usd=before), stack(cost_per_hour_usd=after))
    assert headline(change, visible).split(" · ")[-1] == shown


def test_another_revision_is_staged_first_and_another_order_of_the_lock_is_not() -> None:
    files = (RemoteFile("a", 1, "0" * 64), RemoteFile("b", 2, "1" * 64))
    locks = [Listing("acme/model", "main", "a" * 40, ordered) for ordered in (files, files[::-1])]
    same = [StackAt(SECTIONS, {"verdict": "fits", "weights_bytes": 3}, (), lock) for lock in locks]
    assert not changed(*same).stages_other_weights
    other = stack(sections=with_section("model", revision="b" * 40), weights_bytes=595_180_000_000)
    assert "stages 595.2 GB first" in headline(changed(stack(), other), visible)


def test_the_files_of_the_lock_are_compared_by_hash() -> None:
    def lock(**hashes: str) -> Listing:
        return Listing("acme/model", "main", "a" * 40, tuple(RemoteFile(p, 5, h * 64) for p, h in hashes.items()))

    before, after = lock(same="0", other="1", gone="2"), lock(same="0", other="3", new="4")
    change = changed(StackAt(SECTIONS, None, (), before), StackAt(SECTIONS, None, (), after))
    assert [(file.path, bool(file.before), bool(file.after)) for file in change.files] == [
        ("gone", True, False),
        ("new", False, True),
        ("other", True, True),
    ]


def test_no_value_of_an_environment_variable_or_secret_argument_is_shown() -> None:
    before = with_section("engine", environment={"A": "hidden-1"}, extra_args=["--api-key", "hidden-2"])
    after = with_section(
        "engine",
        environment={"A": "hidden-3"},
        extra_args=["--api-key=hidden-4", "--max-num-batched-tokens=8192"],
        image="https://user:hidden-5@registry.example/image",
    )
    report = Report("base", "head", [changed(stack(sections=before), stack(sections=after))])
    for text in (markdown(report), terminal(report), as_json(report)):
        assert "hidden" not in text
        assert "8192" in text
        assert "environment.A" in text


def test_a_fault_of_the_file_is_the_reason() -> None:
    change = changed(stack(), StackAt(SECTIONS, None, ["heavylift:nodes.gpu: 'h2000' is not known"]))
    assert list(problems(change)) == [("", "heavylift:nodes.gpu: 'h2000' is not known")]
    assert status(Report("base", "head", [change])) == 1


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [((), 0), (("fits", "tight"), 0), (("unknown",), 3), (("unknown", "rejected"), 1)],
)
def test_the_exit_status_follows_the_worst_verdict(verdicts: tuple[str, ...], expected: int) -> None:
    assert status(Report("base", "head", [changed(stack(), stack(verdict)) for verdict in verdicts])) == expected


@pytest.mark.parametrize("stacks", [1, 30, 1000])
def test_a_long_report_loses_details_first_and_verdicts_never(stacks: int) -> None:
    problem = {"code": "weights_do_not_fit", "message": "too large " * 100, "fix": "8 H200"}
    many = {"environment": {f"VARIABLE_{number}": "x" for number in range(2000 // stacks + 5)}}
    changes = [
        StackChange(
            f"Pulumi.{'x' * 90}{number}.yaml",
            stack(),
            stack("rejected", problems=[problem], sections={**SECTIONS, "engine": many}),
        )
        for number in range(stacks)
    ]
    text = markdown(Report("base", "head", changes, notes=["a note"]))
    assert len(text) <= LIMIT
    assert text.startswith(MARKER)
    assert "a note" in text
    verdicts = text.count(" is rejected: ")
    assert verdicts == stacks or f"… and {stacks - verdicts} more stacks: {stacks - verdicts} rejected" in text
    assert "of the report left out" in text or stacks == 1


def test_json_has_both_plans() -> None:
    change = changed(stack(context=1), stack(context=2))
    (read,) = json.loads(as_json(Report("base", "head", [change])))["stacks"]
    assert (read["before"]["plan"]["context"], read["after"]["plan"]["context"]) == (1, 2)


def test_a_terminal_gets_no_control_characters() -> None:
    change = StackChange("Pulumi.\x1b[2J\n.yaml", None, StackAt(SECTIONS, None, ["\x1b]0;title\x07"]))
    text = terminal(Report("base", "head", [change]))
    assert text.replace("\n", "").isprintable()
