#!/bin/sh
# A worker that runs every step with the Codex CLI in non-interactive mode:
#
#   ledger run plan.yaml --worker examples/recipes/codex.sh
#
# Requires codex and jq. CODEX_FLAGS adds options, such as CODEX_FLAGS='--model gpt-5-codex' or
# --skip-git-repo-check. The receipt has the number of tokens that the agent used, so that the plan's
# budget is enforced.
set -eu

task=$(cat)
files=$(mktemp -d)
trap 'rm -r "$files"' EXIT
prompt='At the end is one step of a plan, as JSON. Do what step.goal says, and nothing else. The step is
done when everything in step.acceptance is true; another party checks this. inputs has the values that the
step needs, plan.near has the steps around it, and previous_attempts has the errors of earlier attempts:
avoid them. Change only the files in changes. A file whose changed is true was modified after the plan was
made: read it again first. Your last message is the output of the step and nothing else. If the step
cannot be done as planned, change nothing, and let your last message be one line that begins with REPLAN:
and gives the reason.'

# The flags are split into words on purpose.
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
