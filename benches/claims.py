#!/usr/bin/env python3
"""Measures claims and receipts of many clients through a real server, by socket, HTTP and MCP, and durable
steps of workflow tools with as many clients at once, in turns. Run it on an idle machine: all clients
and servers share its processors. So each measurement also reports how idle the machine was: before it a
bare loop writes and syncs as many bytes as a commit of a few requests, and during it the processor time
of all other processes is counted.

    benches/claims.py                     64 clients of each interface and of each tool
    benches/claims.py --rates 1000,3000   the latency of claims that are due at fixed times
    benches/claims.py --workers 10,1000   workers that take half a second for a step

`benches/run` builds the programs and installs the tools.
"""

import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import time

import arguments

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benches" / "workflow"))
import run as workflow  # noqa: E402

INTERFACES = {"socket": "socket", "HTTP": "http", "MCP": "mcp"}
COMMIT_SIZE = 8192
BARE_SECONDS = 1.0
# How long a worker works on a step, and how long it is observed.
WORK_MILLISECONDS, WORK_SECONDS = 500, 4


def bare(folder):
    """Write and sync in a file of fixed length: the median of the milliseconds of each."""
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
    return statistics.median(times)


def busy():
    """The processor time of all processes, and of our ended child processes, in seconds."""
    user, nice, system, _, _, irq, softirq = map(int, pathlib.Path("/proc/stat").read_text().split()[1:8])
    ours = resource.getrusage(resource.RUSAGE_CHILDREN)
    everything = (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")
    return everything, ours.ru_utime + ours.ru_stime


def alone(options, measure):
    """The figures of a measurement, and how idle the machine was."""
    disk = bare(options.folder)
    begun, (all_before, ours_before) = time.monotonic(), busy()
    figures = measure()
    took, (all_after, ours_after) = time.monotonic() - begun, busy()
    others = max(0.0, (all_after - all_before) - (ours_after - ours_before)) / took
    return {**figures, "bare write + fdatasync, ms": disk, "processors of other processes": others}


def claims(options, interface, *words):
    """The figures of `plan-ledger-peers claims`, by name."""
    command = [str(options.peers), "claims", "--program", str(options.program), "--folder", str(options.folder)]
    done = subprocess.run([*command, "--interface", interface, *map(str, words)], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{interface} was not measured")
    return {name: float(figure) for name, figure in (line.split("\t") for line in done.stdout.splitlines())}


def kept(table, name, figures):
    """Append figures to those of other rounds, and show them."""
    for figure, value in figures.items():
        table.setdefault(name, {}).setdefault(figure, []).append(value)
    print(f"{name}: " + ", ".join(f"{figure} {value:.2f}" for figure, value in figures.items()), flush=True)


def by_interface(options):
    """Each interface, with claims and receipts in requests of their own and in one request, and each tool."""
    work = options.folder / "workflow"
    work.mkdir(parents=True, exist_ok=True)
    tools, skipped = workflow.installed([workflow.Dbos, workflow.Restate], work.resolve())
    figures = {}
    for _ in range(options.rounds):
        for name, interface in INTERFACES.items():
            for more, words in [("", []), (", one request a step", ["--chained"])]:
                words = ["--clients", options.clients, "--seconds", options.seconds, "--steps", options.steps, *words]
                kept(figures, name + more, alone(options, lambda: claims(options, interface, *words)))
        for tool in tools:
            with workflow.fresh(work) as folder:
                def measure():
                    took = tool.seconds(pathlib.Path(folder), options.tool_steps, options.clients)
                    return {"steps/s": options.clients * options.tool_steps / took}
                try:
                    kept(figures, tool.name, alone(options, measure))
                except (RuntimeError, OSError, ValueError) as error:
                    workflow.note(f"{tool.name}: {error}")
    versions = {tool.name: tool.version() for tool in tools}
    return {"clients": options.clients, "figures": figures, "versions": versions, "skipped": skipped}


def by_rate(options):
    figures = {}
    for _ in range(options.rounds):
        for rate in options.rates:
            words = ["--clients", options.clients, "--seconds", options.seconds, "--rate", rate]
            kept(figures, f"socket, {rate} claims/s", alone(options, lambda: claims(options, "socket", *words)))
    return {"clients": options.clients, "figures": figures}


def by_workers(options):
    """Points of a curve, in the form of `plan-ledger-peers grow`."""
    points = []
    for workers in options.workers:
        figures = {}
        for _ in range(options.rounds):
            words = ["--clients", workers, "--seconds", WORK_SECONDS, "--work", WORK_MILLISECONDS, "--chained"]
            kept(figures, f"{workers} workers", alone(options, lambda: claims(options, "socket", *words)))
        points.append({"size": [workers], **figures[f"{workers} workers"]})
    return {"workers": points}


def main():
    words = arguments.common(__doc__)
    words.add_argument("--clients", type=int, default=64)
    words.add_argument("--seconds", type=float, default=3.0)
    words.add_argument("--steps", type=int, default=100_000, help="steps of the plan")
    words.add_argument("--tool-steps", type=int, default=60, help="steps of each client of a tool")
    words.add_argument("--rates", type=arguments.numbers, default=[])
    words.add_argument("--workers", type=arguments.numbers, default=[])
    options = words.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    measure = by_workers if options.workers else by_rate if options.rates else by_interface
    report = measure(options)
    if options.json:
        options.json.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
