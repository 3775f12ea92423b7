"""The memory of one GPU under vLLM: weights, overhead, and the KV cache that is left."""
