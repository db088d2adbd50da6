"""Sums what cargo-mutants found: `survivors.py FOLDER SHARE`. A survivor that survivors.md does not explain is an
error."""

import collections
import json
import pathlib
import re
import sys

folder, share = pathlib.Path(sys.argv[1]), sys.argv[2]
explained = (pathlib.Path(__file__).parent / "survivors.md").read_text(encoding="utf-8")
outcomes = {}
# What the tests of the program found replaces what those of the library found.
for stage in ("library", "program"):
    path = folder / stage / "mutants.out" / "outcomes.json"
    for outcome in json.loads(path.read_text())["outcomes"] if path.exists() else ():
        if outcome["scenario"] != "Baseline":
            mutant = outcome["scenario"]["Mutant"]
            outcomes[mutant["name"]] = (mutant["file"], outcome["summary"])
counts = collections.defaultdict(collections.Counter)
unexplained = []
for name, (file, summary) in outcomes.items():
    counts[file][summary] += 1
    # Lines and columns change too often to be named.
    if summary == "MissedMutant" and f"`{re.sub(r':[0-9]+:[0-9]+', '', name)}`" not in explained:
        unexplained.append(name)
for file, count in sorted(counts.items()):
    print(f"mutations: {file}: {count['CaughtMutant']} caught, {count['MissedMutant']} missed, {count['Timeout']} timeout, {count['Unviable']} unviable")
print(f"note: Share {share} of all changes of these files.")
if not outcomes:
    sys.exit("error: cargo-mutants changed nothing")
for name in unexplained:
    print(f"survived, and survivors.md does not say why: {name}", file=sys.stderr)
sys.exit(bool(unexplained))
