"""A server starts only with verified weights, downloads happen once, and secrets stay hidden: on the real node."""

import json
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from lab.build.images import MODEL_FILE
from lab.hub.client import HubClient
from lab.lifecycle import Lab
from lab.site import CHECKOUT
from tests.lab.kubectl import Kubectl
from tests.lab.serving import FILLER, FILLER_BYTES, FIRST, SECOND, TOKEN, Served, dev_stack, pinned

MODEL_BYTES = 253_113_024
README = "README.md"
STAGE_JOB = "app.kubernetes.io/instance=dev,app.kubernetes.io/component=stage"
Serve = Callable[[dict[str, Any]], Served]


@pytest.fixture
def serve(
    request: pytest.FixtureRequest,
    lab: Lab,
    hub: HubClient,
    kubectl: Kubectl,
    environment: dict[str, str],
    tmp_path: Path,
) -> Iterator[Serve]:
    """Creates a stack that serves a model. Destroys it and removes its weights after the test."""
    hub.clear_faults()
    hub.clear_requests()
    namespace = request.node.name.replace("_", "-").replace("[", "-").replace("]", "")[:50].strip("-")
    made: list[Served] = []

    def make(model: dict[str, Any]) -> Served:
        own = {**environment, "HF_ENDPOINT": hub.url}
        served = Served(dev_stack(CHECKOUT, tmp_path / "program", own, namespace, model), kubectl, lab, namespace)
        made.append(served)
        return served

    yield make
    for served in made:
        served.remove()
        kubectl("delete", "storageclasses,persistentvolumes", namespace, "--ignore-not-found")


def test_a_failed_stage_makes_no_server_and_says_why_and_the_next_up_goes_on(serve: Serve, hub: HubClient) -> None:
    served = serve(pinned("acme/model", FIRST))
    hub.fault("flip", path=f"/storage/*{MODEL_FILE}", offset=1000)
    failed = served.project.up()
    assert failed.status != 0
    assert MODEL_FILE in failed.output
    assert "SHA-256" in failed.output or "hash" in failed.output
    assert served.get("deployments") == []
    assert not any(path.endswith("manifest.json") for path in served.on_disk())

    hub.clear_faults()
    mended = served.project.up()
    assert mended.status == 0, mended
    assert served.ask()


def test_up_is_followed_by_a_preview_and_an_up_without_changes_and_a_clean_refresh(serve: Serve) -> None:
    served = serve(pinned("acme/model", FIRST))
    first = served.project.up()
    assert first.status == 0, first
    preview = served.project.preview("--expect-no-changes", "--diff")
    assert preview.status == 0, preview
    again = served.project.up("--expect-no-changes")
    assert again.status == 0, again
    refreshed = served.project.refresh("--expect-no-changes")
    assert refreshed.status == 0, refreshed


def test_another_revision_is_staged_beside_the_old_one_which_is_never_edited(serve: Serve, hub: HubClient) -> None:
    served = serve(pinned("acme/model", FIRST))
    assert served.project.up().status == 0
    [old] = served.digests()
    old_times = served.shell("stat -c '%n %Y %Z %i' $(find . -type f | sort)")
    [old_job] = served.get("jobs")

    served.project.configure(model=pinned("acme/model", SECOND))
    preview = served.project.preview("--json")
    assert preview.status == 0, preview
    changed = served.project.up()
    assert changed.status == 0, changed

    [new_job] = served.get("jobs")
    assert new_job["metadata"]["uid"] != old_job["metadata"]["uid"]
    assert len(served.digests()) == 2
    times = f"cd {served.root}/{old} && stat -c '%n %Y %Z %i' $(find . -type f | sort)"
    assert served.lab.on_node("real-0", "sh", "-c", times) == old_times
    [new] = served.digests() - {old}
    readme = served.lab.on_node("real-0", "cat", f"{served.root}/{new}/{README}")
    assert readme == "the second revision\n"
    assert served.ask()
    clean = served.project.preview("--expect-no-changes")
    assert clean.status == 0, clean


@pytest.mark.parametrize("kind", ["host-path", "local", "claim"])
def test_up_destroy_up_stages_zero_bytes(serve: Serve, hub: HubClient, kubectl: Kubectl, kind: str) -> None:
    served = serve(pinned("acme/model", FIRST))
    weights: dict[str, Any] = {"kind": kind, "size": "1Gi"}
    if kind == "claim":
        offer_a_disk(kubectl, served)
        weights |= {"path": None, "storage_class": served.namespace}
    served.project.configure(weights=weights)
    served.lab.on_node("real-0", "mkdir", "-p", served.root)

    first = served.project.up()
    assert first.status == 0, first
    assert hub.bytes_sent() >= MODEL_BYTES
    gone = served.project.destroy()
    assert gone.status == 0, gone
    assert served.get("pods") == []
    hub.clear_requests()

    second = served.project.up()
    assert second.status == 0, second
    assert hub.bytes_sent() == 0
    assert served.ask()
    clean = served.project.preview("--expect-no-changes")
    assert clean.status == 0, clean


def offer_a_disk(kubectl: Kubectl, served: Served) -> None:
    """Creates a volume for a claim of the storage class, because the lab has no provisioner."""
    terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["real-0"]}]}]
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": served.namespace},
        "spec": {
            "capacity": {"storage": "2Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": served.namespace,
            "persistentVolumeReclaimPolicy": "Delete",
            "local": {"path": served.root},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
        },
    }
    storage_class = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": served.namespace},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    kubectl.apply(storage_class, volume)


def test_the_hub_token_reaches_the_stager_and_shows_nowhere(serve: Serve, kubectl: Kubectl) -> None:
    served = serve(pinned("acme/gated", FIRST))
    refused = served.project.up()
    assert refused.status != 0
    assert "acme/gated" in refused.output
    assert "token" in refused.output

    stored = served.project.pulumi("config", "set", "--secret", "heavylift:hub_token", TOKEN, "--stack", "dev")
    assert stored.status == 0, stored
    shown = [
        served.project.preview("--json").output,
        served.project.preview("--diff").output,
        served.project.up().output,
        served.project.exported(),
        (served.project.directory / "Pulumi.dev.yaml").read_text(),
        json.dumps(served.get("configmaps")),
        json.dumps(served.get("pods")),
        json.dumps(served.get("jobs")),
        json.dumps(served.get("events")),
        served.stage_log(),
        served.shell("grep -r -c hf_labtoken .heavylift || true"),
    ]
    assert served.ask()
    assert all(TOKEN not in text for text in shown)
    [server] = served.pods("server")
    assert "HF_TOKEN" not in json.dumps(server)
    [secret] = [each for each in served.get("secrets") if "HF_TOKEN" in each.get("data", {})]
    assert secret["data"]["HF_TOKEN"]


ALTERATIONS = {
    "a flipped byte in a small file": f"printf X | dd of={README} conv=notrunc 2>/dev/null",
    "a flipped byte in the model": f"printf X | dd of={MODEL_FILE} bs=1 seek=1000000 conv=notrunc 2>/dev/null",
    "a flipped byte under the old modification time": (
        f"touch -r {MODEL_FILE} /tmp/stamp && printf X | dd of={MODEL_FILE} bs=1 seek=1000000 conv=notrunc 2>/dev/null"
        f" && touch -r /tmp/stamp {MODEL_FILE}"
    ),
    "a truncated model": f"truncate -s -1 {MODEL_FILE}",
    "a missing file": f"rm {README}",
    "a link instead of a file": f"mv {README} /tmp/readme && ln -s /tmp/readme {README}",
    "no manifest": "rm .heavylift/manifest.json",
    "a manifest of another revision": f"sed -i s/{FIRST}/{SECOND}/ .heavylift/manifest.json",
    "a manifest that is not JSON": "echo broken > .heavylift/manifest.json",
}


def test_a_server_whose_weights_were_altered_after_staging_refuses_to_start(serve: Serve, kubectl: Kubectl) -> None:
    served = serve(pinned("acme/model", FIRST))
    assert served.project.up().status == 0
    kept = f"{served.root}-kept"
    [digest] = served.digests()
    served.lab.on_node("real-0", "cp", "--archive", f"{served.root}/{digest}", kept)
    try:
        for alteration, script in ALTERATIONS.items():
            # An in-place copy keeps the modification times. The change times are new, as after any change.
            served.shell(script)
            reason = refusal_of_next_pod(served)
            assert reason, f"the server started with {alteration}"
            served.lab.on_node(
                "real-0", "sh", "-c", f"rm -rf {served.root}/{digest} && cp --archive {kept} {served.root}/{digest}"
            )
    finally:
        served.lab.on_node("real-0", "rm", "-rf", kept)


def refusal_of_next_pod(served: Served, seconds: float = 60) -> str | None:
    """Deletes the server's pod and returns the error of the next pod's init container. None: no error."""
    kubectl, namespace = served.kubectl, served.namespace
    for pod in served.pods("server"):
        kubectl("delete", "pod", "-n", namespace, pod["metadata"]["name"], "--grace-period=0", "--force")
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for pod in served.pods("server"):
            for status in pod["status"].get("initContainerStatuses", ()):
                ended = status["state"].get("terminated") or status.get("lastState", {}).get("terminated")
                if ended:
                    message: str = ended.get("message", "")
                    return message if ended["exitCode"] else None
        time.sleep(0.3)
    raise AssertionError("no pod of the server came so far as to check its weights")


def test_up_ends_with_the_verifiers_words_where_weights_were_altered_and_goes_on_when_they_are_staged_again(
    serve: Serve, kubectl: Kubectl
) -> None:
    served = serve(pinned("acme/model", FIRST))
    assert served.project.up().status == 0
    served.shell(f"printf X | dd of={README} conv=notrunc 2>/dev/null")
    for pod in served.pods("server"):
        kubectl("delete", "pod", "-n", served.namespace, pod["metadata"]["name"])
    began = time.monotonic()
    refused = served.project.up()
    assert refused.status != 0
    assert time.monotonic() - began < 90
    assert "the check of the weights failed on real-0 (pod server-" in refused.output
    assert f"{README}: SHA-256 is" in refused.output
    assert "Traceback" not in refused.output

    # The step that the message names.
    assert (
        f"`kubectl delete jobs,pods -n {served.namespace} -l {STAGE_JOB}`, then `pulumi up --refresh`" in refused.output
    )
    kubectl("delete", "jobs,pods", "-n", served.namespace, "-l", STAGE_JOB)
    mended = served.project.up("--refresh")
    assert mended.status == 0, mended
    assert served.ask()
    clean = served.project.preview("--expect-no-changes")
    assert clean.status == 0, clean


def test_up_ends_with_the_engines_last_words_where_it_does_not_start_and_goes_on_when_mended(serve: Serve) -> None:
    served = serve(pinned("acme/model", FIRST))
    # A flag of llama.cpp that the lab's test double of its command line does not know.
    served.project.configure(engine={"extra_args": ["--mlock"]})
    began = time.monotonic()
    refused = served.project.up()
    assert refused.status != 0
    assert time.monotonic() - began < 150
    assert "the engine failed on real-0 (pod server-" in refused.output
    assert "unrecognized arguments: --mlock" in refused.output
    assert "heavylift:engine" in refused.output
    assert "endpoint" not in served.project.outputs()

    served.project.configure(engine={"extra_args": []})
    mended = served.project.up()
    assert mended.status == 0, mended
    assert served.ask()


def test_a_stager_killed_half_way_resumes_and_does_not_fetch_all_again(serve: Serve, hub: HubClient) -> None:
    served = serve(pinned("acme/large", FIRST, FILLER))
    hub.fault("slow", path="/storage/*", bytes_per_second=150e6)
    taken_up: list[int] = []
    up = threading.Thread(target=lambda: taken_up.append(served.project.up().status))
    up.start()
    assert kill_stager_after(served, hub, bytes_sent=FILLER_BYTES * 3 // 4), "the stager was never seen at work"
    hub.clear_faults()
    up.join()
    assert taken_up == [0]
    # Each of 16 streams may download up to 64 MiB again.
    assert hub.bytes_sent() < FILLER_BYTES + MODEL_BYTES + 16 * 64 * 1024**2, served.stage_log()
    assert served.ask()


def test_a_mirror_serves_what_the_lock_lists_when_the_hub_is_down(
    serve: Serve, hub: HubClient, kubectl: Kubectl, environment: dict[str, str]
) -> None:
    served = serve(pinned("acme/model", FIRST))
    bucket, lock = f"mirror-{uuid.uuid4().hex[:8]}", "weights/model.lock.json"
    keys = {name: environment[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
    place = {name: environment[name] for name in ("AWS_ENDPOINT_URL_S3", "AWS_REGION")}
    boto3.client(
        "s3",
        endpoint_url=place["AWS_ENDPOINT_URL_S3"],
        region_name=place["AWS_REGION"],
        aws_access_key_id=keys["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=keys["AWS_SECRET_ACCESS_KEY"],
    ).create_bucket(Bucket=bucket)
    include = [f"--include={pattern}" for pattern in (MODEL_FILE, README)]
    (served.project.directory / lock).parent.mkdir(exist_ok=True)
    stager(served, "lock", "acme/model", "--revision", FIRST, *include, "--output", lock)
    stager(served, "mirror", lock, f"s3://{bucket}/models")

    hub.fault("status", status=503)
    hub.clear_requests()
    kubectl("create", "namespace", served.namespace)
    secrets = [f"--from-literal={name}={value}" for name, value in keys.items()]
    kubectl("create", "secret", "generic", "mirror", "-n", served.namespace, *secrets)
    sources = ["hub", f"s3://{bucket}/models"]
    served.project.configure(stage={"lock": lock, "sources": sources, "secret": "mirror", "environment": place})
    up = served.project.up()
    assert up.status == 0, up
    assert served.ask()
    manifest = json.loads(served.shell("cat .heavylift/manifest.json"))
    assert manifest["source"] == f"s3://{bucket}/models"
    assert hub.bytes_sent() == 0


def stager(served: Served, *arguments: str) -> None:
    """Runs the stager in the stack file's folder, as a user who prepares a stack does."""
    settings = {name: value for name, value in served.project.environment.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-m", "stager", *arguments]
    subprocess.run(command, cwd=served.project.directory, env=settings, check=True)


def kill_stager_after(served: Served, hub: HubClient, bytes_sent: int, seconds: float = 90) -> bool:
    """Kills the stager with SIGKILL when the hub has sent that many bytes."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if hub.bytes_sent() >= bytes_sent:
            served.lab.on_node("real-0", "pkill", "-KILL", "-f", "run_stager.py stage")
            return True
        time.sleep(0.1)
    return False
