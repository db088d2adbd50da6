#!/bin/sh
# A planner that asks Claude Code for another plan when one is needed:
#
#   ledger run plan.yaml --worker ./agent.sh --planner examples/recipes/planner.sh
#
# It needs claude and jq. CLAUDE_FLAGS adds options. The new plan waits for `ledger plan approve`,
# unless the run was started with --approve auto.
set -eu

prompt='Standard input says, as JSON, how a run of a plan stands: the plan, how its steps stand, and in
request why another plan is needed. Look at the files here if you have to. Answer with the whole new plan
in the same form as plan, as JSON and nothing else. Keep the ids of steps that stay, and leave a step as it
is where its work is to be kept: what changes in its goal, command, inputs, condition, changes or acceptance
is done again, and so is what comes after it. Mind unusable_answers: what was wrong with your answers so
far. If the plan needs no change, or nothing is left to add, answer {"no_more": "why"}.'

# Flags are words: they are meant to be parted. An answer in a code block is taken out of it.
# shellcheck disable=SC2086
claude -p "$prompt" --output-format json --allowedTools Read,Glob,Grep ${CLAUDE_FLAGS-} |
    jq -er '.result' | sed '/^```/d'
