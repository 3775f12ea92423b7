"""The engines by name: what a stack file, the planner's command line and the catalogue's data call them."""

from enum import StrEnum


class EngineName(StrEnum):
    """The program that serves the model."""

    VLLM = "vllm"
    LLAMA_CPP = "llama.cpp"
