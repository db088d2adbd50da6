#!/usr/bin/env bash
# Measures the evidence for the checked-out commit and writes EVIDENCE.md.
#
#   format/evidence.sh                       every part that this commit lacks: hours
#   format/evidence.sh crashes fuzz          only these parts
#   format/evidence.sh page                  only the page, from the parts that there are
#   format/evidence.sh digests               only the short runs that CI compares, into the page: a minute
#   format/evidence.sh check                 compare the short runs with the page, as CI does
#
# Each part leaves a file in format/evidence, which is committed with the page: its output, and a line that says what
# was measured, where, when, and how it ended. A part that passed is not repeated, so the work can be interrupted,
# continued on another machine, and done in several calls with other arguments: the page names the arguments of each
# part. A part that failed is shown as failed, and the other parts go on.
#
# The commit of a part is the newest one that changes what it measures: the program, and for some parts also tests or
# a tool (`measures`). A part of an earlier commit is measured again when it is named. Until then the page shows it with
# its commit, or leaves it out if an earlier program was measured. OPS, IMAGES, SEED, FLIPS, FUZZ_SECONDS, CUTS and SWEEPS
# change how much is measured. Every part installs what it needs, and power cuts need root.
set -euo pipefail
cd "$(dirname "$0")/.."
ops=${OPS:-5} images=${IMAGES:-6000000} seed=${SEED:-1} seconds=${FUZZ_SECONDS:-600} cuts=${CUTS:-400} sweeps=${SWEEPS:-all}
flips=${FLIPS:-20000}
devices='atomic-sector ordered-append psow512 psow4096'
folder=format/evidence
# What every part measures, and what some parts measure beside it.
program=(Cargo.toml Cargo.lock .cargo src crates examples hosts format/inspect-export.sql)
tests='tests/cli tests/fixtures :!tests/cli/mutants.rs'
declare -A measures=(
  [cases]=$tests [coverage]="$tests tests/coverage" [fuzz]=fuzz [miri]=tests/memory [power]=tests/power
  [schedules]=tests/schedules [mutants]='tests/cli tests/fixtures tests/mutants/run tests/mutants/rustc'
  [cargo-mutants]="$tests tests/mutants/mutations tests/mutants/survivors.md tests/mutants/survivors.py")

# The short runs, one JSON line each. With several threads the digest may depend on their order.
digests() {
  local device
  for device in $devices; do
    "$ledger" lab run --ops 2 --device "$device" --jobs 1 --json | sed -n '/"type":"lab"/p' | tail -n 1
  done
}

if (($# == 1)) && [[ $1 == check || $1 == digests ]]; then
  ledger=${LEDGER:-target/release/ledger}
  [ -n "${LEDGER:-}" ] || cargo build --release --quiet --bin ledger
  digests | python3 format/evidence.py "$1"
  exit
fi

# commit_of [SUBJECT]: the newest commit that changes the program, or what else the parts of this subject measure.
commit_of() {
  # shellcheck disable=SC2086
  git log -1 --format=%h --abbrev=8 -- "${program[@]}" ${measures[${1:-none}]:-}
}

# ended FILE COMMIT: whether the part of this file was measured at this commit, and passed.
ended() { [ -e "$1" ] && tail -n 1 "$1" | grep -q "\"commit\":\"$2\",.*\"exit\":0,"; }

page() { python3 format/evidence.py page "$folder" "$(commit_of)"; }

mkdir -p "$folder"
parts=("$@")
if [ "${1:-}" = page ]; then
  page
  exit
elif (($# == 0)); then
  parts=(crashes devices different life faults flips cases runner power schedules miri mutants cargo-mutants coverage fuzz)
fi

if [ -n "$(git status --porcelain -- "${program[@]}")" ]; then
  echo 'the working tree has changes: commit them, so that the page names what was measured' >&2
  exit 2
fi
cargo build --release --quiet --bin ledger --example sweep
# Other builds replace the program in target/release, also while it is measured: a copy is measured. The hashes of all
# images are there, too; they are too many to be kept.
work=target/evidence/$(commit_of)
mkdir -p "$work"
for file in target/release/ledger target/release/examples/sweep; do
  [ -e "$work/${file##*/}" ] || { cp "$file" "$work/copy" && mv "$work/copy" "$work/${file##*/}"; }
done
ledger=$work/ledger

# part NAME PROGRAM TEXT COMMAND...: the file of its output, the program or `-`, and the command as the page shows it.
failed=()
part() {
  local file=$folder/$1 begun=$SECONDS status=0 commit hash=
  commit=$(commit_of "$subject")
  ! ended "$file" "$commit" || return 0
  # shellcheck disable=SC2086
  if [ -n "$(git status --porcelain -- "${program[@]}" ${measures[$subject]:-})" ]; then
    echo "$1: the working tree has changes: commit them, so that the page names what was measured" >&2
    exit 2
  fi
  printf '== %s: %s\n' "$1" "$3" >&2
  [ "$2" = - ] || hash=$(sha256sum "$2" | cut -c1-16)
  # In the background, so that an error ends the functions below, although it does not end this script.
  { "${@:4}" | sed -u -e "s|$(pwd -P)|.|g" -e "s|$PWD|.|g" -e "s|$HOME|~|g" | tee "$file.part"; } &
  wait $! || status=$?
  if [ "$(commit_of "$subject")" != "$commit" ]; then
    echo "$1: another commit was checked out meanwhile" >&2
    exit 2
  fi
  # None of the values has a character that JSON escapes.
  printf '{"type":"part","commit":"%s","command":"%s","exit":%d,"seconds":%d,"date":"%s","program":"%s","toolchain":"%s","machine":"%s"}\n' \
    "$commit" "$3" "$status" "$((SECONDS - begun))" "$(date -u +%F)" "$hash" "$(rustc --version)" \
    "$(nproc) processors, $(awk '/MemTotal/ {printf "%.0f GB", $2 / 1e6}' /proc/meminfo), $(uname -sr)" >>"$file.part"
  mv "$file.part" "$file"
  ((status == 0)) || failed+=("$1")
}
script() { part "$1" - "${*:2}" "${@:2}"; }
laboratory() { part "$1" "$ledger" "ledger lab ${*:2}" "$ledger" lab "${@:2}"; }
# The list of hashes is no part of the command that the page shows.
explore() {
  part "$1" "$ledger" "ledger lab run ${*:2} --seed $seed --json" \
    "$ledger" lab run "${@:2}" --seed "$seed" --json --hashes "$work/$1.hashes"
}

# Tests that count what they try; `PLAN_LEDGER_SWEEPS` is their strength.
cases() {
  PLAN_LEDGER_SWEEPS=$sweeps cargo test --release -p plan-ledger-cli --test cli -- --nocapture --test-threads=2 \
    unreadable_sectors:: ledger_time:: histories:: other_users:: durable_answers:: protocol_model::
}

# The runner on the simulated disk: a crash at each of its writes, once in each run.
runner() {
  local plan agents
  for plan in examples/plans/*.yaml; do
    for agents in steady flaky; do
      "$ledger" drill "$plan" --every-crash --agents "$agents" --seed "$seed" --json
    done
  done
}

power() { LEDGER=$ledger POWER_SEED=$seed tests/power/run "$@"; }

run() {
  local device fs targets at pair bugs subject=$1
  case $1 in
    # All workloads of four operations, and some of five until there are enough images. Torn sectors leave images that
    # the first device cannot have: together the two have more than a million different ones.
    crashes)
      explore crashes --ops "$ops" --images "$images"
      explore crashes-psow512 --ops "$((ops < 4 ? ops : 4))" --device psow512
      ;;
    devices)
      subject=crashes
      for device in ordered-append psow4096; do
        explore "crashes-$device" --ops "$((ops < 3 ? ops : 3))" --device "$device"
      done
      ;;
    # After both of them, on the machine that ran them.
    different) part different - 'format/evidence.sh different' python3 format/evidence.py different "$folder" "$work" ;;
    life) laboratory life endure --ops 100000 --seed "$seed" --json ;;
    faults) laboratory faults run --ops 0 --faults 2 --seed "$seed" --json ;;
    flips) part flips "$work/sweep" "sweep --flips $flips --seed $seed" "$work/sweep" --flips "$flips" --seed "$seed" ;;
    cases) part cases - "SWEEPS=$sweeps format/evidence.sh cases" cases ;;
    runner) part runner "$ledger" "SEED=$seed format/evidence.sh runner" runner ;;
    power)
      for fs in ext4 xfs ext4-without-journal; do
        part "power-$fs" "$ledger" "POWER_SEED=$seed tests/power/run $cuts $fs" power "$cuts" "$fs"
      done
      ;;
    schedules) script schedules tests/schedules/run ;;
    miri) script miri tests/memory/miri ;;
    # The mutant without an effect takes longer than all seeded bugs.
    mutants)
      bugs=$(sed -n 's/^    \([A-Za-z0-9]*\), "[^"]*", ".*/\1/p' src/sim/mutants.rs | grep -vx NoOp | paste -sd ,)
      part mutants-bugs - 'tests/mutants/run, with every seeded bug' tests/mutants/run "$bugs"
      script mutants-control tests/mutants/run NoOp
      ;;
    cargo-mutants) script cargo-mutants tests/mutants/mutations ;;
    coverage) script coverage tests/coverage/run ;;
    fuzz)
      targets=(fuzz/corpus/*/)
      targets=("${targets[@]%/}")
      targets=("${targets[@]##*/}")
      # Two at a time, as `fuzz/run` runs them.
      for ((at = 0; at < ${#targets[@]}; at += 2)); do
        pair=("${targets[@]:at:2}")
        script "fuzz-$(IFS=+ && echo "${pair[*]}")" fuzz/run "$seconds" "${pair[@]}"
      done
      ;;
    *) echo "unknown part: $1" >&2 && exit 2 ;;
  esac
}

for name in "${parts[@]}"; do
  run "$name"
  page
done
if ((${#failed[@]} > 0)); then
  echo "failed: ${failed[*]}; what they printed is in $folder" >&2
  exit 1
fi
