"""Sums what cargo-mutants found: `survivors.py RESULTS SHARES VERSION`. A survivor that survivors.md does not explain
is an error. `survivors.py --missed FOLDER` lists the survivors of one run of cargo-mutants, each with its change."""

import collections
import json
import pathlib
import re
import sys


def outcomes_of(folder):
    """Each change that was tried, and how it ended."""
    for outcome in json.loads((folder / "outcomes.json").read_text())["outcomes"]:
        if outcome["scenario"] != "Baseline":
            yield outcome["scenario"]["Mutant"], outcome


if sys.argv[1] == "--missed":
    folder = pathlib.Path(sys.argv[2])
    for mutant, outcome in outcomes_of(folder):
        if outcome["summary"] == "MissedMutant":
            print(mutant["name"], folder / outcome["diff_path"], sep="\t")
    sys.exit()
results, shares, version = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
root = pathlib.Path(__file__).resolve().parents[2]
explained = (pathlib.Path(__file__).parent / "survivors.md").read_text(encoding="utf-8")


def row(mutant):
    """The begin of its row in survivors.md: the change and the line. The number of the line changes too often."""
    line = (root / mutant["file"]).read_text(encoding="utf-8").splitlines()[mutant["span"]["start"]["line"] - 1]
    change = re.sub(r":[0-9]+:[0-9]+", "", mutant["name"])
    return "| " + " | ".join(f"`{text.strip()}`".replace("|", "\\|") for text in (change, line)) + " |"


outcomes, finished, seconds = {}, set(), 0
for folder in sorted(results.glob("*-*")):
    if folder.suffix == ".part":
        continue
    finished.add(folder.name)
    for mutant, outcome in outcomes_of(folder / "library" / "mutants.out"):
        seconds += sum(phase["duration"] for phase in outcome["phase_results"])
        outcomes[mutant["name"]] = (mutant, outcome["summary"])
    # What the tests of the program found replaces what those of the library found.
    summaries = {"caught": "CaughtMutant", "missed": "MissedMutant", "timeout": "Timeout"}
    for line in (folder / "program").read_text().splitlines():
        found, _, name = line.split(" ", 2)
        outcomes[name] = (outcomes[name][0], summaries[found])
counts = collections.defaultdict(collections.Counter)
unexplained = []
for mutant, summary in outcomes.values():
    counts[mutant["file"]][summary] += 1
    # A row needs a reason.
    if summary == "MissedMutant" and not re.search(re.escape(row(mutant)) + r" *[^\s|]", explained):
        unexplained.append(row(mutant))
for file, count in sorted(counts.items()):
    print(f"mutations: {file}: {count['CaughtMutant']} caught, {count['MissedMutant']} missed, {count['Timeout']} timeout, {count['Unviable']} unviable")
total = sum(len(path.read_text().splitlines()) for path in results.glob("*.list"))
whole = sum({f"{share}-log", f"{share}-plan"} <= finished for share in range(int(shares)))
print(f"note: cargo-mutants {version}: {len(outcomes)} of all {total} changes of these files, in {whole} of {shares} shares; {seconds:.0f} s with the tests of the library.")
if not outcomes:
    sys.exit("error: cargo-mutants changed nothing")
if unexplained:
    print("These changes survived, and survivors.md does not say why:", *unexplained, sep="\n", file=sys.stderr)
sys.exit(bool(unexplained))
