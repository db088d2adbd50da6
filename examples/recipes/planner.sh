#!/bin/sh
# A planner that asks Claude Code for a new plan when one is needed:
#
#   ledger run plan.yaml --worker ./agent.sh --planner examples/recipes/planner.sh
#
# Requires claude and jq. CLAUDE_FLAGS adds options. The new plan waits for `ledger plan approve`,
# unless the run was started with --approve auto.
set -eu

prompt='Standard input has, as JSON, the state of a run: the plan, the status of its steps, and in
request the reason why a new plan is needed. Read the files here if necessary. Answer with the complete
new plan in the same format as plan, as JSON and nothing else. Keep the ids of steps that stay. To keep
the work of a step, do not change it: a step with a different goal, command, inputs, condition, changes or
acceptance is done again, and so are the steps after it. unusable_answers has the errors in your earlier
answers: avoid them. If the plan needs no change, or there is nothing to add, answer
{"no_more": "the reason"}.'

# The flags are split into words on purpose. sed removes the fences of a code block around the answer.
# shellcheck disable=SC2086
claude -p "$prompt" --output-format json --allowedTools Read,Glob,Grep ${CLAUDE_FLAGS-} |
    jq -er '.result' | sed '/^```/d'
