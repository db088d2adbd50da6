#!/usr/bin/env bash
# Runs the laboratory, the faults and the flips, and writes EVIDENCE.md anew.
# Usage: format/evidence.sh [OPS [SEED [ZOO.jsonl]]]
set -euo pipefail
cd "$(dirname "$0")/.."
ops=${1:-4} seed=${2:-1} zoo=${3:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cargo build --release --bin ledger --example sweep
target/release/ledger lab run --ops "$ops" --seed "$seed" --faults 1 --json > "$work/lab.jsonl"
target/release/examples/sweep --flips 100000 --seed "$seed" > "$work/flips.txt"
python3 format/evidence.py "$(git rev-parse --short HEAD)" "$work/lab.jsonl" "$work/flips.txt" "$zoo" > "$work/page.md"
mv "$work/page.md" format/EVIDENCE.md
