#!/bin/sh
# A worker that runs every step with the Codex CLI in non-interactive mode:
#
#   ledger run plan.yaml --worker examples/recipes/codex.sh
#
# Requires codex and jq. CODEX_FLAGS adds options, such as CODEX_FLAGS='--model gpt-5-codex' or
# --skip-git-repo-check. The receipt has the number of tokens that the agent used, so that the plan's
# budget is enforced. At a usage limit the run waits until it ends. After an interruption the next attempt
# continues the same session.
set -eu

. "$(dirname "$0")/errors.sh"
for program in codex jq; do
    command -v "$program" > /dev/null || { echo "$program is not installed" >&2; exit 127; }
done

task=$(cat)
files=$(mktemp -d)
trap 'rm -r "$files"' EXIT
# The session of the last attempt, if that was interrupted and not wrong.
session=$(printf '%s' "$task" | jq -r '.previous_attempts[-1] // {}
    | select(.class == "transient" or .class == "runner_died")
    | .log_tail | [scan("(?m)^session: (\\S+)$")[0]] | last // ""')
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
        ${CODEX_FLAGS-} ${session:+resume "$session"} - > "$files/events" || status=$?

# Lines that are not JSON, as of a crash, are left out.
jq -cR 'fromjson? | objects' "$files/events" > "$files/good"
jq -r 'select(.type == "thread.started") | "session: \(.thread_id)"' "$files/good" >&2
error=$(jq -rs '[.[] | select(.type == "turn.failed") | .error.message,
    (select(.type == "error") | .message)] | map(strings) | last // ""' "$files/good")
if [ "${status:-0}" -ne 0 ] && [ -z "$error" ]; then
    # Events explain nothing; other lines may.
    no_answer codex "$status" "$(jq -rR '. as $line | try (fromjson | empty) catch $line' "$files/events")" >&2
    exit "$status"
fi
touch "$files/last"
if [ -z "$error" ] && [ ! -s "$files/last" ]; then
    error='codex ended without a message'
fi
kind=$(kind_of_error "$error")
jq -n --rawfile said "$files/last" --slurpfile events "$files/good" \
    --arg error "$error" --arg kind "$kind" '
    ([$events[] | select(.type == "turn.completed") | .usage | (.input_tokens // 0) + (.output_tokens // 0)]
        | add // 0) as $tokens
    | ($said | rtrimstr("\n")) as $said
    | {cost: {tokens: $tokens, money_micros: 0}}
    + if $error != "" then
        {outcome: "failed", message: $error}
        + if $kind == "overload" then {class: "transient", retry_after_seconds: 60}
          elif $kind == "account" then {class: "deterministic"}
          else {class: "unknown"} end
      elif ($said | startswith("REPLAN:")) then {
        outcome: "replan_requested", message: ($said | ltrimstr("REPLAN:") | ltrimstr(" "))}
      else {outcome: "succeeded", output: ($said as $text | try ($text | fromjson) catch $text)} end' \
    > "$LEDGER_RECEIPT.new"
mv "$LEDGER_RECEIPT.new" "$LEDGER_RECEIPT"
