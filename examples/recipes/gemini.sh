#!/bin/sh
# A worker that runs every step with the Gemini CLI without interaction:
#
#   ledger run plan.yaml --worker examples/recipes/gemini.sh
#
# Requires gemini and jq. Gemini may edit files without asking (--approval-mode auto_edit); the `tools` of
# a step are further tools that it may use, such as "run_shell_command(make)". GEMINI_FLAGS adds options,
# such as GEMINI_FLAGS='--model gemini-2.5-pro'. The receipt has the number of tokens, so that the plan's
# budget is enforced. At a limit of the quota the run waits until it ends.
set -eu

. "$(dirname "$0")/errors.sh"
for program in gemini jq; do
    command -v "$program" > /dev/null || { echo "$program is not installed" >&2; exit 127; }
done

task=$(cat)
files=$(mktemp -d)
trap 'rm -r "$files"' EXIT
tools=$(printf '%s' "$task" | jq -r '.step.tools // [] | join(",")')
prompt='Before this is one step of a plan, as JSON. Do what step.goal says, and nothing else. The step is
done when everything in step.acceptance is true; another party checks this. inputs has the values that the
step needs, plan.near has the steps around it, and previous_attempts has the errors of earlier attempts:
avoid them. Change only the files in changes. A file whose changed is true was modified after the plan was
made: read it again first. Answer with the output of the step and nothing else. If the step cannot be done
as planned, change nothing and answer with one line that begins with REPLAN: and gives the reason.'

# The flags are split into words on purpose.
# shellcheck disable=SC2086
printf '%s' "$task" |
    gemini --prompt "$prompt" --output-format json --approval-mode auto_edit \
        ${tools:+--allowed-tools "$tools"} ${GEMINI_FLAGS-} > "$files/out" 2> "$files/err" || status=$?
status=${status:-0}
cat "$files/err" >&2
# An answer is on standard output. An error is there, too, or is the last object on standard error.
for stream in out err; do
    sed -n '/^{/,$p' "$files/$stream" | jq -cs 'last | objects' > "$files/answer" 2> /dev/null || :
    [ ! -s "$files/answer" ] || break
done
if [ ! -s "$files/answer" ]; then
    no_answer gemini "$status" "$(cat "$files/out")" >&2
    [ "$status" -ne 0 ] || status=1
    exit "$status"
fi
jq -r '.session_id // empty | "session: \(.)"' "$files/answer" >&2
error=$(jq -r '.error // empty | .message // tojson' "$files/answer")
[ -n "$error" ] || [ "$status" -eq 0 ] || error="gemini ended with exit status $status"
kind=$(kind_of_error "$error $(jq -c '.error // {} | {code}' "$files/answer")")
jq --arg error "$error" --arg kind "$kind" --argjson status "$status" '
    ([.stats.models // {} | .[] | .tokens.total // 0] | add // 0) as $tokens
    | (.response // "" | tostring) as $said
    | {cost: {tokens: $tokens, money_micros: 0}}
    + if $error != "" then
        {outcome: "failed", message: $error}
        + if $kind == "overload" then {class: "transient", retry_after_seconds: 60}
          # No account, invalid input, no sandbox, invalid settings: a retry fails, too.
          elif $kind == "account" or ([41, 42, 44, 52] | index($status)) then {class: "deterministic"}
          else {class: "unknown"} end
      elif ($said | startswith("REPLAN:")) then {
        outcome: "replan_requested", message: ($said | ltrimstr("REPLAN:") | ltrimstr(" "))}
      else {outcome: "succeeded", output: ($said as $text | try ($text | fromjson) catch $text)} end' \
    "$files/answer" > "$LEDGER_RECEIPT.new"
mv "$LEDGER_RECEIPT.new" "$LEDGER_RECEIPT"
