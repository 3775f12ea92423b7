"""Rules of vLLM: what it refuses, and what it does slowly."""
