#!/bin/sh
# A worker that runs every step with Claude Code in print mode:
#
#   ledger run plan.yaml --worker examples/recipes/claude-code.sh
#
# Requires claude and jq. The `tools` of a step are the tools that the agent may use without asking.
# CLAUDE_FLAGS adds options, such as CLAUDE_FLAGS='--model sonnet --max-turns 40'. The receipt has the
# cost of the agent, so that the plan's budget is enforced. At a usage limit the run waits until it
# ends. After an interruption the next attempt continues the same session.
set -eu

. "$(dirname "$0")/errors.sh"
for program in claude jq; do
    command -v "$program" > /dev/null || { echo "$program is not installed" >&2; exit 127; }
done

task=$(cat)
tools=$(printf '%s' "$task" |
    jq -r '.step.tools // [] | if . == [] then ["Read", "Edit", "Write", "Glob", "Grep"] else . end | join(",")')
# The session of the last attempt, if that was interrupted and not wrong.
session=$(printf '%s' "$task" | jq -r '.previous_attempts[-1] // {}
    | select(.class == "transient" or .class == "runner_died")
    | .log_tail | [scan("(?m)^session: (\\S+)$")[0]] | last // ""')
prompt='Standard input is one step of a plan, as JSON. Do what step.goal says, and nothing else. The
step is done when everything in step.acceptance is true; another party checks this. inputs has the values
that the step needs, plan.near has the steps around it, and previous_attempts has the errors of earlier
attempts: avoid them. Change only the files in changes. A file whose changed is true was modified after
the plan was made: read it again first. Answer with the output of the step and nothing else. If the step
cannot be done as planned, change nothing and answer with one line that begins with REPLAN: and gives the
reason.'

# The flags are split into words on purpose.
# shellcheck disable=SC2086
answer=$(printf '%s' "$task" |
    claude -p "$prompt" --output-format json --permission-mode acceptEdits \
        --allowedTools "$tools" ${session:+--resume "$session"} ${CLAUDE_FLAGS-}) || status=$?
if [ -z "$answer" ] || ! printf '%s' "$answer" | jq -e '.type == "result"' > /dev/null 2>&1; then
    no_answer claude "${status:-0}" "$answer" >&2
    [ "${status:-0}" -eq 0 ] && status=1
    exit "$status"
fi

printf '%s' "$answer" | jq -r '
    (.session_id // empty | "session: \(.)"),
    (.permission_denials // [] | .[] | "permission denied: \(.tool_name) \(.tool_input | tojson | .[:200])")' >&2
said=$(printf '%s' "$answer" | jq -r '.result // "" | tostring')
kind=$(kind_of_error "$said")
printf '%s' "$answer" | jq --arg kind "$kind" '
    (.result // "" | tostring) as $said
    | (.usage // {} | [.input_tokens, .cache_creation_input_tokens, .cache_read_input_tokens,
        .output_tokens] | map(. // 0) | add) as $tokens
    | {cost: {money_micros: (.total_cost_usd // 0 | . * 1000000 | round), tokens: $tokens}}
    + if .is_error then
        {outcome: "failed", message: (if $said == "" then .subtype else $said end)}
        + if .subtype == "error_max_budget_usd" then {class: "budget_exhausted"}
          elif $kind == "overload" then {class: "transient", retry_after_seconds: 60}
          elif $kind == "account" then {class: "deterministic"}
          else {class: "unknown"} end
      elif ($said | startswith("REPLAN:")) then {
        outcome: "replan_requested", message: ($said | ltrimstr("REPLAN:") | ltrimstr(" "))}
      else {outcome: "succeeded", output: ($said as $text | try ($text | fromjson) catch $text)} end' \
    > "$LEDGER_RECEIPT.new"
mv "$LEDGER_RECEIPT.new" "$LEDGER_RECEIPT"
