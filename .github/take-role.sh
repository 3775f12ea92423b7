#!/usr/bin/env bash
# Lets AWS' clients in later steps of the job take the role $ROLE, with the token that GitHub gives to the job (OIDC).
set -euo pipefail
curl --fail --silent --show-error --header "Authorization: bearer $ACTIONS_ID_TOKEN_REQUEST_TOKEN" \
  "$ACTIONS_ID_TOKEN_REQUEST_URL&audience=sts.amazonaws.com" | jq --raw-output .value > "$RUNNER_TEMP/token"
{
  echo "AWS_WEB_IDENTITY_TOKEN_FILE=$RUNNER_TEMP/token"
  echo "AWS_ROLE_ARN=$ROLE"
} >> "$GITHUB_ENV"
