"""Flags of llama-server that a stack's extra arguments may not set, or that the plan does not count."""

from config.engine_name import EngineName
from engines.rules.arguments import FlagRules

FLAGS = FlagRules(
    engine=EngineName.LLAMA_CPP,
    of_the_plan={
        "--ctx-size": "max_model_len",
        "-c": "max_model_len",
        "--parallel": "max_num_seqs",
        "-np": "max_num_seqs",
        "-ctk": "kv_cache_dtype",
        "-ctv": "kv_cache_dtype",
        "--cpu-moe": "expert_offload",
        "-cmoe": "expert_offload",
    },
    not_counted=frozenset(
        {
            "--mmproj",
            "--split-mode",
            "-sm",
            "--tensor-split",
            "-ts",
            "--ubatch-size",
            "-ub",
        }
    ),
    off_gpu=frozenset(
        {
            *("--gpu-layers", "--n-gpu-layers", "-ngl"),
            *("--n-cpu-moe", "-ncmoe"),
            *("--override-tensor", "-ot"),
        }
    ),
    of_the_server=frozenset({"--model", "-m", "-hf", "--alias", "-a", "--host", "--port"}),
)
