"""Writes EVIDENCE.md from what the laboratory and the flip sweep printed.

Usage: evidence.py COMMIT LAB.jsonl FLIPS.txt [ZOO.jsonl] > EVIDENCE.md

It copies figures and computes fractions, and knows none by heart: what was not run is said to be
missing.
"""

import json
import os
import sys


def lines_of(path):
    if not path or not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.startswith("{")]


def share(part, whole):
    return f"{100 * part / whole:.1f} %" if whole else "-"


def crashes(labs, out):
    out("## Crash images\n")
    out("Every history of so many operations (append, batch, flush, rotate, snapshot, reopen, kill, prune),")
    out("stopped at every change of the simulated disk. *Images* are disks as they may come up again;")
    out("*different* ones were examined, equal ones once. *All subsets*: crashes of which every subset of")
    out("what was not synced was tried; of the others all, nothing, and samples.\n")
    out("| operations | seed | histories | crash | points | all subsets | images | different | seconds |")
    out("|---|---|---|---|---|---|---|---|---|")
    for it in labs:
        histories = f"{it['workloads']} of {it['workloads_all']} ({share(it['workloads'], it['workloads_all'])})"
        for name, key in (("first", ""), ("in recovery", "_again")):
            whole = share(it["points" + key + "_whole"], it["points" + key])
            out(
                f"| {it['ops']} | {it['seed']} | {histories} | {name} | {it['points' + key]} | {whole} "
                f"| {it['images' + key]} | {it['distinct' + key]} | {it['seconds']:.0f} |"
            )
        out(f"| {it['ops']} | {it['seed']} | {histories} | third, sampled | | | {it['images_third']} | {it['distinct_third']} | |")
        out(f"| {it['ops']} | {it['seed']} | {histories} | **all** | | | **{it['tried']}** | **{it['examined']}** | |")
    out("")
    for it in labs:
        out(
            f"Seed {it['seed']}, {it['ops']} operations: {it['clean']} clean, {it['unproven']} with an end to take "
            f"over, {it['torn']} torn, {it['absent']} without a ledger; promises broken: {it['broken']}."
        )
        if it["digest"]:
            out(f"All of its images as one number: `{it['digest'][:16]}`.")
    out("")


def faults(all_of, out):
    out("## Failing and lying disks\n")
    out("Each kind strikes every call that it can, one at a time; after it the machine comes up in four ways.")
    out("The first table keeps the contract of `log.md`, and nothing acknowledged may be missing.\n")
    lies = [it for it in all_of if it["whole"] + it["refused"] + it["reported"] + it["earlier"]]
    out("| failure | struck | images | acknowledged records lost |")
    out("|---|---|---|---|")
    for it in (it for it in all_of if it not in lies):
        out(f"| {it['fault']} | {it['struck']} | {it['images']} | 0 |")
    out("\nThe second breaks it: no engine can keep everything then. *Earlier*: what is left is an earlier moment")
    out("of the same ledger, and nothing on the disk tells; a root kept elsewhere does. Made up: never.\n")
    out("| failure | struck | images | nothing missing | refused | reported | earlier |")
    out("|---|---|---|---|---|---|---|")
    for it in lies:
        out(
            f"| {it['fault']} | {it['struck']} | {it['images']} | {it['whole']} | {it['refused']} "
            f"| {it['reported']} | {it['earlier']} |"
        )
    out("")


def main():
    commit, lab, flips = sys.argv[1:4]
    zoo = sys.argv[4] if len(sys.argv) > 4 else ""
    out = print
    out("# Evidence\n")
    out("What was tried on the engine, and what came of it. Written by `format/evidence.py`; do not edit.\n")
    out(f"Code: commit `{commit}`.\n")
    values = lines_of(lab)
    crashes([it for it in values if it["type"] == "lab"], out)
    struck = [it for it in values if it["type"] == "fault"]
    if struck:
        faults(struck, out)
    else:
        out("## Failing and lying disks\n")
        out("No figures. `ledger lab run --faults 1` stopped, or was not run.\n")
        for it in (it for it in values if it["type"] == "note"):
            out(it["text"] + "\n")
    out("## Flipped bits\n")
    if os.path.exists(flips):
        with open(flips, encoding="utf-8") as file:
            out("```text\n" + file.read().rstrip() + "\n```\n")
    else:
        out("Not run for this page: `cargo run --release --example sweep`.\n")
    out("The same sweep on other logs: `benches/peers/FLIPS.md`, where it was made.\n")
    out("## Seeded bugs\n")
    kills = lines_of(zoo)
    if not kills:
        out("Not run for this page.")
    else:
        out("| bug | hazard | killed by | cases |\n|---|---|---|---|")
        for it in kills:
            out(f"| {it.get('bug')} | {it.get('hazard')} | {it.get('killed_by') or 'survived'} | {it.get('cases')} |")


main()
