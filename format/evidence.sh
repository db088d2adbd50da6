#!/usr/bin/env bash
# Measures the evidence for the checked-out commit and writes EVIDENCE.md.
#
#   format/evidence.sh                 every part that this commit lacks: hours
#   format/evidence.sh crashes fuzz    only these parts
#   format/evidence.sh digests         only the short runs that CI compares, into the page: a minute
#   format/evidence.sh check           compare the short runs with the page, as CI does
#
# A part leaves its output in target/evidence/COMMIT and is not repeated, so the work can be interrupted. OPS,
# SEED, FUZZ_SECONDS, CUTS and SWEEPS change how much is measured. Every part installs what it needs, and power cuts
# need root.
set -euo pipefail
cd "$(dirname "$0")/.."
ops=${OPS:-5} seed=${SEED:-1} seconds=${FUZZ_SECONDS:-600} cuts=${CUTS:-400} sweeps=${SWEEPS:-all}
devices='atomic-sector ordered-append psow512 psow4096'
ledger=${LEDGER:-target/release/ledger}

build() { [ -n "${LEDGER:-}" ] || cargo build --release --quiet --bin ledger --example sweep; }

# The short runs, one JSON line each.
digests() {
  local device
  for device in $devices; do
    "$ledger" lab run --ops 2 --device "$device" --json | sed -n '/"type":"lab"/p' | tail -n 1
  done
}

case "${1:-}" in
  check | digests)
    build
    digests | python3 format/evidence.py "$1"
    exit
    ;;
esac

if [ -n "$(git status --porcelain -- . ':!format/EVIDENCE.md' ':!tests/mutants/killers.txt')" ]; then
  echo 'the working tree has changes: commit them, so that the page names what was measured' >&2
  exit 2
fi
commit=$(git rev-parse --short HEAD)
folder=target/evidence/$commit
mkdir -p "$folder"
build

# A part: the file of its output, and the command.
part() {
  local file=$folder/$1
  [ ! -e "$file" ] || return 0
  printf '== %s: %s\n' "$1" "${*:2}" >&2
  { printf '$ %s\n' "${*:2}" && "${@:2}"; } | tee "$file.part"
  mv "$file.part" "$file"
}

# Tests that count what they try; `PLAN_LEDGER_SWEEPS` is their strength.
cases() {
  PLAN_LEDGER_SWEEPS=$sweeps cargo test --release -p plan-ledger-cli --test cli -- --nocapture --test-threads=2 \
    unreadable_sectors:: ledger_time:: histories:: other_users:: durable_answers:: protocol_model::
}

# The runner on the simulated disk: a crash at each of its writes, and again after each resumption.
runner() {
  local plan agents
  for plan in examples/plans/*.yaml; do
    for agents in steady flaky; do
      "$ledger" drill "$plan" --every-crash --agents "$agents" --seed "$seed" --json
    done
  done
}

run() {
  case $1 in
    digests) digests >"$folder/digests" ;;
    crashes) part crashes "$ledger" lab run --ops "$ops" --seed "$seed" --json ;;
    devices)
      for device in ordered-append psow512 psow4096; do
        part "crashes-$device" "$ledger" lab run --ops 3 --device "$device" --seed "$seed" --json
      done
      ;;
    life) part life "$ledger" lab endure --ops 100000 --seed "$seed" --json ;;
    faults) part faults "$ledger" lab run --ops 0 --faults 1 --seed "$seed" --json ;;
    flips) part flips target/release/examples/sweep --flips 100000 --seed "$seed" ;;
    cases) part cases cases ;;
    runner) part runner runner ;;
    power) LEDGER=$ledger POWER_SEED=$seed part power tests/power/run "$cuts" ;;
    schedules) part schedules tests/schedules/run ;;
    mutants) part mutants tests/mutants/run all ;;
    coverage) part coverage tests/coverage/run ;;
    fuzz) part fuzz fuzz/run "$seconds" ;;
    *) echo "unknown part: $1" >&2 && exit 2 ;;
  esac
}

parts=("$@")
((${#parts[@]} > 0)) || parts=(digests crashes devices life faults flips cases runner power schedules mutants coverage fuzz)
for name in "${parts[@]}"; do run "$name"; done
{
  echo "commit $commit"
  rustc --version
  echo "$(nproc) processors, $(awk '/MemTotal/ {printf "%.0f GB", $2 / 1e6}' /proc/meminfo), $(uname -sr)"
  echo "program \`$(sha256sum "$ledger" | cut -c1-16)\` (SHA-256)"
  echo "arguments OPS=$ops SEED=$seed FUZZ_SECONDS=$seconds CUTS=$cuts SWEEPS=$sweeps"
} >"$folder/machine"
python3 format/evidence.py page "$folder"
