#!/usr/bin/env bash
# Measures the evidence for the checked-out commit and writes EVIDENCE.md.
#
#   format/evidence.sh                 every part that this commit lacks: hours
#   format/evidence.sh crashes fuzz    only these parts
#   format/evidence.sh digests         only the short runs that CI compares, into the page: a minute
#   format/evidence.sh check           compare the short runs with the page, as CI does
#
# A part leaves its output in target/evidence/COMMIT and is not repeated, so the work can be interrupted. OPS,
# SEED and FUZZ_SECONDS change how much is measured.
set -euo pipefail
cd "$(dirname "$0")/.."
ops=${OPS:-5} seed=${SEED:-1} seconds=${FUZZ_SECONDS:-600}
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
    mutants) part mutants tests/mutants/run all ;;
    coverage) part coverage tests/coverage/run ;;
    fuzz) part fuzz fuzz/run "$seconds" ;;
    *) echo "unknown part: $1" >&2 && exit 2 ;;
  esac
}

parts=("$@")
((${#parts[@]} > 0)) || parts=(digests crashes devices life faults flips mutants coverage fuzz)
for name in "${parts[@]}"; do run "$name"; done
{
  echo "commit $commit"
  rustc --version
  echo "$(nproc) processors, $(awk '/MemTotal/ {printf "%.0f GB", $2 / 1e6}' /proc/meminfo), $(uname -sr)"
} >"$folder/machine"
python3 format/evidence.py page "$folder"
