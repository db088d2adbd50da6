"""Writes RESULTS.md and plots (with all figures) from the figures that `benches/run` measured.

Usage: report.py FIGURES [--page FOLDER], or report.py --machine FOLDER --sizes SIZES --json FILE to describe
the machine. It needs only the standard library. Figures are medians over the rounds of one run.
"""

import argparse
import json
import math
import os
import platform
import re
import statistics
import subprocess
import tomllib
from datetime import datetime, timezone
from pathlib import Path

HERE = Path(__file__).resolve().parent
OURS = "plan-ledger"
BARE = "write + fdatasync, nothing else"
# Entries that are not peers in the comparison of commits.
NO_PEERS = {OURS, "plan-ledger, checksums only", BARE}
# The parts of a run, in files of their own.
PARTS = ["machine", "durability", "limits", "speed", "own", "workflow", "claims", "pairs", "workers",
         "lengths", "plans", "runs", "questions"]
# What grows, and how the page calls it.
GROWTH = {"lengths": "records", "plans": "steps of a plan", "runs": "runs", "questions": "open questions",
          "workers": "workers of a server"}
# Figures before the changes, where the same run has none: measured on a machine of the same kind.
EARLIER = {
    "fold, records/s": 1_430_000,
    "open after a kill, plan of 100000 steps, ms": 140,
    "start of 100000 steps, ms": 1_085,
    "start of 10000 steps, ms": 89,
    "2250000 dependencies until the first dispatch, s": 42,
    "run --stub, 10000 steps, s": 50,
}

# The reasons for missed targets, from profiles: at most four lines each.
REASONS = json.loads((HERE / "reasons.json").read_text())
assert all(len(lines) <= 4 for lines in REASONS.values()), "a reason has more than four lines"


def output(words):
    try:
        return subprocess.run(words, capture_output=True, text=True, check=True, cwd=HERE).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def profile():
    """The profile that the measured library is built with."""
    settings = tomllib.loads((HERE / "peers/Cargo.toml").read_text())["profile"]["release"]
    return ", ".join(f"{name} = {json.dumps(setting)}" for name, setting in settings.items() if name != "debug")


def machine(folder, sizes):
    """Describe the machine."""
    cpu = [line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
           if line.startswith("model name")]
    memory = Path("/proc/meminfo").read_text().split()[1]
    mount = output(["findmnt", "--noheadings", "--output", "SOURCE,FSTYPE,OPTIONS", "--target", str(Path(folder).resolve())])
    device, kind, options = (mount.split(None, 2) + ["?", "?", "?"])[:3]
    changed = output(["git", "status", "--porcelain", "--untracked-files=no", "--", "../src", "../crates"])
    return {
        "commit": output(["git", "rev-parse", "--short=12", "HEAD"]) + (" and changes" if changed else ""),
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "processors": f"{len(os.sched_getaffinity(0))} x {cpu[0] if cpu else '?'}",
        "memory": f"{int(memory) / 2**20:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "compiler": output(["rustc", "--version"]),
        "profile": profile(),
        "device": device,
        "file system": f"{kind} ({options})",
        "sizes": sizes,
        "load at the start": " ".join(f"{load:.2f}" for load in os.getloadavg()),
    }


def text(value, digits=3):
    """A figure with its significant digits."""
    if value is None or math.isnan(value):
        return "-"
    if abs(value) >= 1000:
        return f"{round(value):,}"
    return f"{value:.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}" if value else "0"


def quotient(one, other):
    return one / other if other else math.nan


class Figures:
    """All measured figures; others are NaN."""

    def __init__(self, folder):
        def load(name):
            path = folder / f"{name}.json"
            return json.loads(path.read_text()) if path.exists() else None

        self.all = {name: load(name) for name in PARTS}
        self.machine = self.all["machine"] or {}

    def part(self, name):
        return self.all[name] or {}

    def work(self, name):
        """The medians of the engines at a task."""
        for row in self.all["speed"] or []:
            if row["work"].startswith(name):
                return {engine: statistics.median(all_) for engine, all_ in row["figures"].items()}
        return {}

    def is_durable(self, engine):
        """Whether it made at least one sync call for each commit; unknown counts as yes."""
        seen = self.part("durability").get(engine)
        if seen is None:
            return True
        return seen["files"] > 0 or seen["calls"]["fdatasync"] + seen["calls"]["fsync"] >= 200

    def ours(self, name):
        return self.work(name).get(OURS, math.nan)

    def peer(self, name, engine):
        """The figure of the engine whose name starts so."""
        return next((figure for each, figure in self.work(name).items() if each.startswith(engine)), math.nan)

    def best(self, name, better=max):
        """The best durable peer, and its figure."""
        peers = {engine: figure for engine, figure in self.work(name).items()
                 if engine not in NO_PEERS and self.is_durable(engine)}
        if not peers:
            return "best peer", math.nan
        engine = better(peers, key=peers.get)
        return engine, peers[engine]

    def limit(self, name):
        for row in self.all["limits"] or []:
            if row["limit"].startswith(name):
                return statistics.median(row["figures"])
        return math.nan

    def own(self, name):
        return statistics.median(self.part("own").get(name, [math.nan]))

    def pair(self, name, unit):
        """A figure now, the figure before, and how the page shows the latter."""
        by_program = self.part("pairs").get("figures", {}).get(name, {})
        now = statistics.median(by_program.get("now", [math.nan]))
        if "before" in by_program:
            before = statistics.median(by_program["before"])
            return now, before, text(before) + unit
        before = EARLIER.get(name, math.nan)
        return now, before, text(before) + unit + "*"

    def claim(self, name, figure="steps/s"):
        return statistics.median(self.part("claims").get("figures", {}).get(name, {}).get(figure, [math.nan]))

    def grown(self, of, name):
        """Sizes and medians of a figure that depends on the size."""
        return [(entry["size"][0], statistics.median(entry[name])) for entry in self.part(of).get(of, []) if name in entry]

    def largest(self, of, name):
        """The largest size, and the figure there."""
        return (self.grown(of, name) or [(math.nan, math.nan)])[-1]

    def slope(self, of, name):
        """The growth of a figure for each unit of the size, between the two largest sizes."""
        (fewer, less), (more, most) = ([(math.nan, math.nan)] * 2 + self.grown(of, name))[-2:]
        return quotient(most - less, more - fewer)


class Row:
    """A line of the table. Conditions are pairs of a figure and the least that it must be."""

    def __init__(self, work, measured, target, conditions, before="", limit=""):
        self.work, self.measured, self.target, self.before, self.limit = work, measured, target, before, limit
        known = [pair for pair in conditions if not any(math.isnan(figure) for figure in pair)]
        self.met = all(figure >= least for figure, least in known) if len(known) == len(conditions) else None
        if not known:
            self.measured = "-"

    def line(self):
        met = {True: "yes", False: "**no**", None: "not measured"}[self.met]
        return f"| {self.work} | {self.measured} | {self.before} | {self.target} | {met} | {self.limit} |"


def at(size, wanted):
    """The condition that a figure is that of the wanted size; one of a smaller size does not count."""
    return (size if size >= wanted else math.nan, wanted)


def floors(f):
    """What was reached before, and stays."""
    one, bare = f.ours("durable appends, 1 thread"), f.work("durable appends, 1 thread").get(BARE, math.nan)
    name, best = f.best("durable appends, 1 thread")
    yield Row("durable append, 1 thread", f"{text(one)}/s; {name} {text(best)}/s: {text(quotient(one, best))} x",
              ">= 0.9 x best peer", [(quotient(one, best), 0.9)], limit=f"write + fdatasync {text(bare)}/s")
    many, raft = f.ours("durable appends, 32 threads"), f.peer("durable appends, 32 threads", "raft-engine")
    yield Row("durable append, 32 threads", f"{text(many)}/s; raft-engine {text(raft)}/s: {text(quotient(many, raft))} x",
              ">= 1.6 x raft-engine", [(quotient(many, raft), 1.6)], limit=f"32 records in each sync: {text(32 * bare)}/s")
    most = f.ours("durable appends, 256 threads")
    name, best = f.best("durable appends, 256 threads")
    yield Row("durable append, 256 threads", f"{text(most)}/s: {text(quotient(most, many))} x 32 threads; {name} {text(best)}/s",
              ">= 2 x 32 threads", [(quotient(most, many), 2)], limit="two context switches a record")
    piped = f.ours("pipelined")
    yield Row("pipelined, 1 thread", f"{text(piped)}/s: {text(quotient(piped, one))} x one at a time",
              ">= 60 x one at a time", [(quotient(piped, one), 60)], limit=f"chain on one core {text(f.limit('chain'))}/s")
    bulk, okay = f.ours("durable batches"), f.peer("durable batches", "okaywal")
    both = 1 / (1 / f.limit("write + fdatasync of 1,000") + 1 / f.limit("chain"))
    yield Row("durable batches of 1,000", f"{text(bulk)}/s; okaywal {text(okay)}/s: {text(quotient(bulk, okay))} x",
              ">= 0.6 x okaywal", [(quotient(bulk, okay), 0.6)], limit=f"disk and chain in turn {text(both)}/s")
    alone, jobs = f.own("verify, 1 job, records/s"), f.own("verify, 2 jobs, records/s")
    yield Row("verify the chain", f"{text(alone)}/s with 1 job, {text(jobs)}/s with 2: {text(quotient(jobs, alone))} x",
              ">= 2 M/s a core, >= 1.6 x with 2 jobs", [(alone, 2e6), (quotient(jobs, alone), 1.6)],
              limit=f"chain {text(f.limit('chain'))}/s a core")
    share = f.own("durable steps, share of the bare loop")
    rates = {tool: statistics.median(all_) for tool, all_ in f.part("workflow").get("rates", {}).items() if all_}
    step = rates.pop(OURS, math.nan)
    tools = {tool: quotient(step, rate) for tool, rate in rates.items()}
    shown = "; ".join(f"{tool} {text(rate)}/s: {text(tools[tool])} x" for tool, rate in rates.items())
    yield Row("durable step, one after the other", f"{text(f.own('durable steps/s'))}/s: {text(share)} x bare loop; {text(step)}/s beside {shown or 'no tool'}",
              ">= 0.7 x bare loop, >= 6 x workflow tools", [(share, 0.7), *((ratio, 6) for ratio in tools.values() or [math.nan])],
              limit=f"write + fdatasync {text(f.own('bare write + fdatasync/s, in turn'))}/s")
    ratio = f.own("step, p99.9, ratio")
    yield Row("p99.9 of a durable step while snapshots are built",
              f"{text(f.own('step, p99.9 while snapshots are built, us'))} us: {text(ratio)} x without", "<= 2 x without", [(2, ratio)],
              limit="snapshots use the same cores and disk")
    points = f.grown("lengths", "open after a kill, ms")
    long = [ms for size, ms in points if size >= 100_000] or [math.nan]
    reaches = points[-1][0] if points else math.nan
    yield Row("open after a kill, 10 M records", "; ".join(f"{text(size)}: {text(ms)} ms" for size, ms in points),
              "<= 50 ms, flat from 100,000 (2 x)", [(50, max(long)), (2, quotient(max(long), min(long))), at(reaches, 10e6)],
              limit="the newest segment, up to 16 MiB")
    size, slowest = f.largest("lengths", "state at a record, p99, ms")
    yield Row("state at any of 10 M records, p99", f"{text(slowest)} ms", "<= 30 ms", [(30, slowest), at(size, 10e6)],
              limit="a snapshot and the records after it")
    dispatching, receiving = f.own("dispatch, plan of 100,000 steps, us"), f.own("receipt and ready set, plan of 100,000 steps, us")
    yield Row("dispatch; receipt, 100,000 steps, CPU", f"{text(dispatching)} us; {text(receiving)} us", "<= 20 us each",
              [(20, dispatching), (20, receiving)], limit="look-ups in trees in memory")
    live = f.slope("plans", "memory in use, MiB") * 2**20
    size, beyond = f.largest("lengths", "memory of the replay beyond the state, MiB")
    yield Row("memory", f"{text(live)} bytes a live step; fold of {text(size)} records: {text(beyond)} MiB beyond the state",
              "<= 600 bytes; <= 64 MiB", [(600, live), (64, beyond), at(size, 10e6)], limit="the contents of a step; two windows of a file")
    pair, (name, least) = f.ours("bytes on disk"), f.best("bytes on disk", min)
    yield Row("bytes of a dispatch and its receipt", f"{text(pair)}; {name} {text(least)}: {text(quotient(pair, least))} x",
              "<= 1.5 x the smallest", [(1.5, quotient(pair, least))], limit="512 bytes of payload")


def felt(f):
    """What a user waits for."""
    now, before, shown = f.pair("fold, records/s", "/s")
    yield Row("fold into the plan's state, 1,000,000 records", f"{text(now)}/s: {text(quotient(now, before))} x", ">= 2 x before",
              [(quotient(now, before), 2)], shown, f"chain on one core {text(f.limit('chain'))}/s")
    now, _, before = f.pair("open after a kill, plan of 100000 steps, ms", " ms")
    yield Row("open after a kill, plan of 100,000 steps", f"{text(now)} ms", "<= 60 ms", [(60, now)], before,
              "the newest snapshot, with every step")
    now, _, before = f.pair("start of 100000 steps, ms", " ms")
    small, _, small_before = f.pair("start of 10000 steps, ms", " ms")
    yield Row("start of a run of 100,000 steps; of 10,000", f"{text(now)} ms; {text(small)} ms", "<= 300 ms; <= 30 ms",
              [(300, now), (30, small)], f"{before}; {small_before}", "the plan's text and the hash of each step")
    now, _, before = f.pair("2250000 dependencies until the first dispatch, s", " s")
    yield Row("2,250,000 dependencies until the first dispatch", f"{text(now)} s", "<= 4 s", [(4, now)], before, "a plan file of 18 MB")
    now, _, before = f.pair("run --stub, 10000 steps, s", " s")
    quarter = f.pair("run --stub, 2500 steps, s", "")[0]
    yield Row("`ledger run --stub`, 10,000 steps", f"{text(now)} s: {text(quotient(now, quarter))} x 2,500 steps", "<= 10 s, linear (5 x)",
              [(10, now), (5, quotient(now, quarter))], before, "two syncs a step, four steps at once")
    clients = f.part("claims").get("clients", 64)
    # A step is a claim and its receipt, as for the tools. `ledger work` makes one request of a receipt and the next claim.
    names = ("socket", "HTTP", "MCP")
    rates = {name: f.claim(f"{name}, one request a step") for name in names}
    tools = {name: f.claim(name) for name in ("Restate", "DBOS + SQLite")}
    fastest = max(tools.values())
    shown = "; ".join(f"{name} {text(rate)}/s: {text(quotient(rate, fastest))} x" for name, rate in rates.items())
    yield Row(f"steps of {clients} clients by socket, HTTP and MCP",
              f"{shown}; " + "; ".join(f"{name} {text(rate)}/s" for name, rate in tools.items())
              + "; claims and receipts apart: " + ", ".join(f"{text(f.claim(name, 'requests/s'))}/s" for name in names),
              ">= 10 x Restate and DBOS", [(quotient(rate, fastest), 10) for rate in rates.values()], "",
              "clients and server share two cores")
    curves = {}
    for of, unit in GROWTH.items():
        points = f.grown(of, "durable receipt, p50, us")
        if points:
            curves[unit] = (points[-1], quotient(points[-1][1], points[0][1]))
    wanted = {"records": 10e6, "steps of a plan": 1e6, "runs": 1e5, "open questions": 1e4}
    reached = {unit: curves.get(unit, ((math.nan, math.nan), math.nan)) for unit in wanted}
    yield Row("growth: a durable receipt at the largest size",
              "; ".join(f"{text(size)} {unit}: {text(us)} us, {text(times)} x" for unit, ((size, us), times) in reached.items()),
              "<= 2 x that at the smallest size",
              [pair for unit, ((size, _), times) in reached.items() for pair in [(2, times), at(size, wanted[unit])]], "",
              "a sync, and look-ups in trees")
    size, rate = f.largest("workers", "steps/s")
    _, slow = f.largest("workers", "receipt, p99, ms")
    yield Row("1,000 workers on one server, half a second a step", f"{text(rate)} steps/s, p99 of a request {text(slow)} ms",
              "p99 <= 100 ms", [(100, slow), at(size, 1_000)], "", "2,000 steps/s with answers at once")


def taken_back(f):
    """Targets that no longer hold, with what was measured."""
    one, bare = f.ours("durable appends, 1 thread"), f.work("durable appends, 1 thread").get(BARE, math.nan)
    table = f.work("open, decode")
    replay, sqlite = table.get("plan-ledger, checksums only", math.nan), f.peer("open, decode", "SQLite")
    yield (f"- One thread at 0.95 of the bare loop: a commit writes two files and checks two, the loop writes one. Measured: {text(quotient(one, bare))} x.")
    yield (f"- Replay at 8 times SQLite: decoding alone, without reading and checking, is slower than that. Measured: {text(quotient(replay, sqlite))} x.")


def page(f, plots):
    machine = f.machine
    lines = ["# Results", "",
             "One run of `benches/run`: medians of rounds in which the engines take turns. Compare only figures of the same",
             "run. Every figure of every engine: `plots/figures.json`. Experiments and profiles: `NOTES.md`.", ""]
    if machine:
        lines += [f"Commit {machine['commit']}, {machine['date']}, {machine['processors']}, {machine['memory']}, {machine['system']}, "
                  f"{machine['compiler']} (`{machine['profile']}`), {machine['file system'].split()[0]} on {machine['device']}, load {machine['load at the start']} "
                  "at the start." + ("" if machine.get("sizes", "full") == "full" else f" Sizes: {machine['sizes']}."), ""]
    lines += ["| work | measured | before | target | met | limit |", "|---|---|---|---|---|---|"]
    rows = [*felt(f), *floors(f)]
    lines += [row.line() for row in rows] + [""]
    commit = f.part("pairs").get("before")
    lines += ["A peer makes at least one `fdatasync` or `fsync` for each commit (counted with strace). *Before*: "
              + (f"commit {commit}, in the same run, in turn; " if commit else "") + "with `*`: measured earlier, on a machine of the same kind.", ""]
    skipped = {**f.part("workflow").get("skipped", {}), **f.part("claims").get("skipped", {})}
    lines += [f"Not measured: {tool}: {why}" for tool, why in skipped.items()]
    lines += ["Targets that were taken back:", "", *taken_back(f), ""]
    missed = [row for row in rows if row.met is False]
    if missed:
        lines += ["## Reasons for missed targets", ""]
        for row in missed:
            lines += [f"- **{row.work}**"] + [f"  - {line}" for line in REASONS.get(row.work, ["No profile was taken yet."])]
        lines += [""]
    lines += ["## Growth", "", "Each size has a ledger of its own kind: `NOTES.md`.", ""]
    lines += [f"![{title}](plots/{name}.svg)" if (name, title) in plots else f"{title}: not measured." for name, title, *_ in PLOTS]
    return "\n".join(lines).rstrip() + "\n"


COLOURS = ["#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#8c564b", "#e377c2"]


def plot(path, title, across, up, series):
    """Draw lines on two logarithmic scales."""
    width, height, left, right, top, bottom = 640, 380, 70, 190, 40, 50
    points = [point for _, line in series for point in line if point[0] > 0 and point[1] > 0]
    if not points:
        return False
    x0, x1 = (math.floor(math.log10(min(x for x, _ in points))), math.ceil(math.log10(max(x for x, _ in points))))
    y0, y1 = (math.floor(math.log10(min(y for _, y in points))), math.ceil(math.log10(max(y for _, y in points))))
    x1, y1 = max(x1, x0 + 1), max(y1, y0 + 1)

    def place(x, y):
        return (left + (math.log10(x) - x0) / (x1 - x0) * (width - left - right),
                height - bottom - (math.log10(y) - y0) / (y1 - y0) * (height - top - bottom))

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
             f'<rect width="{width}" height="{height}" fill="white"/>',
             f'<text x="{left}" y="22" font-size="15">{title}</text>',
             f'<text x="{(left + width - right) / 2}" y="{height - 10}" text-anchor="middle">{across}</text>',
             f'<text x="16" y="{(top + height - bottom) / 2}" text-anchor="middle" transform="rotate(-90 16 {(top + height - bottom) / 2})">{up}</text>']

    def label(power):
        value = 10.0 ** power
        return f"{value:,.0f}" if power >= 0 else f"{value:g}"

    for power in range(x0, x1 + 1):
        x, _ = place(10.0 ** power, 10.0 ** y0)
        parts.append(f'<line x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{height - bottom}" stroke="#ddd"/>')
        parts.append(f'<text x="{x:.1f}" y="{height - bottom + 16}" text-anchor="middle">{label(power)}</text>')
    for power in range(y0, y1 + 1):
        _, y = place(10.0 ** x0, 10.0 ** power)
        parts.append(f'<line x1="{left}" y1="{y:.1f}" x2="{width - right}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{label(power)}</text>')
    for number, (name, line) in enumerate(series):
        colour = COLOURS[number % len(COLOURS)]
        placed = [place(x, y) for x, y in line if x > 0 and y > 0]
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="' + " ".join(f"{x:.1f},{y:.1f}" for x, y in placed) + '"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in placed]
        parts.append(f'<text x="{width - right + 12}" y="{top + 16 + 20 * number}" fill="{colour}">{name}</text>')
    path.write_text("\n".join(parts + ["</svg>", ""]))
    return True


# Each figure by all that grows; a workers' figure has another name.
PLOTS = [
    ("open", "Open after a kill", "milliseconds", "open after a kill, ms", None, 1),
    ("receipt", "A durable receipt", "microseconds, median", "durable receipt, p50, us", "receipt, p50, ms", 1000),
    ("memory", "Peak memory of the process", "MiB", "peak memory in use, MiB", "peak memory of the server, MiB", 1),
]


def drawn(f, folder):
    """Draw the plots. Returns their names and titles."""
    folder.mkdir(parents=True, exist_ok=True)
    done = []
    for name, title, up, figure, of_workers, times in PLOTS:
        series = [(unit, f.grown(of, figure)) for of, unit in GROWTH.items() if of != "workers"]
        if of_workers:
            series.append((GROWTH["workers"], [(size, value * times) for size, value in f.grown("workers", of_workers)]))
        (folder / f"{name}.svg").unlink(missing_ok=True)
        if plot(folder / f"{name}.svg", title, "size", up, series):
            done.append((name, title))
    return done


def rounded(value):
    """A figure with six digits."""
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    if isinstance(value, list):
        return [rounded(each) for each in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def main():
    words = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    words.add_argument("figures", type=Path, nargs="?")
    words.add_argument("--page", type=Path, default=HERE)
    words.add_argument("--machine", type=Path)
    words.add_argument("--sizes", default="full")
    words.add_argument("--json", type=Path)
    options = words.parse_args()
    if options.machine:
        options.json.write_text(json.dumps(machine(options.machine, options.sizes), indent=1))
        return
    f = Figures(options.figures)
    (options.page / "RESULTS.md").write_text(page(f, drawn(f, options.page / "plots")))
    every = json.dumps(rounded({name: part for name, part in f.all.items() if part is not None}), indent=1)
    # A series of figures is one line.
    every = re.sub(r"\[[^\[\]{}]*\]", lambda series: re.sub(r"\s+", " ", series[0]), every)
    (options.page / "plots" / "figures.json").write_text(every + "\n")


if __name__ == "__main__":
    main()
