"""What all Jobs of the stager have in common."""

import re

from components.pods.jobs.stager_job import job_name

DIGEST = "669cddc777e743fa"
LONGEST = 63
"""Characters of a label's value, which a Job's name becomes (kubernetes.io, Labels and Selectors)."""
ADDED_BY_PULUMI = "-0a1b2c3d"


def test_a_job_is_named_by_what_it_does_to_which_weights_and_where() -> None:
    assert job_name("stage", DIGEST, None) == "stage-669cddc777e743fa"
    assert job_name("prune", DIGEST, "gpu-node-01.rack-7.example.com") == (
        "prune-669cddc777e743fa-gpu-node-01.rack-7.example.com"
    )


def test_nodes_with_long_names_get_jobs_of_their_own_that_kubernetes_accepts() -> None:
    hosts = [f"gpu-node-in-the-second-hall-row-seven-{number:02d}.cluster.example.com" for number in range(40)]
    names = {job_name("prune", DIGEST, host) for host in [*hosts, "ip-10-0-1-23.us-west-2.compute.internal"]}
    assert len(names) == 41
    for name in names:
        assert len(name + ADDED_BY_PULUMI) <= LONGEST
        assert re.fullmatch(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", name)
        assert name.startswith(f"prune-{DIGEST}-")
