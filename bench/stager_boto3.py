"""Downloads a bucket with boto3's transfer manager, one thread per file: `… BUCKET DIRECTORY`."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import boto3

if __name__ == "__main__":
    bucket, directory = sys.argv[1], Path(sys.argv[2])
    client = boto3.client("s3")
    keys = [item["Key"] for item in client.list_objects_v2(Bucket=bucket)["Contents"]]
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda key: client.download_file(bucket, key, str(directory / key)), keys))
