#!/usr/bin/env python3
"""Measures the latency of claims through the socket of a server: interleaved runs of
examples/claims.rs at several rates, and their medians. Run it on an idle machine: other processes and
other syncs on the same disk affect the figures. So each run reports how idle the machine was: before the
run a bare loop writes and syncs as many bytes as a commit of a few requests, and during the run the
processor time of all other processes is counted. A folder in memory (/dev/shm) excludes the disk.

    benches/claims.py [--runs 5] [--clients 64] [--folder target/bench]
"""

import argparse
import os
import pathlib
import re
import resource
import shutil
import statistics
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
MILLISECONDS = {"ns": 1e-6, "µs": 1e-3, "ms": 1.0, "s": 1e3}
FIGURES = re.compile(r"claims: .*half within (\S+), 99 % within (\S+), the longest (\S+)")

COMMIT_SIZE = 8192
BARE_SECONDS = 2.0


def milliseconds(text):
    number, unit = re.fullmatch(r"([\d.]+)(\D+)", text).groups()
    return float(number) * MILLISECONDS[unit]


def bare(folder):
    """The latency of the disk: median, 99th percentile and maximum of bare writes with a sync each, in
    a file of fixed length."""
    path = folder / "bare"
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    data, length, at, times = os.urandom(COMMIT_SIZE), 512 * COMMIT_SIZE, 0, []
    os.pwrite(file, bytes(length), 0)
    os.fsync(file)
    end = time.monotonic() + BARE_SECONDS
    while time.monotonic() < end:
        begun = time.monotonic()
        os.pwrite(file, data, at)
        os.fdatasync(file)
        times.append((time.monotonic() - begun) * 1e3)
        at = (at + COMMIT_SIZE) % length
    os.close(file)
    path.unlink()
    times.sort()
    return [times[len(times) // 2], times[len(times) * 99 // 100], times[-1]]


def busy():
    """The processor time of all processes, and of our ended child processes, in seconds."""
    user, nice, system, _, _, irq, softirq = map(
        int, pathlib.Path("/proc/stat").read_text().split()[1:8]
    )
    ours = resource.getrusage(resource.RUSAGE_CHILDREN)
    everyone = (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")
    return everyone, ours.ru_utime + ours.ru_stime


def measured(program, folder, clients, rate):
    """The figures of one run: median, 99th percentile and maximum; the same of the bare disk; and the
    number of processors that other processes used."""
    shutil.rmtree(folder, ignore_errors=True)
    disk = bare(folder.parent)
    words = [program, folder, str(clients), "10000" if rate is None else "5000"]
    words += [] if rate is None else [str(rate)]
    begun, (all_before, ours_before) = time.monotonic(), busy()
    out = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    took, (all_after, ours_after) = time.monotonic() - begun, busy()
    others = max(0.0, (all_after - all_before) - (ours_after - ours_before)) / took
    shutil.rmtree(folder, ignore_errors=True)
    claims = [milliseconds(text) for text in FIGURES.search(out).groups()]
    return claims + disk + [others]


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
    for number in range(args.runs):
        for rate in rates:
            figures = measured(program, folder, args.clients, rate)
            runs[rate].append(figures)
            shown = " ".join(f"{each:.2f}" for each in figures)
            print(f"run {number + 1}, {rate or 'no limit'}: {shown}", flush=True)
    print(
        f"{args.clients} clients, medians of {args.runs} runs, in milliseconds;"
        " others: processors that other processes used"
    )
    print(
        "| claims a second | p50 | p99 | maximum |"
        " bare disk: p50 | p99 | maximum | others |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for rate, figures in runs.items():
        name = "no limit, every client always busy" if rate is None else f"{rate:,}"
        middle = " | ".join(f"{statistics.median(each):.2f}" for each in zip(*figures))
        print(f"| {name} | {middle} |")


if __name__ == "__main__":
    main()
