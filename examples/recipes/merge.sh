#!/bin/sh
# The command of a step that merges the work of the steps before it, as worktree.sh left it:
#
#   - { id: merge, after: [api, page], command: examples/recipes/merge.sh }
#
# It merges their branches into the branch that is checked out, and removes their worktrees. If they do
# not merge, nothing is changed and the step fails. Requires git and jq.
set -eu

task=$(cat)
branches=$(printf '%s' "$task" | jq -r '.plan.near.before[].id' | sed "s|^|ledger/$LEDGER_RUN/|")
for branch in $branches; do
    git merge --quiet --no-edit "$branch" >&2 ||
        { git merge --abort; echo "$branch does not merge" >&2; exit 1; }
done
work=$(cd "$(git rev-parse --git-common-dir)" && pwd)/ledger-worktrees/$LEDGER_RUN
for branch in $branches; do
    git worktree remove --force "$work/${branch##*/}" >&2 || :
done
echo "$branches" | jq -Rn '[inputs]'
