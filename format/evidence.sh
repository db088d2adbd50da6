#!/usr/bin/env bash
# Runs the laboratory with and without faults, the flip sweep, all mutants, the coverage and the fuzz
# targets, and writes EVIDENCE.md. Takes hours.
# Usage: format/evidence.sh [OPS [SEED]]
set -euo pipefail
cd "$(dirname "$0")/.."
ops=${1:-5} seed=${2:-1}
work=$(mktemp -d)
cargo build --release --bin ledger --example sweep
ledger=target/release/ledger
figures() {
  printf '{"type": "code", "commit": "%s"}\n' "$(git rev-parse --short HEAD)" > "$work/$1"
  "${@:2}" | tee -a "$work/$1"
}
figures crashes.jsonl "$ledger" lab run --ops "$ops" --seed "$seed" --json
for device in ordered-append psow512 psow4096; do
  figures "$device.jsonl" "$ledger" lab run --ops 3 --device "$device" --seed "$seed" --json
done
figures life.jsonl "$ledger" lab endure --ops 100000 --seed "$seed" --json
figures faults.jsonl "$ledger" lab run --ops 0 --faults 1 --seed "$seed" --json
figures flips.txt target/release/examples/sweep --flips 100000 --seed "$seed"
figures killed.mutants tests/mutants/run all
figures lines.cov tests/coverage/run
figures targets.fuzz fuzz/run 600
python3 format/evidence.py "$work"/{crashes,ordered-append,psow512,psow4096,life,faults}.jsonl \
  "$work/flips.txt" "$work/killed.mutants" "$work/lines.cov" "$work/targets.fuzz" > "$work/page.md"
mv "$work/page.md" format/EVIDENCE.md
