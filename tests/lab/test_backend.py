"""The state of stacks as docs/review.md sets it up: in a bucket, with secrets encrypted by a key of KMS (moto's)."""

import shutil
from pathlib import Path

import pytest

from lab.aws.client import LabAWS
from lab.aws.server.running import running_server
from lab.engine import Engine
from lab.project import NOT_COPIED, Project
from lab.site import CHECKOUT
from tests.stager_faults.s3_server import BUCKET, running_s3

pytestmark = pytest.mark.xdist_group("promotion")

SECRET = "hf_a_token"
CLUSTER = {"HEAVYLIFT_KUBECONFIG": str(CHECKOUT / "tests" / "kubeconfig.yaml"), "HEAVYLIFT_KUBE_CONTEXT": "test"}


def test_the_state_is_in_a_bucket_and_only_the_key_decrypts_its_secrets(tmp_path: Path) -> None:
    engine = Engine(tmp_path / "engine")
    engine.install()
    program = tmp_path / "program"
    shutil.copytree(CHECKOUT, program, ignore=NOT_COPIED)
    with running_s3(tmp_path / "s3") as s3, running_server() as url:
        kms = LabAWS(url, "us-east-1").api("kms")
        key = kms.create_key()["KeyMetadata"]["KeyId"]
        kms.create_alias(AliasName="alias/heavylift", TargetKeyId=key)
        place = f"region=us-east-1&endpoint={s3.url.removeprefix('http://')}&s3ForcePathStyle=true&disableSSL=true"
        environment = {
            **engine.settings,
            **CLUSTER,
            **s3.environment,
            "AWS_ENDPOINT_URL_KMS": url,
            "PULUMI_BACKEND_URL": f"s3://{BUCKET}?{place}",
            "PULUMI_CONFIG_PASSPHRASE": "",
        }
        project = Project(program, environment, "h200")
        made = project.pulumi(
            "stack", "init", "h200", "--secrets-provider", "awskms://alias/heavylift?region=us-east-1"
        )
        assert made.status == 0, made
        stored = project.pulumi("config", "set", "--secret", "heavylift:hub_token", SECRET, "--stack", "h200")
        assert stored.status == 0, stored
        preview = project.preview()
        assert preview.status == 0, preview
        assert SECRET not in (program / "Pulumi.h200.yaml").read_text() + preview.output

        read = ("config", "get", "heavylift:hub_token", "--stack", "h200")
        assert project.pulumi(*read).output.strip() == SECRET
        nowhere = {"AWS_ENDPOINT_URL_KMS": "http://127.0.0.1:9"}
        assert project.pulumi(*read, environment=nowhere).status != 0
