#!/bin/sh
# A judge that decides text criteria with Claude Code, which has read-only tools:
#
#   ledger run plan.yaml --worker ./agent.sh --judge examples/recipes/judge.sh
#
# Requires claude and jq. CLAUDE_FLAGS adds options. If the answer has no verdict, the criterion waits
# for a person.
set -eu

prompt='Standard input has, as JSON, the task of a worker (step; null means the whole plan), its result
(output, and artifacts, which are files here), and a criterion (text). Check the work itself, not the
claims about it. Decide whether the criterion is met: pass only if you have verified it. The evidence is
one or two sentences about what you checked.'
schema='{"type": "object", "properties": {"verdict": {"enum": ["pass", "fail"]},
    "evidence": {"type": "string"}}, "required": ["verdict", "evidence"], "additionalProperties": false}'

# The flags are split into words on purpose.
# shellcheck disable=SC2086
claude -p "$prompt" --output-format json --json-schema "$schema" --allowedTools Read,Glob,Grep \
    ${CLAUDE_FLAGS-} | jq -e '.structured_output'
