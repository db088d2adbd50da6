#!/bin/sh
# A worker that gives every step to Claude Code, in print mode:
#
#   ledger run plan.yaml --worker examples/recipes/claude-code.sh
#
# It needs claude and jq. A step's `tools` are the tools that the agent may use without being asked;
# CLAUDE_FLAGS adds options, such as CLAUDE_FLAGS='--model sonnet --max-turns 40'. What the agent
# costs is in the receipt, so that the plan's budget holds.
set -eu

task=$(cat)
tools=$(printf '%s' "$task" |
    jq -r '.step.tools // [] | if . == [] then ["Read", "Edit", "Write", "Glob", "Grep"] else . end | join(",")')
prompt='Standard input is one step of a plan, as JSON. Do what step.goal says, and only that; it is
done when all of step.acceptance holds, which somebody else will check. inputs has the values that the
step builds on, plan.near the steps around it, and previous_attempts what went wrong before: do not
repeat it. Change the files in changes and no others. One whose changed is true is no longer as it was
when the plan was made: look at it again first. Answer with the output of the step and nothing else.
If the step cannot be done as the plan has it, change nothing and answer with one line that begins
with REPLAN: and says why.'

# Flags are words: they are meant to be parted.
# shellcheck disable=SC2086
answer=$(printf '%s' "$task" |
    claude -p "$prompt" --output-format json --permission-mode acceptEdits \
        --allowedTools "$tools" ${CLAUDE_FLAGS-}) || status=$?
if test -z "$answer" || ! printf '%s' "$answer" | jq -e .type > /dev/null 2>&1; then
    echo "claude gave no answer: $(printf '%s' "$answer" | head -c 200)" >&2
    exit "${status:-1}"
fi

receipt=$(printf '%s' "$answer" | jq '
    (.result // "" | tostring) as $said
    | (.usage // {} | [.input_tokens, .cache_creation_input_tokens, .cache_read_input_tokens,
        .output_tokens] | map(. // 0) | add) as $tokens
    | {cost: {money_micros: (.total_cost_usd // 0 | . * 1000000 | round), tokens: $tokens}}
    + if .is_error then {
        outcome: "failed",
        class: (if .subtype == "error_max_budget_usd" then "budget_exhausted" else "unknown" end),
        message: (if $said == "" then .subtype else $said end)}
      elif ($said | startswith("REPLAN:")) then {
        outcome: "replan_requested", message: ($said | ltrimstr("REPLAN:") | ltrimstr(" "))}
      else {outcome: "succeeded", output: ($said as $text | try ($text | fromjson) catch $text)} end')
printf '%s\n' "$receipt" > "$LEDGER_RECEIPT"
