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
        "--enable-prefix-caching": "enable_prefix_caching",
    },
    not_counted=frozenset(
        {
            # A draft model, adapters, copies of experts.
            *("--speculative-config", "--spec-method", "--spec-model", "--spec-tokens"),
            *("--enable-lora", "--lora-modules", "--max-loras", "--max-lora-rank", "--default-mm-loras"),
            *("--fully-sharded-loras", "--enable-tower-connector-lora", "--enable-mixed-moe-lora-format"),
            *("--enable-eplb", "--eplb-config", "--enable-elastic-ep", "--elastic-ep-max-dp-size"),
            # Other types, shapes and kernels of weights.
            *("--dtype", "--hf-overrides", "--hf-config-path", "--model-impl", "--model-class-overrides"),
            *("--quantization-config", "--moe-backend", "--linear-backend", "--all2all-backend", "--kernel-config"),
            *("--runner", "--convert", "--pooler-config", "--worker-cls", "--worker-extension-cls", "--config"),
            *("--weight-transfer-config", "--monokernel", "--additional-config", "--engram-config"),
            # The size and the layout of the KV cache.
            *("--kv-cache-memory-bytes", "--num-gpu-blocks-override", "--device-memory-utilization"),
            *("--kv-cache-dtype-skip-layers", "--kv-sharing-fast-prefill", "--disable-hybrid-kv-cache-manager"),
            *("--disable-sliding-window", "--swa-bounded-replay", "--attention-backend", "--attention-config"),
            *("--mamba-block-size", "--mamba-cache-dtype", "--mamba-cache-mode", "--mamba-ssm-cache-dtype"),
            *("--use-replayssm", "--replayssm-buffer-len", "--kv-transfer-config", "--ec-transfer-config"),
            # How ranks share the work.
            *(
                "--prefill-context-parallel-size",
                "--dcp-q-replicate",
                "--enable-dbo",
                "--ubatch-size",
                "--enable-hc-sp",
            ),
            # Activations, graphs and buffers.
            *("--enforce-eager", "--no-enable-chunked-prefill", "--performance-mode"),
            *("--optimization-level", "--compilation-config"),
            *("--cudagraph-capture-sizes", "--max-cudagraph-capture-size", "--enable-sleep-mode"),
            *("--enable-cumem-allocator", "--diffusion-config", "--enable-prompt-embeds"),
            # Images and videos.
            *("--limit-mm-per-prompt", "--skip-mm-profiling", "--mm-processor-kwargs", "--mm-processor-device"),
            *("--mm-ipc-gpu-memory-gb", "--mm-encoder-only", "--mm-encoder-attn-dtype", "--video-pruning-rate"),
        }
    ),
    off_gpu=frozenset(
        {
            *("--cpu-offload-gb", "--cpu-offload-params", "--offload-backend", "--offload-group-size"),
            *("--offload-num-in-group", "--offload-params", "--offload-prefetch-step"),
        }
    ),
    of_the_server=frozenset(
        {
            *("--model", "--served-model-name", "--host", "--port", "--uds"),
            # Of a group of nodes; on one node vLLM would wait for others, or never answer.
            *("--headless", "--nnodes", "--node-rank", "--master-addr", "--master-port"),
        }
    ),
)
