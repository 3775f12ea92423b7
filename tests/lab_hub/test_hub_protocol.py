"""The hub's interface as `huggingface_hub` reads it, and git ids compared with those of git."""

import os
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest
from huggingface_hub import HfApi, RepoFile, RepoFolder, get_hf_file_metadata, hf_hub_url
from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RepositoryNotFoundError, RevisionNotFoundError

from lab.hub.client import HubClient, running_hub

from .conftest import PINNED, READER, STRANGER, Sample
from .plain_http import fetch, located


@pytest.fixture
def api(hub: HubClient) -> HfApi:
    return HfApi(endpoint=hub.url, token=False)


def git(*arguments: str, inside: Path, content: bytes | None = None) -> str:
    environment = {**os.environ, "GIT_DIR": str(inside / ".git"), "GIT_WORK_TREE": str(inside)}
    done = subprocess.run(["git", *arguments], input=content, env=environment, capture_output=True, check=True)
    return done.stdout.decode().strip()


def test_model_info_gives_sizes_and_hashes_of_files_in_lfs(api: HfApi, sample: Sample) -> None:
    info = api.model_info("acme/real", files_metadata=True)
    files = {file.rfilename: file for file in info.siblings or []}
    assert files["tiny.gguf"].size == len(sample.content)
    assert files["tiny.gguf"].lfs is not None
    assert files["tiny.gguf"].lfs.sha256 == sample.sha256
    assert files["README.md"].lfs is None
    assert files["README.md"].size == len("# tiny\n")


def test_model_info_without_metadata_gives_names_alone(api: HfApi) -> None:
    files = api.model_info("acme/real").siblings or []
    assert [(file.rfilename, file.size) for file in files] == [("README.md", None), ("tiny.gguf", None)]


def test_ids_are_those_that_git_gives(api: HfApi, tmp_path: Path) -> None:
    git("init", "-q", inside=tmp_path)
    for path in ("config.json", "nested/deep/notes.txt"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "config.json").write_text('{"architectures": ["Lab"]}\n')
    (tmp_path / "nested/deep/notes.txt").write_text("below two folders\n")
    entries = {entry.path: entry for entry in api.list_repo_tree("acme/generated", recursive=True)}
    shards = [entry for entry in entries.values() if isinstance(entry, RepoFile) and entry.lfs is not None]
    assert len(shards) == 2
    for shard in shards:
        assert shard.lfs is not None
        pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{shard.lfs.sha256}\nsize {shard.size}\n"
        assert shard.lfs.pointer_size == len(pointer)
        (tmp_path / shard.path).write_text(pointer)
    git("add", ".", inside=tmp_path)
    listed = git("ls-tree", "-r", "-t", git("write-tree", inside=tmp_path), inside=tmp_path).splitlines()
    expected = {path: ids.split()[2] for ids, path in (line.split("\t") for line in listed)}
    found = {path: entry.tree_id if isinstance(entry, RepoFolder) else entry.blob_id for path, entry in entries.items()}
    assert found == expected


def test_git_orders_folders_as_if_their_names_ended_in_a_slash(tmp_path: Path) -> None:
    files = {"a.txt": "1", "a/b": "2", "a-b": "3", "a0": "4"}
    table = {
        "repositories": {
            "acme/order": {"revisions": [{"branches": ["main"], "files": {p: {"text": t} for p, t in files.items()}}]}
        }
    }
    git("init", "-q", inside=tmp_path)
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    git("add", ".", inside=tmp_path)
    person = "heavylift lab <lab@heavylift.invalid> 0 +0000"
    tree = git("write-tree", inside=tmp_path)
    commit = f"tree {tree}\nauthor {person}\ncommitter {person}\n\nlab\n"
    expected = git("hash-object", "-t", "commit", "--stdin", inside=tmp_path, content=commit.encode())
    with running_hub(table) as hub:
        assert HfApi(endpoint=hub.url, token=False).model_info("acme/order").sha == expected


def test_branches_tags_and_commits_name_revisions(api: HfApi) -> None:
    head = api.model_info("acme/generated").sha
    assert head is not None
    assert api.model_info("acme/generated", revision=head).sha == head
    assert api.model_info("acme/generated", revision="refs/pr/1").sha == head
    assert {api.model_info("acme/generated", revision=name).sha for name in ("old", "v1", PINNED)} == {PINNED}
    references = api.list_repo_refs("acme/generated")
    assert {branch.name: branch.target_commit for branch in references.branches} == {
        "main": head,
        "refs/pr/1": head,
        "old": PINNED,
    }
    assert [(tag.name, tag.ref, tag.target_commit) for tag in references.tags] == [("v1", "refs/tags/v1", PINNED)]


def test_a_long_tree_comes_in_pages(api: HfApi, hub: HubClient) -> None:
    paths = [entry.path for entry in api.list_repo_tree("acme/wide")]
    assert paths == [f"f{i:04d}.txt" for i in range(1500)]
    assert hub.requests()["/api/models/acme/wide/tree/main"].requests == 2


def test_a_tree_may_start_at_a_folder(api: HfApi) -> None:
    assert [entry.path for entry in api.list_repo_tree("acme/generated", "nested")] == ["nested/deep"]
    inside = api.list_repo_tree("acme/generated", "nested/deep")
    assert [entry.path for entry in inside] == ["nested/deep/notes.txt"]


def test_paths_info_leaves_out_what_is_not_there(api: HfApi) -> None:
    found = api.get_paths_info("acme/generated", ["config.json", "nested", "none"])
    assert [(type(entry).__name__, entry.path) for entry in found] == [
        ("RepoFile", "config.json"),
        ("RepoFolder", "nested"),
    ]


def test_half_a_terabyte_is_listed_without_being_hashed(api: HfApi) -> None:
    files = api.model_info("acme/huge", files_metadata=True).siblings or []
    assert sum(file.size or 0 for file in files) == 64 * 9_300_000_000


def test_resolve_says_what_a_file_in_lfs_is_and_sends_the_client_to_another_origin(
    api: HfApi, hub: HubClient, sample: Sample
) -> None:
    metadata = get_hf_file_metadata(hf_hub_url("acme/real", "tiny.gguf", endpoint=hub.url))
    assert metadata.commit_hash == api.model_info("acme/real").sha
    assert metadata.etag == sample.sha256
    assert metadata.size == len(sample.content)
    assert metadata.location.startswith(f"{hub.storage_url}/storage/acme/real/")
    assert urlsplit(metadata.location).netloc != urlsplit(hub.url).netloc


def test_resolve_says_what_a_small_file_is(api: HfApi, hub: HubClient) -> None:
    metadata = get_hf_file_metadata(hf_hub_url("acme/real", "README.md", endpoint=hub.url))
    blob_ids = {
        file.rfilename: file.blob_id for file in api.model_info("acme/real", files_metadata=True).siblings or []
    }
    assert metadata.etag == blob_ids["README.md"]
    assert metadata.size == len("# tiny\n")
    assert metadata.commit_hash == api.model_info("acme/real").sha


def test_the_entity_tag_of_the_storage_is_not_the_hash_of_the_file(hub: HubClient, sample: Sample) -> None:
    answer = fetch(located(f"{hub.url}/acme/real/resolve/main/tiny.gguf"))
    assert answer.body == sample.content
    assert len(answer.headers["ETag"].strip('"')) == 64
    assert answer.headers["ETag"].strip('"') != sample.sha256


def test_the_storage_refuses_a_hub_token(hub: HubClient) -> None:
    bearer = {"Authorization": f"Bearer {READER}"}
    url = located(f"{hub.url}/acme/real/resolve/main/tiny.gguf", headers=bearer)
    assert fetch(url, headers=bearer).status == 400
    assert fetch(url).status == 200


def test_a_signed_url_is_good_for_its_own_path_only(hub: HubClient) -> None:
    url = urlsplit(located(f"{hub.url}/acme/generated/resolve/main/model-00001-of-00002.safetensors"))
    other = url._replace(path=url.path.replace("00001-of", "00002-of")).geturl()
    assert fetch(url.geturl()).status == 200
    assert fetch(other).status == 403
    assert fetch(url._replace(query="").geturl()).status == 403


def test_a_signed_url_expires(sample: Sample, tmp_path: Path) -> None:
    table = {
        "repositories": {
            "acme/real": {"revisions": [{"branches": ["main"], "files": {"w.gguf": {"disk": str(sample.path)}}}]}
        }
    }
    with running_hub(table, url_lifetime=0.001) as hub:
        assert fetch(located(f"{hub.url}/acme/real/resolve/main/w.gguf")).status == 403


def test_a_small_file_is_compressed_for_whoever_accepts_it(hub: HubClient) -> None:
    url = located(f"{hub.url}/acme/real/resolve/main/README.md")
    compressed = fetch(url, headers={"Accept-Encoding": "gzip"})
    assert compressed.headers["Content-Encoding"] == "gzip"
    assert "Content-Length" not in compressed.headers
    assert httpx2.get(url, trust_env=False).text == "# tiny\n"
    assert fetch(url).body == b"# tiny\n"


def test_whoami_knows_the_user_of_a_token(api: HfApi) -> None:
    assert api.whoami(token=READER)["name"] == "reader"
    with pytest.raises(HfHubHTTPError, match="Invalid user token"):
        api.whoami(token="hf_made_up")


def test_the_list_of_a_gated_repository_is_open_but_its_files_are_not(api: HfApi, hub: HubClient) -> None:
    assert api.model_info("acme/gated").gated == "auto"
    url = hf_hub_url("acme/gated", "w.bin", endpoint=hub.url)
    api.auth_check("acme/gated", token=READER)
    assert get_hf_file_metadata(url, token=READER).size == len("secret")
    with pytest.raises(GatedRepoError, match="must have access to it and be authenticated") as anonymous:
        get_hf_file_metadata(url, token=False)
    with pytest.raises(GatedRepoError, match="not in the authorized list") as stranger:
        get_hf_file_metadata(url, token=STRANGER)
    assert (anonymous.value.response.status_code, stranger.value.response.status_code) == (401, 403)
    with pytest.raises(GatedRepoError):
        api.auth_check("acme/gated", token=STRANGER)


def test_a_small_file_of_a_gated_repository_cannot_be_had_past_resolve(hub: HubClient) -> None:
    bearer = {"Authorization": f"Bearer {READER}"}
    url = located(f"{hub.url}/acme/gated/resolve/main/config.json", headers=bearer)
    assert fetch(url, headers=bearer).status == 200
    assert fetch(url).status == 401


def test_a_missing_repository_is_hidden_from_the_anonymous_and_named_to_users(api: HfApi) -> None:
    with pytest.raises(RepositoryNotFoundError, match="Invalid username or password") as anonymous:
        api.model_info("acme/none")
    with pytest.raises(RepositoryNotFoundError, match="Repository Not Found") as user:
        api.model_info("acme/none", token=READER)
    assert (anonymous.value.response.status_code, user.value.response.status_code) == (401, 404)


def test_a_missing_revision_and_a_missing_file_are_told_apart(api: HfApi, hub: HubClient) -> None:
    with pytest.raises(RevisionNotFoundError, match="Invalid rev id: nope"):
        api.model_info("acme/real", revision="nope")
    missing = fetch(f"{hub.url}/acme/real/resolve/main/none.bin")
    assert missing.status == 404
    assert missing.headers["X-Error-Code"] == "EntryNotFound"
    assert missing.headers["X-Repo-Commit"] == api.model_info("acme/real").sha
