#!/usr/bin/env python3
"""How long a claim takes through the socket of a ledger that is served: several runs of
examples/claims.rs each, in turns, and their medians. On a quiet machine: what else runs there, and
what else syncs the same disk, falls into the figures.

    benches/claims.py [--runs 5] [--clients 64] [--folder target/bench]
"""

import argparse
import pathlib
import re
import shutil
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
MILLISECONDS = {"ns": 1e-6, "µs": 1e-3, "ms": 1.0, "s": 1e3}
FIGURES = re.compile(r"claims: .*half within (\S+), 99 % within (\S+), the longest (\S+)")


def milliseconds(text):
    number, unit = re.fullmatch(r"([\d.]+)(\D+)", text).groups()
    return float(number) * MILLISECONDS[unit]


def measured(program, folder, clients, rate):
    """The figures of one run: the middle, the 99th percentile, the longest."""
    shutil.rmtree(folder, ignore_errors=True)
    words = [program, folder, str(clients), "10000" if rate is None else "5000"]
    out = subprocess.run(
        words + ([] if rate is None else [str(rate)]), check=True, capture_output=True, text=True
    ).stdout
    shutil.rmtree(folder, ignore_errors=True)
    return [milliseconds(text) for text in FIGURES.search(out).groups()]


def main():
    words = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    words.add_argument("--runs", type=int, default=5)
    words.add_argument("--clients", type=int, default=64)
    words.add_argument("--folder", default=str(ROOT / "target" / "bench"))
    args = words.parse_args()
    build = ["cargo", "build", "--release", "--example", "claims"]
    subprocess.run(build, cwd=ROOT, check=True)
    program = ROOT / "target" / "release" / "examples" / "claims"
    folder = pathlib.Path(args.folder) / "claims.ledger"
    folder.parent.mkdir(parents=True, exist_ok=True)
    rates = [1000, 3000, None]
    runs = {rate: [] for rate in rates}
    for _ in range(args.runs):
        for rate in rates:
            runs[rate].append(measured(program, folder, args.clients, rate))
    print(f"{args.clients} clients, medians of {args.runs} runs, in milliseconds")
    print("| claims a second | half within | 99 % within | the longest |")
    print("|---|---|---|---|")
    for rate, figures in runs.items():
        name = "as many as go, no client ever idle" if rate is None else f"{rate:,}"
        middle = " | ".join(f"{statistics.median(each):.2f}" for each in zip(*figures))
        print(f"| {name} | {middle} |")


if __name__ == "__main__":
    main()
