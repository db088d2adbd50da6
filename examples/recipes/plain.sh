#!/bin/sh
# A worker without a model: it runs the script steps/ID.sh for each step, or steps/default.sh:
#
#   ledger run plan.yaml --worker examples/recipes/plain.sh
#
# A script gets the hand-off on standard input and the LEDGER_* variables. Its standard output is the
# output of the step. Exit status 75 means "try again"; any other status except 0 means that the step
# failed. STEPS names another folder.
set -eu

for script in "${STEPS:-steps}/$LEDGER_STEP.sh" "${STEPS:-steps}/default.sh"; do
    if test -f "$script"; then
        exec sh "$script"
    fi
done
cat > "$LEDGER_RECEIPT" <<'END'
{"outcome": "failed", "class": "deterministic", "message": "there is no script for this step"}
END
