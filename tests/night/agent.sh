#!/bin/sh
# Runs a step with the agent in its name, by the recipes, with the scripted model of this step and attempt.
set -eu
model=http://127.0.0.1:$MODEL_PORT/$LEDGER_STEP/$LEDGER_ATTEMPT
case $LEDGER_STEP in
*-claude)
    export ANTHROPIC_BASE_URL="$model"
    exec recipes/claude-code.sh ;;
*-codex)
    provider="-c model_providers.scripted.base_url=\"$model/v1\""
    export CODEX_FLAGS="$provider $CODEX_SETTINGS"
    exec recipes/codex.sh ;;
esac
