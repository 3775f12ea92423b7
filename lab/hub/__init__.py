"""A model hub and a package index on this machine, as faithful as their clients can tell, and as faulty as told.

    python -m lab.hub --repositories FILE [--host H] [--port P] [--storage-port P] [--wheels DIR] [--state-dir DIR]

It speaks what `huggingface_hub` 2.4 speaks over HTTP (models only, no Xet), so `HF_ENDPOINT=http://H:P` is all that a
client needs. It refuses a table that it cannot serve whole, unknown tokens, and a hub token at the storage.

**The table** (YAML or JSON; every key is described in `lab.hub.table`, unknown keys are refused)::

    repositories:
      acme/tiny:                       # owner/name
        gated: false                   # true: files only for tokens that list this repository
        revisions:
          - commit: 4d01…              # 40 hexadecimal digits; left out: the id that git would give
            branches: [main]           # some revision must have main
            tags: [v1]
            files:
              config.json:       {text: "{}"}
              model.gguf:        {disk: model.gguf, sha256: a5fd…}   # relative to the table; a given hash is trusted
              a/b.safetensors:   {generate: {seed: 1, size: 4 GiB}}  # made on the fly; hashed once, see --state-dir
              big.safetensors:   {generate: {seed: 2, size: 595 GB}, sha256: placeholder}  # to be listed, not verified
              notes.bin:         {text: "small", lfs: false}         # else in LFS by suffix or above 10 MiB
    tokens:
      - {token: hf_reader, user: reader, gated: [acme/gated]}

**Where bytes come from**: `/<owner>/<name>/resolve/<revision>/<path>` redirects, files in LFS to a signed URL on the
storage port, `/storage/<owner>/<name>/<commit>/<path>`, small files to `/api/resolve-cache/models/…`. Both honour
`Range` and `If-Range`. The storage's `ETag` is not the file's SHA-256: only `X-Linked-ETag` of `resolve` is.

**Faults** are told one by one, `curl -d '{"kind": "status", "path": "*/resolve/*", "status": 503}' H:P/lab/faults`,
listed with `GET` and cleared with `DELETE`. `path` is a shell pattern (`*` matches slashes), `method` one method,
`after` lets the first requests pass, `count` bounds how many are struck. `offset` counts from the start of the file,
and such a fault strikes only answers that contain this byte.

| kind | settings | what the client sees |
|---|---|---|
| `status` | `status`, `headers` | 429 with `{"Retry-After": "2"}`, 500, 502, 503, … instead of the answer |
| `reset` | | the connection reset instead of an answer |
| `html` | | a web page with status 200 instead of the answer |
| `redirect` | `location` | a redirect elsewhere; unset, to a port where nobody listens |
| `expire` | | 403 for this signed URL from now on; another `resolve` gives a good one |
| `etag` | `etag` | another `ETag` and `X-Linked-ETag` |
| `commit` | `commit` | another `X-Repo-Commit` |
| `move` | `commit` | branches point to that commit of the table |
| `reset_body` | `offset` | the connection reset in the middle of the body |
| `stall` | `offset`, `seconds` | no byte for so long, then the rest |
| `truncate` | `offset` | the connection closed in good order, although `Content-Length` promised more |
| `flip` | `offset` | a wrong byte |
| `length` | `by` | a file longer or shorter than announced, in good order |
| `slow` | `bytes_per_second` | this rate, shared by all answers that the fault strikes |
| `ignore_range` | | 200 and the whole file in answer to a range |

`GET /lab/requests` gives, by path, the number of requests, of answers by method and status, and the bytes of files
really sent (to within a mebibyte for each connection that broke); `DELETE` counts anew.

**The package index** is `/simple/` over the wheels in `--wheels`, with hashes. From Python: `lab.hub.client`.
"""
