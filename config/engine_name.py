"""Names of the engines, as stack files, the planner's command line and the catalogue use them."""

from enum import StrEnum


class EngineName(StrEnum):
    """An inference engine."""

    VLLM = "vllm"
    SGLANG = "sglang"
    LLAMA_CPP = "llama.cpp"
