"""What vLLM does not allow or does badly, one file per model."""
