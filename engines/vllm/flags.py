"""Flags of vLLM that a stack's extra arguments may not set, or that the plan does not count."""

from config.engine_name import EngineName
from engines.rules.arguments import FlagRules

FLAGS = FlagRules(
    engine=EngineName.VLLM,
    of_the_plan={
        "--tensor-parallel-size": "tensor_parallel",
        "--pipeline-parallel-size": "pipeline_parallel",
        "--data-parallel-size": "data_parallel",
        "--enable-expert-parallel": "expert_parallel",
        "--decode-context-parallel-size": "decode_context_parallel",
        "--max-model-len": "max_model_len",
        "--max-num-seqs": "max_num_seqs",
        "--max-num-batched-tokens": "max_num_batched_tokens",
        "--kv-cache-dtype": "kv_cache_dtype",
        "--gpu-memory-utilization": "gpu_memory_utilization",
        "--block-size": "block_size",
        "--quantization": "quantization",
        "--mm-encoder-tp-mode": "mm_encoder_tp_mode",
        "--language-model-only": "language_model_only",
    },
    not_counted=frozenset(
        {
            "--enable-lora",
            "--enforce-eager",
            "--kv-cache-memory-bytes",
            "--num-gpu-blocks-override",
            "--speculative-config",
            "--spec-method",
            "--spec-model",
        }
    ),
    off_gpu=frozenset({"--cpu-offload-gb"}),
    of_the_server=frozenset(
        {
            *("--model", "--served-model-name", "--host", "--port", "--uds"),
            # Of a group of nodes; on one node vLLM would wait for others, or never answer.
            *("--headless", "--nnodes", "--node-rank", "--master-addr", "--master-port"),
        }
    ),
)
