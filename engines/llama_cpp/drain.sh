# Runs before llama-server is told to stop, which ends running requests at once. Arguments: seconds until clients know
# that the server ends, port, most seconds to wait for running requests.
sleep "$1"
waited=0
while [ "$waited" -lt "$3" ]; do
  metrics=$(printf 'X-Api-Key: %s\n' "$LLAMA_API_KEY" |
    curl --silent --fail --max-time 5 --header @- "http://127.0.0.1:$2/metrics") || break
  case $metrics in
    *llamacpp:requests_processing\ [1-9]* | *llamacpp:requests_deferred\ [1-9]*) sleep 1 ;;
    *) break ;;
  esac
  waited=$((waited + 1))
done
