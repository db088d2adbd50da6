#!/bin/sh
# Runs a worker in a git worktree of its own for each step, and commits what it did:
#
#   ledger run plan.yaml --max-parallel 4 --worker 'examples/recipes/worktree.sh ./agent.sh'
#
# The step ID works on the branch ledger/RUN/ID, in a worktree below the repository's .git folder. It
# begins with the work of the steps on which it depends. A failed attempt leaves no commit: the next one
# begins from a clean tree. merge.sh merges the branches. Requires git and jq.
set -eu

[ $# -gt 0 ] || { echo 'usage: worktree.sh WORKER [ARGUMENT...]' >&2; exit 127; }
task=$(cat)
top=$(git rev-parse --show-toplevel)
work=$(git rev-parse --git-common-dir)
work=$(cd "$work" && pwd)/ledger-worktrees/$LEDGER_RUN/$LEDGER_STEP
branch=ledger/$LEDGER_RUN/$LEDGER_STEP
# Git takes one lock for all worktrees: workers take turns.
locked() { flock "$(dirname "$(git -C "$top" rev-parse --absolute-git-dir)")" "$@"; }

if [ ! -e "$work/.git" ]; then
    mkdir -p "$(dirname "$work")"
    locked git -C "$top" worktree add --quiet -B "$branch" "$work" HEAD >&2
fi
cd "$work"
git reset --quiet --hard && git clean -fdq
for before in $(printf '%s' "$task" | jq -r '.plan.near.before[].id'); do
    if git rev-parse --quiet --verify "ledger/$LEDGER_RUN/$before" > /dev/null; then
        git merge --quiet --no-edit "ledger/$LEDGER_RUN/$before" >&2 ||
            { git merge --abort; echo "the work of $before does not merge" >&2; exit 1; }
    fi
done

# A worker that is named relative to the repository is the one of the repository.
program=$1
shift
case $program in */*) program=$(cd "$top" && cd "$(dirname "$program")" && pwd)/$(basename "$program") ;; esac
printf '%s' "$task" | "$program" "$@" || exit $?
if [ -f "$LEDGER_RECEIPT" ] && ! jq -e '.outcome == "succeeded"' "$LEDGER_RECEIPT" > /dev/null; then
    exit 0
fi
git add -A
git diff --cached --quiet || git commit --quiet -m "$LEDGER_STEP: $(printf '%s' "$task" |
    jq -r '.step.title // "" | if . == "" then "done" else . end')" >&2
