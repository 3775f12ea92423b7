"""Flags of vLLM that a stack's extra arguments may not set, and those that change no memory."""

from config.engine_name import EngineName
from engines.rules.arguments import KEY_IN_PLAIN_TEXT, FlagRules
from engines.vllm.process import KEYED

FLAGS = FlagRules(
    engine=EngineName.VLLM,
    of_the_plan={
        "--tensor-parallel-size": "tensor_parallel",
        "--pipeline-parallel-size": "pipeline_parallel",
        "--data-parallel-size": "data_parallel",
        "--enable-expert-parallel": "expert_parallel",
        "--prefill-context-parallel-size": "prefill_context_parallel",
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
        "--enforce-eager": "enforce_eager",
        "--enable-lora": "max_loras",
        "--max-loras": "max_loras",
        "--max-lora-rank": "max_lora_rank",
        "--enable-eplb": "redundant_experts",
        "--eplb-config": "redundant_experts",
        "--cpu-offload-gb": "cpu_offload_gb",
        "--kv-offloading-size": "kv_offload",
        "--load-format": "load_format",
        "--max-num-queued-reqs": "max_num_queued_reqs",
        "--shutdown-timeout": "drain",
        "--spec-model": "draft",
        "--spec-method": "draft",
        "--spec-tokens": "speculative_tokens",
    },
    harmless=frozenset(
        {
            *("--aggregate-engine-logging", "--allow-credentials", "--allow-deprecated-quantization"),
            *("--allowed-headers", "--allowed-local-media-path", "--allowed-media-domains", "--allowed-methods"),
            *("--allowed-origins", "--anthropic-disabled-thinking-effort", "--chat-template"),
            *("--chat-template-content-format", "--code-revision", "--cohere-format", "--cohere-is-reasoning-model"),
            *("--collect-detailed-traces", "--cpu-distributed-timeout-seconds", "--cudagraph-metrics"),
            *("--custom-histogram-buckets", "--default-chat-template-kwargs", "--disable-access-log-for-endpoints"),
            *("--disable-cascade-attn", "--disable-chunked-mm-input", "--disable-fastapi-docs"),
            *("--disable-log-stats", "--disable-nccl-for-dp-synchronization", "--disable-uvicorn-access-log"),
            *("--distributed-executor-backend", "--distributed-timeout-seconds", "--download-dir"),
            *("--dp-supervisor-probe-failure-threshold", "--dp-supervisor-probe-interval-s"),
            *("--dp-supervisor-probe-timeout-s", "--dp-sync-interval", "--enable-auto-tool-choice"),
            *("--enable-ep-weight-filter", "--enable-flashinfer-autotune", "--enable-force-include-usage"),
            *("--enable-layerwise-nvtx-tracing", "--enable-log-deltas", "--enable-log-outputs"),
            *("--enable-log-requests", "--enable-logging-iteration-details", "--enable-mfu-metrics"),
            *("--enable-offline-docs", "--enable-per-request-metrics", "--enable-prompt-tokens-details"),
            *("--enable-request-id-headers", "--enable-server-load-tracking", "--enable-ssl-refresh"),
            *("--enable-tokenizer-info-endpoint", "--exclude-tools-when-tool-choice-none"),
            *("--expert-placement-strategy", "--fail-on-environ-validation", "--fingerprint-mode"),
            *("--fingerprint-value", "--generation-config", "--h11-max-header-count"),
            *("--h11-max-incomplete-event-size", "--hf-token", "--ignore-patterns", "--interleave-mm-strings"),
            *("--jit-monitor-mode", "--jit-monitor-verbose", "--kv-cache-metrics", "--kv-cache-metrics-sample"),
            *("--kv-events-config", "--log-config-file", "--log-error-stack", "--log-level", "--logging-config"),
            *("--long-prefill-token-threshold", "--long-prefill-token-threshold-adaptive", "--max-log-len"),
            *("--max-num-queued-tokens", "--max-parallel-loading-workers", "--middleware"),
            *("--mm-hasher-algorithm", "--numa-bind", "--numa-bind-cpus", "--numa-bind-nodes"),
            *("--otlp-traces-endpoint", "--override-generation-config", "--per-request-spec-decode-metrics"),
            *("--prefill-schedule-interval", "--prefix-caching-hash-algo", "--reasoning-config"),
            *("--reasoning-effort-map", "--reasoning-parser", "--reasoning-parser-plugin", "--response-role"),
            *("--return-tokens-as-token-ids", "--revision", "--root-path", "--scheduler-reserve-full-isl"),
            *("--scheduling-policy", "--seed", "--show-hidden-metrics-for-version"),
            *("--skip-tokenizer-init", "--sse-keep-alive-interval", "--ssl-ca-certs", "--ssl-cert-reqs"),
            *("--ssl-certfile", "--ssl-ciphers", "--ssl-keyfile", "--stream-interval", "--structured-outputs-config"),
            *("--tokenizer", "--tokenizer-mode", "--tokenizer-revision", "--tokens-only", "--tool-call-parser"),
            *("--tool-parser-plugin", "--tool-server", "--tool-strict-level", "--trust-remote-code"),
            *("--trust-request-chat-template", "--use-tqdm-on-load", "--uvicorn-log-level", "--watchdog-config"),
        }
    ),
    counted=frozenset(),
    only_add=frozenset(
        {
            # Draft models, adapters, copies of experts, and buffers.
            "--speculative-config",
            *("--lora-modules", "--default-mm-loras", "--fully-sharded-loras"),
            *("--enable-tower-connector-lora", "--enable-mixed-moe-lora-format"),
            *("--enable-prompt-embeds", "--enable-return-routed-experts", "--use-fp64-gumbel"),
        }
    ),
    of_the_server=frozenset(
        {
            *("--model", "--served-model-name", "--host", "--port", "--uds"),
            # Of a group of nodes; on one node vLLM would wait for others, or never answer.
            *("--headless", "--nnodes", "--node-rank", "--master-addr", "--master-port"),
        }
    ),
    # vllm/envs.py (0.33.0) and where it is read.
    environment=(
        *("VLLM_MLA_DISABLE", "VLLM_PP_LAYER_PARTITION", "VLLM_ALLOW_LONG_MAX_MODEL_LEN"),
        *("VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS", "VLLM_USE_SIMPLE_KV_OFFLOAD"),
        *("VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE", "VLLM_DEEPEP_BUFFER_SIZE_MB"),
        *("VLLM_ALLREDUCE_USE_SYMM_MEM", "VLLM_USE_NCCL_SYMM_MEM"),
        "VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE",
    ),
    refused_environment={
        KEYED.variable: KEY_IN_PLAIN_TEXT,
        # vllm/entrypoints/serve/dev (0.33.0): `/collective_rpc`, `/sleep` and others, for all who reach the server.
        "VLLM_SERVER_DEV_MODE": "lets every client run methods of the engine's workers",
    },
)
