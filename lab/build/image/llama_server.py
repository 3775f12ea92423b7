#!/usr/bin/env python3
"""A test double of llama-server's command line, and of nothing else: the server behind it is llama.cpp's own.

The flags are those of llama.cpp's tools/server that a deployment gives; as there, an unknown flag is an error.
"""

import argparse
import os
import signal
import sys

import xllamacpp

FLASH_ATTENTION = {
    "on": xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_ENABLED,
    "off": xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED,
    "auto": xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_AUTO,
}


def gpu_layers(text: str) -> int:
    """`auto`, `all` or a number; this machine has no GPU, so that any of them means none."""
    return {"auto": -1, "all": 999}.get(text) or int(text)


def parser() -> argparse.ArgumentParser:
    """The flags, with llama-server's defaults."""
    flags = argparse.ArgumentParser(prog="llama-server", allow_abbrev=False)
    flags.add_argument("-m", "--model", required=True)
    flags.add_argument("-a", "--alias")
    flags.add_argument("--host", default="127.0.0.1")
    flags.add_argument("--port", type=int, default=8080)
    flags.add_argument("-c", "--ctx-size", type=int, default=0)
    flags.add_argument("-np", "--parallel", type=int, default=1)
    flags.add_argument("-t", "--threads", type=int)
    flags.add_argument("-b", "--batch-size", type=int)
    flags.add_argument("-ub", "--ubatch-size", type=int)
    flags.add_argument("-ngl", "--gpu-layers", "--n-gpu-layers", type=gpu_layers, default=-1)
    flags.add_argument("-fa", "--flash-attn", choices=FLASH_ATTENTION, default="auto")
    flags.add_argument("-ot", "--override-tensor", default="")
    flags.add_argument("-cb", "--cont-batching", action=argparse.BooleanOptionalAction, default=True)
    flags.add_argument("--jinja", action=argparse.BooleanOptionalAction, default=True)
    flags.add_argument("--warmup", action=argparse.BooleanOptionalAction, default=True)
    flags.add_argument("--metrics", action="store_true")
    flags.add_argument("--offline", action="store_true")
    flags.add_argument("--sleep-idle-seconds", type=int, default=-1)
    return flags


def parameters(flags: argparse.Namespace) -> xllamacpp.CommonParams:
    """llama.cpp's own parameters for these flags."""
    chosen = xllamacpp.CommonParams()
    chosen.model.path = flags.model
    chosen.model_alias = {flags.alias} if flags.alias else set()
    chosen.hostnames = [flags.host]
    chosen.port = flags.port
    chosen.n_ctx = flags.ctx_size
    chosen.n_parallel = flags.parallel
    chosen.n_gpu_layers = flags.gpu_layers
    chosen.flash_attn_type = FLASH_ATTENTION[flags.flash_attn]
    chosen.tensor_buft_overrides = flags.override_tensor
    chosen.cont_batching = flags.cont_batching
    chosen.use_jinja = flags.jinja
    chosen.warmup = flags.warmup
    chosen.endpoint_metrics = flags.metrics
    chosen.offline = flags.offline
    chosen.sleep_idle_seconds = flags.sleep_idle_seconds
    chosen.api_keys = [key for key in os.environ.get("LLAMA_API_KEY", "").split(",") if key]
    if flags.threads:
        chosen.cpuparams.n_threads = flags.threads
    if flags.batch_size:
        chosen.n_batch = flags.batch_size
    if flags.ubatch_size:
        chosen.n_ubatch = flags.ubatch_size
    return chosen


def main() -> None:
    """Serves until told to stop."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    server = xllamacpp.Server(parameters(parser().parse_args()))
    print(f"listening on {server.listening_address}", flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
