#!/bin/sh
# A judge of text criteria that asks Claude Code, which may look but not touch:
#
#   ledger run plan.yaml --worker ./agent.sh --judge examples/recipes/judge.sh
#
# It needs claude and jq. CLAUDE_FLAGS adds options. If the answer is no verdict, the criterion waits
# for a person.
set -eu

prompt='Standard input says, as JSON, what a worker was asked to do (step; null means the whole plan),
what it delivered (output, and artifacts, which are files here), and what must hold (text). Look at the
work itself, not at what is said about it. Say whether the text holds: pass only if you have seen that it
does. The evidence is one or two sentences on what you saw.'
schema='{"type": "object", "properties": {"verdict": {"enum": ["pass", "fail"]},
    "evidence": {"type": "string"}}, "required": ["verdict", "evidence"], "additionalProperties": false}'

# Flags are words: they are meant to be parted.
# shellcheck disable=SC2086
claude -p "$prompt" --output-format json --json-schema "$schema" --allowedTools Read,Glob,Grep \
    ${CLAUDE_FLAGS-} | jq -e '.structured_output'
