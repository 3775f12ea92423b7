"""Flags of SGLang that a stack's extra arguments may not set, and those that change no memory."""

from config.engine_name import EngineName
from engines.rules.arguments import KEY_IN_PLAIN_TEXT, FlagRules
from engines.sglang.process import KEYED

FLAGS = FlagRules(
    engine=EngineName.SGLANG,
    of_the_plan={
        "--tp-size": "tensor_parallel",
        "--pp-size": "pipeline_parallel",
        "--dp-size": "data_parallel",
        "--ep-size": "expert_parallel",
        "--dcp-size": "decode_context_parallel",
        "--context-length": "max_model_len",
        "--max-running-requests": "max_num_seqs",
        "--max-queued-requests": "max_num_queued_reqs",
        "--chunked-prefill-size": "max_num_batched_tokens",
        "--kv-cache-dtype": "kv_cache_dtype",
        "--mem-fraction-static": "gpu_memory_utilization",
        "--page-size": "block_size",
        "--quantization": "quantization",
        "--mm-enable-dp-encoder": "mm_encoder_tp_mode",
        "--disable-radix-cache": "enable_prefix_caching",
    },
    harmless=frozenset(
        {
            *("--abort-on-priority-when-disabled", "--allowed-media-domains", "--asr-max-buffer-seconds"),
            *("--asr-max-concurrent-sessions", "--bucket-e2e-request-latency", "--bucket-inter-token-latency"),
            *("--chat-template", "--completion-template", "--constrained-json-disable-any-whitespace"),
            *("--constrained-json-max-whitespace-cnt", "--constrained-json-whitespace-pattern"),
            *("--crash-dump-folder", "--decode-log-interval", "--default-chat-template-kwargs"),
            *("--default-priority-value", "--detokenizer-worker-num", "--disable-outlines-disk-cache"),
            *("--disable-priority-preemption", "--disable-tokenizer-batch-decode", "--dist-timeout"),
            *("--download-dir", "--enable-cache-report", "--enable-metrics-for-all-schedulers"),
            *("--enable-mfu-metrics", "--enable-priority-scheduling", "--enable-request-time-stats-logging"),
            *("--enable-strict-thinking", "--enable-tokenizer-batch-encode", "--export-metrics-to-file"),
            *("--export-metrics-to-file-dir", "--extra-metric-labels", "--fastapi-root-path", "--file-storage-path"),
            *("--gc-threshold", "--gc-warning-threshold-secs", "--generation-tokens-buckets", "--grammar-backend"),
            *("--hf-chat-template-name", "--incremental-streaming-output", "--kv-events-config", "--log-level"),
            *("--log-level-http", "--log-requests", "--log-requests-format", "--log-requests-level"),
            *("--log-requests-target", "--media-url-max-file-size-mb", "--model-checksum", "--otlp-service-name"),
            *("--otlp-traces-endpoint", "--preferred-sampling-params", "--priority-scheduling-preemption-threshold"),
            *("--prompt-tokens-buckets", "--random-seed", "--reasoning-parser", "--retraction-policy"),
            *("--return-input-ids", "--return-output-ids", "--revision", "--sampling-defaults"),
            *("--schedule-conservativeness", "--schedule-low-priority-values-first", "--schedule-policy"),
            *("--scheduler-recv-interval", "--show-time-cost", "--soft-watchdog-timeout", "--stream-interval"),
            *("--stream-response-default-include-usage", "--strip-thinking-cache", "--tokenizer-backend"),
            *("--tokenizer-metrics-allowed-custom-labels", "--tokenizer-metrics-custom-labels-header"),
            *("--tokenizer-mode", "--tokenizer-path", "--tokenizer-worker-num", "--tool-call-parser"),
            *("--trust-mm-content-hashes", "--trust-remote-code", "--trust-request-chat-template"),
            *("--uvicorn-access-log-exclude-prefixes", "--watchdog-timeout", "--weight-loader-disable-mmap"),
            *("--weight-loader-drop-cache-after-load", "--weight-loader-prefetch-checkpoints"),
            *("--weight-loader-prefetch-num-threads", "--weight-version"),
        }
    ),
    counted=frozenset(),
    only_add=frozenset({"--lora-paths", "--enable-lora", "--speculative-algorithm", "--speculative-draft-model-path"}),
    of_the_server=frozenset(
        {
            *("--model-path", "--served-model-name", "--host", "--port", "--enable-metrics", "--config"),
            # Of a group of nodes; on one node SGLang would wait for others.
            *("--nnodes", "--node-rank", "--dist-init-addr"),
        }
    ),
    # sglang/srt/environ.py (0.5.23) and where it is read.
    environment=(
        *("SGLANG_ENABLE_POST_CAPTURE_KV_SIZING", "SGLANG_PP_LAYER_PARTITION", "SGLANG_VLM_CACHE_SIZE_MB"),
        *("SGLANG_MM_FEATURE_CACHE_MB", "SGLANG_USE_CUDA_IPC_TRANSPORT", "SGLANG_SYMM_MEM_PREALLOC_GB_SIZE"),
        "SGLANG_DSA_*",
    ),
    refused_environment={KEYED.variable: KEY_IN_PLAIN_TEXT},
)
