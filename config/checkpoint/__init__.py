"""What a checkpoint consists of: `config.json`, safetensors and GGUF headers, read without reading a weight."""
