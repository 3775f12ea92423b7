"""The copy of the weights in S3, and the right to read it, which the stager has and no server."""

from collections.abc import Sequence
from typing import Any, NotRequired, TypedDict

import pulumi
import pulumi_aws as aws

from components.aws.roles import PODS, role


class WeightMirrorArgs(TypedDict):
    """The arguments of `WeightMirror`."""

    cluster_name: pulumi.Input[str]
    """Name of the EKS cluster, with the add-on `eks-pod-identity-agent`."""
    namespace: str
    """Namespace of the stager."""
    service_account: str
    """Service account of the stager's pods."""
    bucket: NotRequired[str | None]
    """Name of a bucket that exists. Unset: make one, which `pulumi destroy` keeps."""
    prefixes: NotRequired[Sequence[str]]
    """Prefixes that the stager may read, without slashes at their ends. Unset: the whole bucket."""


class WeightMirror(pulumi.ComponentResource):
    """A bucket with weights that the stager's service account can read."""

    bucket: pulumi.Output[str]
    """Name of the bucket."""

    def __init__(self, name: str, args: WeightMirrorArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("heavylift:index:WeightMirror", name, {}, opts)
        self._name, self._args = name, args
        existing = args.get("bucket")
        self.bucket = pulumi.Output.from_input(existing) if existing else self._bucket()
        made, _ = role(name, PODS, [], self)
        aws.iam.RolePolicy(
            name,
            role=made.name,
            policy=pulumi.Output.json_dumps(self._policy()),
            opts=pulumi.ResourceOptions(parent=self),
        )
        aws.eks.PodIdentityAssociation(
            name,
            cluster_name=args["cluster_name"],
            namespace=args["namespace"],
            service_account=args["service_account"],
            role_arn=made.arn,
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.register_outputs({"bucket": self.bucket})

    def _bucket(self) -> pulumi.Output[str]:
        """Makes a bucket that is private, encrypted and versioned. It outlives the stack, as its weights are costly."""
        kept = pulumi.ResourceOptions(parent=self, retain_on_delete=True)
        bucket = aws.s3.Bucket(self._name, opts=kept)
        aws.s3.BucketPublicAccessBlock(
            self._name,
            bucket=bucket.bucket,
            block_public_acls=True,
            block_public_policy=True,
            ignore_public_acls=True,
            restrict_public_buckets=True,
            opts=kept,
        )
        aws.s3.BucketServerSideEncryptionConfiguration(
            self._name,
            bucket=bucket.bucket,
            rules=[{"apply_server_side_encryption_by_default": {"sse_algorithm": "AES256"}}],
            opts=kept,
        )
        aws.s3.BucketVersioning(
            self._name, bucket=bucket.bucket, versioning_configuration={"status": "Enabled"}, opts=kept
        )
        return bucket.bucket

    def _policy(self) -> dict[str, Any]:
        """The rights of the stager: to list and read the prefixes, and nothing else."""
        arn = pulumi.Output.concat("arn:aws:s3:::", self.bucket)
        prefixes = sorted(set(self._args.get("prefixes") or ("",)))
        folders = [f"{prefix}/*" if prefix else "*" for prefix in prefixes]
        listed = {"StringLike": {"s3:prefix": [*(each for each in prefixes if each), *folders]}}
        return {
            "Version": "2012-10-17",
            "Statement": [
                {
                    "Effect": "Allow",
                    "Action": "s3:GetObject",
                    "Resource": [pulumi.Output.concat(arn, "/", folder) for folder in folders],
                },
                {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": arn, "Condition": listed},
            ],
        }
