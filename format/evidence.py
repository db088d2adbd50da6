"""Writes EVIDENCE.md from what the laboratory and the flip sweep printed.

Usage: evidence.py FIGURES... > EVIDENCE.md

Each file holds what `ledger lab ... --json` (`.jsonl`), the sweep (`.txt`), `tests/mutants/run`
(`.mutants`), `tests/coverage/run` (`.cov`) or `fuzz/run` (`.fuzz`) printed, below a line `{"type": "code", "commit": "..."}`. It copies figures and computes
fractions, and knows none by heart: what was not run is said to be missing.
"""

import json
import pathlib
import re
import sys


def read(path):
    """The lines of a file that are figures, each with its commit, and the text below the first."""
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
    out("Every history of so many operations (append, batch, flush, rotate, snapshot, reopen, kill, prune),")
    out("stopped at every change of the simulated disk. *Images* are disks as they may come up again;")
    out("*different* ones were examined, equal ones once. *All subsets*: crashes of which every subset of")
    out("what was not synced was tried; of the others all, nothing, and samples.\n")
    out("| operations | device | histories | crash | points | all subsets | images | different | seconds |")
    out("|---|---|---|---|---|---|---|---|---|")
    for it in labs:
        device = it.get("device", "atomic-sector")
        histories = f"{it['workloads']} of {it['workloads_all']} ({share(it['workloads'], it['workloads_all'])})"
        for name, key in (("first", ""), ("in recovery", "_again")):
            whole = share(it["points" + key + "_whole"], it["points" + key])
            out(
                f"| {it['ops']} | {device} | {histories} | {name} | {it['points' + key]} | {whole} "
                f"| {it['images' + key]} | {it['distinct' + key]} | {it['seconds']:.0f} |"
            )
        out(f"| {it['ops']} | {device} | {histories} | third, sampled | | | {it['images_third']} | {it['distinct_third']} | |")
        out(f"| {it['ops']} | {device} | {histories} | **all** | | | **{it['tried']}** | **{it['examined']}** | |")
    out("")
    for it in labs:
        out(
            f"- {it['ops']} operations, {it.get('device', 'atomic-sector')}, seed {it['seed']}, commit `{it['commit']}`: "
            f"{it['clean']} clean, {it['unproven']} with an end to take over, {it['torn']} torn, {it['absent']} without a "
            f"ledger, {it.get('asked', 0)} that a person must judge; promises broken: {it['broken']}. All of its images as "
            f"one number: `{it['digest'][:16]}`."
        )
    out("")


def faults(all_of, runs, out):
    out("## Failing and lying disks\n")
    out("Each kind strikes every call that it can, one at a time; after it the machine comes up in four ways.")
    for it in runs:
        out(
            f"\nHistories of up to {it['ops']} operations, {it['workloads']} of {it['workloads_all']} "
            f"({share(it['workloads'], it['workloads_all'])}), seed {it['seed']}, commit `{it['commit']}`, {it['seconds']:.0f} seconds."
        )
    out("\nThe first table keeps the contract of `log.md`, and nothing acknowledged may be missing.\n")
    # What stops a run is printed in place of its figures: those that are here broke no promise.
    lies = [it for it in all_of if it["whole"] + it["refused"] + it["reported"] + it["earlier"]]
    contract = [it for it in all_of if it not in lies or it["fault"] == ASKS]
    out("| failure | struck | images | promises broken | asked a person |")
    out("|---|---|---|---|---|")
    for it in (it for it in contract if it["struck"]):
        out(f"| {it['fault']} | {it['struck']} | {it['images']} | 0 | {it['refused']} |")
    out("\nThe second breaks it: no engine can keep everything then. *Earlier*: what is left is an earlier moment")
    out("of the same ledger, and nothing on the disk tells; a root kept elsewhere does. Made up: never.\n")
    out("| failure | struck | images | nothing missing | refused | reported | earlier |")
    out("|---|---|---|---|---|---|---|")
    for it in (it for it in lies if it["fault"] != ASKS):
        out(
            f"| {it['fault']} | {it['struck']} | {it['images']} | {it['whole']} | {it['refused']} "
            f"| {it['reported']} | {it['earlier']} |"
        )
    out("")


# After it the engine may ask: a sector that is torn inside need not look torn.
ASKS = "disk full inside of a sector"


def lives(all_of, out):
    out("## Long lives\n")
    out("One ledger, crashed in operations and in recoveries over and over, pruned when it is long, and read all the")
    out("while through a handle that was opened earlier.\n")
    out("| operations | seed | crashes | records | looks | promises broken | seconds | commit |\n|---|---|---|---|---|---|---|---|")
    for it in all_of:
        out(
            f"| {it['ops']} | {it['seed']} | {it['crashes']} | {it['records']} | {it['looks']} | {it['broken']} "
            f"| {it['seconds']:.0f} | `{it['commit']}` |"
        )
    out("")


KILLS = re.compile(r"^mutant: (\w+) (\S+) (?:killed-by=(\S+) hits=(\S+)|survived) .*seconds=(\S+)", re.M)


# Every mutant, a line each: the page lists those that were not run.
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
    out("The test that found each, and how often the mutant had been reached:\n")
    out("| mutant | hazard | found by | hits | commit |\n|---|---|---|---|---|")
    for name, hazard, killer, hits, _, commit in kills.values():
        out(f"| {name} | {hazard} | {killer or 'nothing'} | {hits} | `{commit}` |")


COVERED = re.compile(r"^(format|log)/\S+ +\d+ +\d+ +\S+ +\d+ +\d+ +\S+ +(\d+) +(\d+)", re.M)
FUZZED = re.compile(r"^(\w+): (\d+) runs, (\d+) new inputs, (\d+) seconds", re.M)


def coverage(texts, out):
    out("\n## Lines that the tests reach\n")
    if not texts:
        out("Not run for this page: `tests/coverage/run`.")
    for commit, text in texts:
        lines = {}
        for layer, whole, missed in COVERED.findall(text):
            before = lines.get(layer, (0, 0))
            lines[layer] = (before[0] + int(whole), before[1] + int(missed))
        said = "; ".join(
            f"`{layer}` {whole - missed} of {whole} ({share(whole - missed, whole)})"
            for layer, (whole, missed) in sorted(lines.items())
        )
        out(f"{said}, those of their own tests included, commit `{commit}`. {' '.join(NOTE.findall(text))}")


NOTE = re.compile(r"^note: (.*)$", re.M)


def fuzzed(texts, out):
    out("\n## Fuzzing\n")
    if not texts:
        out("Not run for this page: `fuzz/run 600`.")
        return
    out("Each target from its corpus, by the clock. One that finds something ends there, and has no line here.\n")
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
    out("What was tried on the engine, and what came of it. Written by `format/evidence.py`; do not edit.\n")
    # A run for the faults begins with the history of no operations.
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
    out("The same sweep on other logs: `benches/peers/FLIPS.md`, where it was made.\n")
    mutants(hunts, out)
    coverage(covered, out)
    fuzzed(runs, out)


main()
