#!/bin/sh
# A worker: the task is JSON on standard input; standard output is the output of the step.
sleep 1 # here an agent works
echo "$LEDGER_STEP, attempt $LEDGER_ATTEMPT" > "$LEDGER_STEP.txt"
echo "wrote $LEDGER_STEP.txt"
