# Starts SGLang, which takes its API key as an argument only. Arguments: those of its server.
exec python3 -m sglang.launch_server "$@" ${SGLANG_API_KEY:+--api-key "$SGLANG_API_KEY"}
