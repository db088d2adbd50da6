#!/bin/sh
# A worker that runs every step with Claude Code in print mode:
#
#   ledger run plan.yaml --worker examples/recipes/claude-code.sh
#
# Requires claude and jq. The `tools` of a step are the tools that the agent may use without asking.
# CLAUDE_FLAGS adds options, such as CLAUDE_FLAGS='--model sonnet --max-turns 40'. The receipt has the
# cost of the agent, so that the plan's budget is enforced.
set -eu

task=$(cat)
tools=$(printf '%s' "$task" |
    jq -r '.step.tools // [] | if . == [] then ["Read", "Edit", "Write", "Glob", "Grep"] else . end | join(",")')
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
