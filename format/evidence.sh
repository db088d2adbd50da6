#!/usr/bin/env bash
# Measures the evidence for the checked-out commit and writes EVIDENCE.md.
#
#   format/evidence.sh                       every part that this commit lacks: hours
#   format/evidence.sh crashes fuzz          only these parts
#   format/evidence.sh page                  only the page, from the parts that there are
#   format/evidence.sh digests               only the short runs that CI compares, into the page: a minute
#   format/evidence.sh check                 compare the short runs with the page, as CI does
#
# Each part leaves its output, its command, its time and the program that it measured in format/evidence, which is
# committed with the page; the file `commit` names the commit. It is not repeated, so the work can be interrupted, continued on another machine, and done in
# several calls with other arguments: the page names the arguments of each part. The measured commit is the newest one
# that changes the program or its tests; to measure another one, remove format/evidence. OPS, IMAGES, SEED, FLIPS, FUZZ_SECONDS, CUTS and SWEEPS change how
# much is measured; LEDGER is a program that was built before. Every part installs what it needs, and power cuts need
# root.
set -euo pipefail
cd "$(dirname "$0")/.."
ops=${OPS:-5} images=${IMAGES:-6000000} seed=${SEED:-1} seconds=${FUZZ_SECONDS:-600} cuts=${CUTS:-400} sweeps=${SWEEPS:-all}
flips=${FLIPS:-20000}
devices='atomic-sector ordered-append psow512 psow4096'
ledger=${LEDGER:-target/release/ledger}
# What must not change between the parts of one page.
sources=(Cargo.toml Cargo.lock src crates examples fuzz tests ':!tests/tidy' ':!tests/mutants/killers.txt'
  ':!tests/mutants/survivors.md')

build() { [ -n "${LEDGER:-}" ] || cargo build --release --quiet --bin ledger --example sweep; }

# The short runs, one JSON line each.
digests() {
  local device
  for device in $devices; do
    "$ledger" lab run --ops 2 --device "$device" --json | sed -n '/"type":"lab"/p' | tail -n 1
  done
}

if (($# == 1)) && [[ $1 == check || $1 == digests ]]; then
  build
  digests | python3 format/evidence.py "$1"
  exit
fi

measured() { git log -1 --format=%h --abbrev=8 -- "${sources[@]}"; }
commit=$(measured)
expect_unchanged() {
  if [ -n "$(git status --porcelain -- "${sources[@]}")" ] || [ "$(measured)" != "$commit" ]; then
    echo 'the working tree has changes: commit them, so that the page names what was measured' >&2
    exit 2
  fi
}
expect_unchanged
folder=format/evidence
if [ -e "$folder/commit" ] && [ "$(cat "$folder/commit")" != "$commit" ]; then
  echo "format/evidence has parts of $(cat "$folder/commit"), and $commit is checked out: remove it to begin again" >&2
  exit 2
fi
parts=("$@")
if [ "${1:-}" = page ]; then
  [ -d "$folder" ] || { echo "no part was measured at $commit yet: run \`format/evidence.sh PART...\`" >&2; exit 2; }
  exec python3 format/evidence.py page "$folder"
elif (($# == 0)); then
  parts=(digests crashes devices different life faults flips cases runner power schedules miri mutants cargo-mutants coverage fuzz)
fi
# The hashes of all images are too many to be kept.
hashes=target/evidence/$commit
mkdir -p "$folder" "$hashes"
echo "$commit" >"$folder/commit"
build

# What was measured, where and with what. None of the values has a character that JSON escapes.
about() {
  printf '{"type":"part","command":"%s","seconds":%d,"program":"%s","toolchain":"%s","machine":"%s"}\n' \
    "$1" "$2" "$(sha256sum "$ledger" | cut -c1-16)" "$(rustc --version)" \
    "$(nproc) processors, $(awk '/MemTotal/ {printf "%.0f GB", $2 / 1e6}' /proc/meminfo), $(uname -sr)"
}

# part NAME TEXT COMMAND...: the file of its output, the command as the page shows it, and the command.
part() {
  local file=$folder/$1 begun=$SECONDS
  [ ! -e "$file" ] || return 0
  printf '== %s: %s\n' "$1" "$2" >&2
  expect_unchanged
  "${@:3}" | sed -u -e "s|$(pwd -P)|.|g" -e "s|$PWD|.|g" -e "s|$HOME|~|g" | tee "$file.part"
  expect_unchanged
  about "$2" "$((SECONDS - begun))" >>"$file.part"
  mv "$file.part" "$file"
}
plain() { part "$1" "${*:2}" "${@:2}"; }
laboratory() { part "$1" "ledger lab ${*:2}" "$ledger" lab "${@:2}"; }
explore() { laboratory "$1" run "${@:2}" --seed "$seed" --json --hashes "$hashes/$1.hashes"; }

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
  local device fs targets at pair
  case $1 in
    digests) part digests "format/evidence.sh digests" digests ;;
    # All workloads of four operations, and some of five until there are enough images. Torn sectors leave images that
    # the first device cannot have: together the two have more than a million different ones.
    crashes)
      explore crashes --ops "$ops" --images "$images"
      explore crashes-psow512 --ops "$((ops < 4 ? ops : 4))" --device psow512
      ;;
    devices)
      for device in ordered-append psow4096; do
        explore "crashes-$device" --ops "$((ops < 3 ? ops : 3))" --device "$device"
      done
      ;;
    # After both of them, on the machine that ran them.
    different) part different 'format/evidence.sh different' python3 format/evidence.py different "$folder" "$hashes" ;;
    life) laboratory life endure --ops 100000 --seed "$seed" --json ;;
    faults) laboratory faults run --ops 0 --faults 2 --seed "$seed" --json ;;
    flips) plain flips target/release/examples/sweep --flips "$flips" --seed "$seed" ;;
    cases) part cases "SWEEPS=$sweeps format/evidence.sh cases" cases ;;
    runner) part runner "SEED=$seed format/evidence.sh runner" runner ;;
    power)
      for fs in ext4 xfs ext4-without-journal; do
        LEDGER=$ledger POWER_SEED=$seed part "power-$fs" "POWER_SEED=$seed tests/power/run $cuts $fs" tests/power/run "$cuts" "$fs"
      done
      ;;
    schedules) plain schedules tests/schedules/run ;;
    miri) plain miri tests/memory/miri ;;
    mutants) plain mutants tests/mutants/run all ;;
    cargo-mutants) plain cargo-mutants tests/mutants/mutations ;;
    coverage) plain coverage tests/coverage/run ;;
    fuzz)
      targets=(fuzz/corpus/*/)
      targets=("${targets[@]%/}")
      targets=("${targets[@]##*/}")
      # Two at a time, as `fuzz/run` runs them.
      for ((at = 0; at < ${#targets[@]}; at += 2)); do
        pair=("${targets[@]:at:2}")
        plain "fuzz-$(IFS=+ && echo "${pair[*]}")" fuzz/run "$seconds" "${pair[@]}"
      done
      ;;
    *) echo "unknown part: $1" >&2 && exit 2 ;;
  esac
}

for name in "${parts[@]}"; do
  run "$name"
  python3 format/evidence.py page "$folder"
done
