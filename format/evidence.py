"""Writes EVIDENCE.md from the output of the laboratory, the flip sweep, the mutants and the fuzz targets.

Usage: evidence.py FIGURES... > EVIDENCE.md

Each file holds the output of `ledger lab ... --json` (`.jsonl`), the sweep (`.txt`), `tests/mutants/run`
(`.mutants`), `tests/coverage/run` (`.cov`) or `fuzz/run` (`.fuzz`), after a line
`{"type": "code", "commit": "..."}`. The script copies figures and computes percentages. A part without a
file is reported as not run.
"""

import json
import pathlib
import re
import sys


def read(path):
    """The commit of a file, its JSON lines with the commit in each, and its other lines."""
    commit, values, text = "unknown", [], []
    with open(path, encoding="utf-8") as file:
        for line in file:
            value = json.loads(line) if line.startswith("{") else None
            if value and value["type"] == "code":
                commit = value["commit"]
            elif value:
                values.append(value | {"commit": commit})
            else:
                text.append(line)
    return commit, values, "".join(text)


def share(part, whole):
    return f"{100 * part / whole:.1f} %" if whole else "-"


def crashes(labs, out):
    out("## Crash images\n")
    out("All workloads of so many operations (append, batch, flush, rotate, snapshot, reopen, kill, prune) crash")
    out("at every change of the simulated disk. *Images* are disks as they may be after the crash. Of equal images")
    out("one is examined (*distinct*). *All subsets*: the share of crash points at which every subset of the")
    out("unsynced writes is tried; at the others, all of them, none of them, and samples.\n")
    out("| operations | device | workloads | crash | points | all subsets | images | distinct | seconds |")
    out("|---|---|---|---|---|---|---|---|---|")
    for it in labs:
        device = it.get("device", "atomic-sector")
        workloads = f"{it['workloads']} of {it['workloads_all']} ({share(it['workloads'], it['workloads_all'])})"
        for name, key in (("first", ""), ("in recovery", "_again")):
            whole = share(it["points" + key + "_whole"], it["points" + key])
            out(
                f"| {it['ops']} | {device} | {workloads} | {name} | {it['points' + key]} | {whole} "
                f"| {it['images' + key]} | {it['distinct' + key]} | {it['seconds']:.0f} |"
            )
        out(f"| {it['ops']} | {device} | {workloads} | third, sampled | | | {it['images_third']} | {it['distinct_third']} | |")
        out(f"| {it['ops']} | {device} | {workloads} | **all** | | | **{it['tried']}** | **{it['examined']}** | |")
    out("")
    for it in labs:
        out(
            f"- {it['ops']} operations, {it.get('device', 'atomic-sector')}, seed {it['seed']}, commit `{it['commit']}`: "
            f"{it['clean']} clean, {it['unacknowledged']} with an unacknowledged tail, {it['torn']} torn, {it['absent']} without a "
            f"ledger, {it.get('asked', 0)} that a person must judge; promises broken: {it['broken']}. Digest of "
            f"all images: `{it['digest'][:16]}`."
        )
    out("")


def faults(all_of, runs, out):
    out("## Failing and lying disks\n")
    out("Each fault is injected into every call that it can affect, one at a time. Then the machine restarts in four")
    out("ways.")
    for it in runs:
        out(
            f"\nWorkloads of up to {it['ops']} operations, {it['workloads']} of {it['workloads_all']} "
            f"({share(it['workloads'], it['workloads_all'])}), seed {it['seed']}, commit `{it['commit']}`, {it['seconds']:.0f} seconds."
        )
    out("\nThe first table has faults that keep the contract of `log.md`: no acknowledged record may be missing.\n")
    # A broken promise ends the run without these lines: the faults listed here broke none.
    lies = [it for it in all_of if it["whole"] + it["refused"] + it["reported"] + it["earlier"]]
    contract = [it for it in all_of if it not in lies or it["fault"] == ASKS]
    out("| fault | injected | images | promises broken | left to a person |")
    out("|---|---|---|---|---|")
    for it in (it for it in contract if it["struck"]):
        out(f"| {it['fault']} | {it['struck']} | {it['images']} | 0 | {it['refused']} |")
    out("\nThe second table has faults that break it, so that no engine can keep everything. *Earlier*: the ledger is")
    out("as it was at an earlier time, and only a root that is kept elsewhere shows it. No record was invented.\n")
    out("| fault | injected | images | complete | refused | reported | earlier |")
    out("|---|---|---|---|---|---|---|")
    for it in (it for it in lies if it["fault"] != ASKS):
        out(
            f"| {it['fault']} | {it['struck']} | {it['images']} | {it['whole']} | {it['refused']} "
            f"| {it['reported']} | {it['earlier']} |"
        )
    out("")


# After this fault the engine may leave the decision to a person: a torn sector need not look torn.
ASKS = "disk full inside of a sector"


def lives(all_of, out):
    out("## Long workloads\n")
    out("One ledger that crashes repeatedly, in operations and in recoveries, is pruned when it is long, and is read")
    out("all the time through a reader that was opened before.\n")
    out("| operations | seed | crashes | records | reads | promises broken | seconds | commit |\n|---|---|---|---|---|---|---|---|")
    for it in all_of:
        out(
            f"| {it['ops']} | {it['seed']} | {it['crashes']} | {it['records']} | {it['looks']} | {it['broken']} "
            f"| {it['seconds']:.0f} | `{it['commit']}` |"
        )
    out("")


KILLS = re.compile(r"^mutant: (\w+) (\S+) (?:killed-by=(\S+) hits=(\S+)|survived) .*seconds=(\S+)", re.M)


# Every mutant has one line: the page lists the mutants that were not run.
MUTANT = re.compile(r'^    (\w+), "[^"]+", "', re.M)
MUTANTS = pathlib.Path(__file__).resolve().parent.parent / "src" / "sim" / "mutants.rs"


def mutants(texts, out):
    out("## Mutants (seeded bugs)\n")
    kills = {}
    for commit, text in texts:
        kills |= {found[0]: (*found, commit) for found in KILLS.findall(text)}
    if not kills:
        out("Not run for this page.")
        return
    bugs = [it for it in kills.values() if it[0] != "NoOp"]
    found = sum(1 for it in bugs if it[2])
    seconds = sum(float(it[4]) for it in bugs)
    out(f"{found} of {len(bugs)} were found by a test, in {seconds:.0f} seconds.")
    missing = [name for name in MUTANT.findall(MUTANTS.read_text(encoding="utf-8")) if name not in kills]
    if missing:
        out(f"Not run for this page: {', '.join(missing)}.")
    out("The test that found each mutant, and how often it had reached the mutant (*hits*):\n")
    out("| mutant | hazard | found by | hits | commit |\n|---|---|---|---|---|")
    for name, hazard, killer, hits, _, commit in kills.values():
        out(f"| {name} | {hazard} | {killer or 'nothing'} | {hits} | `{commit}` |")


COVERED = re.compile(r"^(format|log)/\S+ +\d+ +\d+ +\S+ +\d+ +\d+ +\S+ +(\d+) +(\d+)", re.M)
FUZZED = re.compile(r"^(\w+): (\d+) runs, (\d+) new inputs, (\d+) seconds", re.M)


def coverage(texts, out):
    out("\n## Line coverage\n")
    if not texts:
        out("Not run for this page: `tests/coverage/run`.")
    for commit, output in texts:
        lines = {}
        for layer, whole, missed in COVERED.findall(output):
            before = lines.get(layer, (0, 0))
            lines[layer] = (before[0] + int(whole), before[1] + int(missed))
        text = "; ".join(
            f"`{layer}` {whole - missed} of {whole} ({share(whole - missed, whole)})"
            for layer, (whole, missed) in sorted(lines.items())
        )
        out(f"{text}, inline tests included, commit `{commit}`. {' '.join(NOTE.findall(output))}")


NOTE = re.compile(r"^note: (.*)$", re.M)


def fuzzed(texts, out):
    out("\n## Fuzzing\n")
    if not texts:
        out("Not run for this page: `fuzz/run 600`.")
        return
    out("Each target runs from its corpus for a fixed time. A target that finds a crash stops and has no line here.\n")
    out("| target | runs | new inputs | seconds | commit |\n|---|---|---|---|---|")
    for commit, text in texts:
        for name, runs, new, seconds in FUZZED.findall(text):
            out(f"| {name} | {runs} | {new} | {seconds} | `{commit}` |")


def main():
    out, values, sweeps, hunts, covered, runs = print, [], [], [], [], []
    for path in sys.argv[1:]:
        commit, figures, text = read(path)
        values += figures
        if path.endswith(".txt"):
            sweeps.append((commit, text))
        if path.endswith(".mutants"):
            hunts.append((commit, text))
        if path.endswith(".cov"):
            covered.append((commit, text))
        if path.endswith(".fuzz"):
            runs.append((commit, text))
    out("# Evidence\n")
    out("Results of the long tests of the engine. `format/evidence.py` writes this page; do not edit it.\n")
    # A run with faults also prints a line for the workload of no operations.
    crashes([it for it in values if it["type"] == "lab" and it["ops"]], out)
    lives([it for it in values if it["type"] == "endured"], out)
    struck = [it for it in values if it["type"] == "fault"]
    if struck:
        faults(struck, [it for it in values if it["type"] == "faults"], out)
    else:
        out("## Failing and lying disks\n\nNot run for this page: `ledger lab run --faults 1`.\n")
    out("## Flipped bits\n")
    for commit, text in sweeps:
        out(f"Commit `{commit}`.\n\n```text\n{text.strip()}\n```\n")
    if not sweeps:
        out("Not run for this page: `cargo run --release --example sweep`.\n")
    out("The same sweep on other logs: `benches/peers/FLIPS.md`.\n")
    mutants(hunts, out)
    coverage(covered, out)
    fuzzed(runs, out)


main()
