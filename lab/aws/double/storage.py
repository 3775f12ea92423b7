"""S3 buckets with their settings, and KMS keys."""

from typing import Any

from lab.aws.double.kind import Api, delete, found, tag_list, tag_map
from lab.aws.double.wire import Properties, pascal

ENCRYPTION = {"sseAlgorithm": "SSEAlgorithm", "kmsMasterKeyId": "KMSMasterKeyID"}


class Bucket:
    """A bucket."""

    def create(self, api: Api, given: Properties) -> str:
        """Creates it in the provider's region."""
        client = api("s3")
        region = client.meta.region_name
        place = {} if region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": region}}
        client.create_bucket(Bucket=given["bucket"], **place)
        if given.get("tags"):
            client.put_bucket_tagging(Bucket=given["bucket"], Tagging={"TagSet": tag_list(given)})
        return str(given["bucket"])

    def read(self, api: Api, identity: str, state: Properties) -> Properties | None:
        """Reads it."""
        client = api("s3")
        if found(client.head_bucket, Bucket=identity) is None:
            return None
        tags = found(client.get_bucket_tagging, Bucket=identity) if state.get("tags") else None
        return {
            "arn": f"arn:aws:s3:::{identity}",
            "bucket": identity,
            "bucketRegionalDomainName": f"{identity}.s3.{client.meta.region_name}.amazonaws.com",
            "tags": tag_map(tags and tags["TagSet"]),
        }

    def update(self, api: Api, identity: str, old: Properties, new: Properties) -> None:
        """Changes its tags."""
        api("s3").put_bucket_tagging(Bucket=identity, Tagging={"TagSet": tag_list(new)})

    def delete(self, api: Api, identity: str, state: Properties) -> None:
        """Deletes it if it is empty."""
        delete(api("s3").delete_bucket, Bucket=identity)


class BucketSetting:
    """A setting of a bucket. `put`, `get` and `remove` are S3's operations; None: S3 has no such."""

    def __init__(self, argument: str | None, parameter: str, put: str, get: str, remove: str | None) -> None:
        self._argument, self._parameter = argument, parameter
        self._put, self._get, self._remove = put, get, remove

    def _sent(self, given: Properties) -> Any:
        if self._argument == "rules":
            return {"Rules": pascal(given["rules"], ENCRYPTION)}
        if self._argument:
            return pascal(given[self._argument], {})
        return pascal({name: value for name, value in given.items() if name != "bucket"}, {})

    def create(self, api: Api, given: Properties) -> str:
        """Puts it."""
        getattr(api("s3"), self._put)(Bucket=given["bucket"], **{self._parameter: self._sent(given)})
        return str(given["bucket"])

    def read(self, api: Api, identity: str, state: Properties) -> Properties | None:
        """Reads whether the bucket has it. Its values: not in the double."""
        return {"bucket": identity} if found(getattr(api("s3"), self._get), Bucket=identity) is not None else None

    def update(self, api: Api, identity: str, old: Properties, new: Properties) -> None:
        """Puts it anew."""
        self.create(api, new)

    def delete(self, api: Api, identity: str, state: Properties) -> None:
        """Removes it."""
        if self._remove:
            delete(getattr(api("s3"), self._remove), Bucket=identity)


class Key:
    """A key of KMS."""

    def create(self, api: Api, given: Properties) -> str:
        """Creates it."""
        tags = [{"TagKey": each["Key"], "TagValue": each["Value"]} for each in tag_list(given)]
        made = api("kms").create_key(Description=given.get("description", "Managed by Pulumi"), Tags=tags)
        identity = str(made["KeyMetadata"]["KeyId"])
        if given.get("enableKeyRotation"):
            api("kms").enable_key_rotation(KeyId=identity)
        return identity

    def read(self, api: Api, identity: str, state: Properties) -> Properties | None:
        """Reads it. A key that waits to be deleted is gone (terraform-provider-aws, kms/key.go)."""
        answer = found(api("kms").describe_key, KeyId=identity)
        if answer is None or answer["KeyMetadata"]["KeyState"] == "PendingDeletion":
            return None
        key = answer["KeyMetadata"]
        rotation = api("kms").get_key_rotation_status(KeyId=identity)["KeyRotationEnabled"]
        tags = api("kms").list_resource_tags(KeyId=identity)["Tags"]
        return {
            "arn": key["Arn"],
            "keyId": identity,
            "description": key["Description"],
            "enableKeyRotation": rotation,
            "tags": {each["TagKey"]: each["TagValue"] for each in tags},
        }

    def update(self, api: Api, identity: str, old: Properties, new: Properties) -> None:
        """Changes description and rotation."""
        if old.get("description") != new.get("description"):
            api("kms").update_key_description(KeyId=identity, Description=new.get("description", ""))
        if old.get("enableKeyRotation") != new.get("enableKeyRotation"):
            turn = api("kms").enable_key_rotation if new.get("enableKeyRotation") else api("kms").disable_key_rotation
            turn(KeyId=identity)

    def delete(self, api: Api, identity: str, state: Properties) -> None:
        """Schedules its deletion."""
        days = state.get("deletionWindowInDays", 30)
        delete(api("kms").schedule_key_deletion, KeyId=identity, PendingWindowInDays=days)
