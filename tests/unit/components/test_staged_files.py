"""The hash of all files that the first stage reports: read from the pods, kept, and compared with every later stage."""

import base64
import json
from typing import Any

import pulumi
import pytest

from components.cluster.api import ClusterApi
from components.rollout import staged_files
from components.rollout.stage_progress import Staging
from stager.order import files_sha256
from tests.program import FILES_SHA256, run_program
from tests.unit.components.api_server import Answer, api_server
from tests.unit.components.test_stage_watch import REFUSED, RUNS, ended, pod
from tests.unit.components.test_weight_stage import staged

REPORTED = staged_files.reported
"""As it is before the fixture of this directory takes its place."""

ONE, TWO = files_sha256([("a", 1, "0" * 64)]), files_sha256([("a", 1, "1" * 64)])


def said(sha256: str) -> dict[str, Any]:
    return ended(0, f"stager: files_sha256 {sha256}")


def reported(*pods: dict[str, Any], names: tuple[str, ...] = ("stage-0", "stage-1")) -> str:
    def answer(path: str, _: object) -> Answer:
        assert path == "/api/v1/namespaces/serving/pods"
        return {"items": list(pods)}

    with api_server(answer) as api:
        return REPORTED(stage(api), names)


def stage(api: ClusterApi) -> Staging:
    return Staging(api, "serving", {"app.kubernetes.io/component": "stage"}, 60)


def test_the_hash_that_the_pods_report_is_read() -> None:
    assert reported(pod(said(ONE)), pod(said(ONE), of="stage-1")) == ONE


def test_a_failed_pod_another_job_and_a_message_of_an_earlier_release_report_nothing() -> None:
    assert reported(REFUSED, pod(RUNS), pod(said(TWO), of="other"), pod(ended(0))) == ""
    assert reported(REFUSED, pod(said(ONE))) == ONE


def test_volumes_with_different_files_are_refused() -> None:
    with pytest.raises(pulumi.RunError, match="the volumes hold different files") as refused:
        reported(pod(said(ONE)), pod(said(TWO), of="stage-1"))
    assert ONE in str(refused.value)
    assert TWO in str(refused.value)


def kept(first: str, now: str) -> str:
    """What is kept if the ConfigMap of the first stage has `first`, and a stage reports `now`."""
    return staged_files._same("stage-files-1", first, now)


def test_the_first_hash_is_kept_and_another_refused() -> None:
    assert kept(ONE, ONE) == ONE
    assert kept(ONE, "") == ONE, "the pods of the first stage are gone"
    assert kept("", ONE) == ""
    with pytest.raises(pulumi.RunError, match=f"files_sha256 is {TWO}, expected {ONE}.*delete ConfigMap stage-files-1"):
        kept(ONE, TWO)


def test_the_config_map_of_the_first_stage_keeps_its_content() -> None:
    recording = staged()
    [first] = [each for each in recording.of_type(":ConfigMap") if each.name == "stage-files-669cddc777e743fa"]
    assert first.inputs["data"] == {"files_sha256": FILES_SHA256}
    assert first.options["ignoreChanges"] == ["data"]
    assert recording.outputs_of("WeightStage")[0]["files_sha256"] == FILES_SHA256


@pytest.mark.parametrize("without", [{"lock": json.dumps({"files": []})}, {"watched": False}])
def test_nothing_is_kept_with_a_lock_or_without_a_way_to_the_cluster(without: dict[str, Any]) -> None:
    recording = staged(**without)
    assert [each.name for each in recording.of_type(":ConfigMap")] == ["stage-program"]
    assert recording.outputs_of("WeightStage")[0]["files_sha256"] == ""


def test_the_check_before_serving_compares_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = run_program(monkeypatch, "h200")
    [verifier] = [each for each in recording.of_type(":ConfigMap") if each.name == "server-verifier"]
    content = json.loads(base64.b64decode(verifier.inputs["binaryData"]["ordered.json.bz2"]))
    assert content == {"files_sha256": FILES_SHA256}
