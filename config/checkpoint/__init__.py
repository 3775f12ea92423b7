"""Reads checkpoints: `config.json`, safetensors headers and GGUF metadata. Weights are never read."""
