#!/bin/sh
# A worker without a model: a script for each step, steps/ID.sh, or steps/default.sh for all others:
#
#   ledger run plan.yaml --worker examples/recipes/plain.sh
#
# A script gets the hand-off on its standard input and the LEDGER_* variables. What it prints is the
# output of the step; exit status 75 says "try again", and any other but 0 that it failed. STEPS names
# another folder.
set -eu

for script in "${STEPS:-steps}/$LEDGER_STEP.sh" "${STEPS:-steps}/default.sh"; do
    if test -f "$script"; then
        exec sh "$script"
    fi
done
cat > "$LEDGER_RECEIPT" <<'END'
{"outcome": "failed", "class": "deterministic", "message": "there is no script for this step"}
END
