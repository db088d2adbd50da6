#!/bin/sh
# A worker that gives every step to the Codex CLI, without its terminal:
#
#   ledger run plan.yaml --worker examples/recipes/codex.sh
#
# It needs codex and jq. CODEX_FLAGS adds options, such as CODEX_FLAGS='--model gpt-5-codex' or
# --skip-git-repo-check. The tokens that the agent used are in the receipt, so that the plan's budget
# holds.
set -eu

task=$(cat)
files=$(mktemp -d)
trap 'rm -r "$files"' EXIT
prompt='At the end is one step of a plan, as JSON. Do what step.goal says, and only that; it is done
when all of step.acceptance holds, which somebody else will check. inputs has the values that the step
builds on, plan.near the steps around it, and previous_attempts what went wrong before: do not repeat
it. Change the files in changes and no others. One whose changed is true is no longer as it was when the
plan was made: look at it again first. Your last message is the output of the step and nothing else. If
the step cannot be done as the plan has it, change nothing, and let your last message be one line that
begins with REPLAN: and says why.'

# Flags are words: they are meant to be parted.
# shellcheck disable=SC2086
printf '%s\n\n%s\n' "$prompt" "$task" |
    codex exec --sandbox workspace-write --json --output-last-message "$files/last" \
        ${CODEX_FLAGS-} - > "$files/events"

receipt=$(jq -n --rawfile said "$files/last" --slurpfile events "$files/events" '
    ([$events[] | select(.type == "turn.completed") | .usage | (.input_tokens // 0) + (.output_tokens // 0)]
        | add // 0) as $tokens
    | ($said | rtrimstr("\n")) as $said
    | {cost: {tokens: $tokens, money_micros: 0}}
    + if ($said | startswith("REPLAN:")) then {
        outcome: "replan_requested", message: ($said | ltrimstr("REPLAN:") | ltrimstr(" "))}
      else {outcome: "succeeded", output: ($said as $text | try ($text | fromjson) catch $text)} end')
printf '%s\n' "$receipt" > "$LEDGER_RECEIPT"
