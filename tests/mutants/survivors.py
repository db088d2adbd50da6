"""Sums what cargo-mutants found: `survivors.py RESULTS SHARES VERSION`. A survivor that survivors.md does not explain
is an error."""

import collections
import json
import pathlib
import re
import sys

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
    # What the tests of the program found replaces what those of the library found, and their last run the one before.
    for stage in ("library", "program", "again"):
        path = folder / stage / "mutants.out" / "outcomes.json"
        for outcome in json.loads(path.read_text())["outcomes"] if path.exists() else ():
            seconds += sum(phase["duration"] for phase in outcome["phase_results"])
            if outcome["scenario"] != "Baseline":
                mutant = outcome["scenario"]["Mutant"]
                outcomes[mutant["name"]] = (mutant, outcome["summary"])
counts = collections.defaultdict(collections.Counter)
unexplained = []
for mutant, summary in outcomes.values():
    counts[mutant["file"]][summary] += 1
    if summary == "MissedMutant" and row(mutant) not in explained:
        unexplained.append(row(mutant))
for file, count in sorted(counts.items()):
    print(f"mutations: {file}: {count['CaughtMutant']} caught, {count['MissedMutant']} missed, {count['Timeout']} timeout, {count['Unviable']} unviable")
total = sum(len(path.read_text().splitlines()) for path in results.glob("*.list"))
whole = sum({f"{share}-log", f"{share}-plan"} <= finished for share in range(int(shares)))
print(f"note: cargo-mutants {version}: {len(outcomes)} of all {total} changes of these files, in {whole} of {shares} shares, {seconds:.0f} s.")
if not outcomes:
    sys.exit("error: cargo-mutants changed nothing")
if unexplained:
    print("These changes survived, and survivors.md does not say why:", *unexplained, sep="\n", file=sys.stderr)
sys.exit(bool(unexplained))
