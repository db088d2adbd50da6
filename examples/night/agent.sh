#!/bin/sh
# A fake agent that does its step, and goes wrong at the first attempt at six of them.
set -eu
task=$(cat)
finish() {
    mkdir -p done
    echo "$LEDGER_STEP" > "done/$LEDGER_STEP.txt"
    # Agents commit one after the other: git has one lock.
    # Locks of git that are there were left by one that was killed: this script has the lock.
    flock .git sh -c 'find .git -name "*.lock" -delete; git add -A done && { git diff --cached --quiet ||
        git commit --quiet -m "$LEDGER_STEP"; }'
}
case "$LEDGER_ATTEMPT $LEDGER_STEP" in
'1 limits')
    echo '{"outcome": "failed", "class": "transient", "retry_after_seconds": 2,
        "message": "You have hit your limit, resets in two seconds"}' > "$LEDGER_RECEIPT" ;;
'1 api-docs') sleep 600 ;;
'1 retries') kill -9 $$ ;;
'1 dashboards') echo 'All done, and all tests pass!' ;;
'1 export') cat /dev/zero > /dev/full ;;
'1 ranking') echo begun > ranking.txt; git stash -u --quiet; exit 1 ;;
*) echo "attempt $LEDGER_ATTEMPT at $LEDGER_STEP" >&2; finish; echo '"done"' ;;
esac
