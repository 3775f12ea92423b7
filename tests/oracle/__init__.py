"""vLLM's own model code as the judge of the planner: bytes of weights and tokens of KV cache, without a GPU.

`python -m tests.oracle` (or `make oracle`) makes an environment with vLLM's Python sources in the cache directory,
builds every pair of model and layout in `tests/data/oracle/pairs.json` there, and writes
`tests/data/oracle/<release>.json`. `tests.oracle.engine` is what runs inside that environment.
"""
