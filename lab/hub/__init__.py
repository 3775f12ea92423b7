"""A local model hub and package index with the protocols of the real ones, and with faults on request.

    python -m lab.hub --repositories FILE [--host H] [--port P] [--storage-port P] [--wheels DIR] [--state-dir DIR]

It has the HTTP API that `huggingface_hub` 2.4 uses (models only, no Xet). A client only needs `HF_ENDPOINT=http://H:P`.
It rejects a table that it cannot serve completely, unknown tokens, and a hub token sent to the storage.

**The table** (YAML or JSON; keys: `lab.hub.stored.table`; unknown keys are errors)::

    repositories:
      acme/tiny:                       # owner/name
        gated: false                   # true: files only for tokens that list this repository
        revisions:
          - commit: 4d01…              # 40 hexadecimal digits; unset: the id that git gives
            branches: [main]           # one revision must have main
            tags: [v1]
            files:
              config.json:       {text: "{}"}
              model.gguf:        {disk: model.gguf, sha256: a5fd…}   # relative to the table; the hash is not checked
              a/b.safetensors:   {generate: {seed: 1, size: 4 GiB}}  # generated; hashed once, see --state-dir
              big.safetensors:   {generate: {seed: 2, size: 595 GB}, sha256: placeholder}  # listed, never verified
              notes.bin:         {text: "small", lfs: false}         # unset: in LFS by suffix or above 10 MiB
    tokens:
      - {token: hf_reader, user: reader, gated: [acme/gated]}

**Downloads**: `/<owner>/<name>/resolve/<revision>/<path>` redirects. For a file in LFS it redirects to a signed URL on
the storage port, `/storage/<owner>/<name>/<commit>/<path>`, and for a small file to `/api/resolve-cache/models/…`. Both
honour `Range` and `If-Range`. The file's SHA-256 is in `X-Linked-ETag` of `resolve`, not in the storage's `ETag`.

**Faults**: `curl -d '{"kind": "status", "path": "*/resolve/*", "status": 503}' H:P/lab/faults` adds one, `GET` lists
all and `DELETE` removes all. `path` is a shell pattern (`*` matches slashes), `method` one method, `after` the number
of requests before the first affected one, `count` the maximum number of affected requests. `offset` counts from the
start of the file; a fault with an offset affects only responses that contain this byte.

| kind | settings | what the client sees |
|---|---|---|
| `status` | `status`, `headers` | 429 with `{"Retry-After": "2"}`, 500, 502, 503, … instead of the response |
| `reset` | | a connection reset instead of the response |
| `html` | | a web page with status 200 instead of the response |
| `redirect` | `location` | a redirect to `location`; unset: to a port on which no server listens |
| `expire` | | 403 for this signed URL from now on; another `resolve` returns a valid one |
| `etag` | `etag` | another `ETag` and `X-Linked-ETag` |
| `commit` | `commit` | another `X-Repo-Commit` |
| `move` | `commit` | branches point to that commit of the table |
| `reset_body` | `offset` | a connection reset within the body |
| `stall` | `offset`, `seconds` | no byte for `seconds`, then the rest |
| `truncate` | `offset` | a connection closed normally before the end that `Content-Length` gives |
| `flip` | `offset` | a wrong byte |
| `length` | `by` | a complete file, longer or shorter than the hub's API says |
| `slow` | `bytes_per_second` | this rate, shared by all affected responses |
| `ignore_range` | | 200 and the whole file in response to a range request |

**Requests**: `GET /lab/requests` returns, by path, the numbers of requests and of responses by method and status, and
the file bytes sent (accurate to 1 MiB for each broken connection). `DELETE` resets the counters.

**The package index** is `/simple/` over the wheels in `--wheels`, with hashes. From Python: `lab.hub.client`.
"""
