"""Readers of weights that vLLM takes from packages of their own."""

from enum import StrEnum


class LoadFormat(StrEnum):
    """A reader, as vLLM's `--load-format` names it."""

    FASTSAFETENSORS = "fastsafetensors"
    INSTANTTENSOR = "instanttensor"
    RUNAI_STREAMER = "runai_streamer"
