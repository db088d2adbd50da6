"""Writes benches/RESULTS.md and benches/plots from the figures that `benches/run` measured.

Usage: report.py FIGURES, or report.py --machine FOLDER to describe the machine. It needs only the
standard library. Figures are medians over the rounds of one run.
"""

import json
import math
import os
import platform
import statistics
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path

HERE = Path(__file__).resolve().parent
OURS = "plan-ledger"
BARE = "write + fdatasync, nothing else"
# Entries that are not peers in the comparison of commits.
TRUSTING = "plan-ledger, checksums only"
NO_PEERS = {OURS, TRUSTING, BARE}

# The reasons for missed targets, from profiles. A reason is printed only if its target is missed.
REASONS = json.loads((HERE / "reasons.json").read_text())

# Notes on targets, also from other runs. A note is printed only if its target is met.
NOTES = REASONS.pop("notes on targets that are met")


def output(words):
    try:
        return subprocess.run(words, capture_output=True, text=True, check=True, cwd=HERE).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def machine(folder):
    """Describe the machine."""
    cpu = [line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
           if line.startswith("model name")]
    memory = Path("/proc/meminfo").read_text().split()[1]
    mount = output(["findmnt", "--noheadings", "--output", "SOURCE,FSTYPE,OPTIONS", "--target", str(Path(folder).resolve())])
    device, kind, options = (mount.split(None, 2) + ["?", "?", "?"])[:3]
    changed = output(["git", "status", "--porcelain", "--untracked-files=no", "--", "../src"])
    return {
        "commit": output(["git", "rev-parse", "--short=12", "HEAD"]) + (" and changes" if changed else ""),
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "processors": f"{len(os.sched_getaffinity(0))} x {cpu[0] if cpu else '?'}",
        "memory": f"{int(memory) / 2**20:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "compiler": output(["rustc", "--version"]),
        "device": device,
        "file system": f"{kind} ({options})",
        "load at the start": " ".join(f"{load:.2f}" for load in os.getloadavg()),
    }


def text(value, digits=3):
    """A figure with its significant digits."""
    if value is None or math.isnan(value):
        return "-"
    if abs(value) >= 1000:
        return f"{round(value):,}"
    return f"{value:.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}" if value else "0"


class Figures:
    """All measured figures; others are NaN."""

    def __init__(self, folder):
        def load(name, other):
            path = folder / f"{name}.json"
            return json.loads(path.read_text()) if path.exists() else other

        self.machine = load("machine", {})
        self.speed = load("speed", [])
        self.durability = load("durability", {})
        self.limits = load("limits", [])
        self.own_all = load("own", {})
        self.grow = load("grow", {"lengths": [], "plans": []})
        self.workflow = load("workflow", {"rates": {}, "versions": {}, "skipped": {}})

    def work(self, name):
        """The medians of a table, by engine."""
        for row in self.speed:
            if row["work"].startswith(name):
                return {engine: statistics.median(all_) for engine, all_ in row["figures"].items()}
        return {}

    def is_durable(self, engine):
        """Whether it made at least one sync call for each commit; unknown counts as yes."""
        seen = self.durability.get(engine)
        if seen is None:
            return True
        return seen["files"] > 0 or seen["calls"]["fdatasync"] + seen["calls"]["fsync"] >= 200

    def ours(self, name):
        return self.work(name).get(OURS, math.nan)

    def best(self, name, better=max):
        """The best durable peer, and its figure."""
        peers = {engine: figure for engine, figure in self.work(name).items()
                 if engine not in NO_PEERS and self.is_durable(engine)}
        if not peers:
            return "", math.nan
        engine = better(peers, key=peers.get)
        return engine, peers[engine]

    def limit(self, name):
        for row in self.limits:
            if row["limit"].startswith(name):
                return statistics.median(row["figures"])
        return math.nan

    def own(self, name):
        return statistics.median(self.own_all[name]) if name in self.own_all else math.nan

    def grown(self, of, name):
        """Sizes and medians of a figure that depends on the size."""
        return [(entry["size"][0], statistics.median(entry[name])) for entry in self.grow[of] if name in entry]

    def largest(self, of, name):
        """The figure at the largest size, with the size."""
        points = self.grown(of, name)
        return points[-1] if points else (math.nan, math.nan)

    def slope(self, of, name):
        """The growth of a figure for each unit of the size, between the two largest sizes."""
        (fewer, less), (more, most) = ([(math.nan, math.nan)] * 2 + self.grown(of, name))[-2:]
        return quotient(most - less, more - fewer)


def quotient(one, other):
    return one / other if other else math.nan


class Row:
    """A line of the table of targets."""

    def __init__(self, work, target, ours, other, met, limit=""):
        self.work, self.target, self.ours = work, target, ours
        self.other, self.met, self.limit = other, met, limit

    def line(self):
        met = {True: "yes", False: "**no**", None: "not measured"}[self.met]
        return f"| {self.work} | {self.ours} | {self.other} | {self.target} | {met} | {self.limit} |"


def judged(*conditions):
    """Whether all conditions hold; unknown if a figure was not measured."""
    if any(math.isnan(figure) for condition in conditions for figure in condition):
        return None
    return all(value >= least for value, least in conditions)


def rows(f):
    one, bare = f.ours("durable appends, 1 thread"), f.work("durable appends, 1 thread").get(BARE, math.nan)
    name, best = f.best("durable appends, 1 thread")
    yield Row("durable append, 1 thread", ">= 0.95 x bare, >= 1.1 x best peer", f"{text(one)}/s",
              f"bare loop {text(bare)}/s: {text(quotient(one, bare))} x; {name} {text(best)}/s: {text(quotient(one, best))} x",
              judged((quotient(one, bare), 0.95), (quotient(one, best), 1.1)),
              f"one fdatasync each: {text(f.limit('write + fdatasync of a frame'))}/s alone")
    many = f.ours("durable appends, 32 threads")
    name, best = f.best("durable appends, 32 threads")
    yield Row("durable append, 32 threads", ">= 2 x best peer", f"{text(many)}/s",
              f"{name} {text(best)}/s: {text(quotient(many, best))} x", judged((quotient(many, best), 2)),
              f"32 records in each sync: {text(32 * bare)}/s")
    most = f.ours("durable appends, 256 threads")
    name, best = f.best("durable appends, 256 threads")
    yield Row("durable append, 256 threads", ">= 2 x 32 threads", f"{text(most)}/s",
              f"plan-ledger, 32 threads: {text(quotient(most, many))} x; {name} {text(best)}/s: {text(quotient(most, best))} x",
              judged((quotient(most, many), 2)),
              f"waking {text(most)} threads a second; the disk {text(f.limit('write + fdatasync of 1,000'))}/s")
    piped = f.ours("pipelined")
    yield Row("pipelined by tickets, 1 thread", ">= 60 x one at a time", f"{text(piped)}/s",
              f"one at a time {text(one)}/s: {text(quotient(piped, one))} x", judged((quotient(piped, one), 60)),
              f"chain on one core: {text(f.limit('chain'))}/s")
    bulk = f.ours("durable batches")
    name, best = f.best("durable batches")
    yield Row("bulk append, durable batches of 1,000", ">= 1.0 x best peer", f"{text(bulk)}/s",
              f"{name} {text(best)}/s: {text(quotient(bulk, best))} x", judged((quotient(bulk, best), 1)),
              f"the disk alone {text(f.limit('write + fdatasync of 1,000'))}/s; the chain alone {text(f.limit('chain'))}/s; both in turn "
              + text(1 / (1 / f.limit('write + fdatasync of 1,000') + 1 / f.limit('chain'))) + "/s")
    table = f.work("open, decode")
    checked, replay = f.ours("open, decode"), table.get(TRUSTING, math.nan)
    named = [(short, full) for short, full in [("SQLite", "SQLite, WAL, synchronous = FULL"), ("redb", "redb 4"), ("fjall", "fjall 3, SyncAll")]]
    ratios = [quotient(replay, table.get(full, math.nan)) for _, full in named]
    size, folded = f.largest("lengths", "replay, records/s")
    yield Row("replay: decode and fold, one core", ">= 10 M/s, >= 8 x SQLite, redb, fjall",
              f"{text(replay)}/s; with chain {text(checked)}/s; into the plan's state {text(folded)}/s",
              "; ".join(f"{short} {text(table.get(full, math.nan))}/s: {text(ratio)} x" for (short, full), ratio in zip(named, ratios)),
              judged((replay, 10e6), *((ratio, 8) for ratio in ratios)),
              f"decode and fold in memory {text(f.limit('decode and fold'))}/s; checksums {text(f.limit('checksums'))}/s; chain {text(f.limit('chain'))}/s")
    alone, both = f.own("verify, 1 job, records/s"), f.own("verify, 2 jobs, records/s")
    yield Row("verify the chain", ">= 2 M records/s a core, >= 1.6 x with 2 jobs", f"{text(alone)}/s with 1 job, {text(both)}/s with 2",
              f"2 jobs: {text(quotient(both, alone))} x", judged((alone, 2e6), (quotient(both, alone), 1.6)),
              f"chain: {text(f.limit('chain'))}/s a core")
    share = f.own("durable steps, share of the bare loop")
    rates = {tool: statistics.median(all_) for tool, all_ in f.workflow["rates"].items() if all_}
    step = rates.pop(OURS, math.nan)
    tools = [quotient(step, rate) for rate in rates.values()]
    yield Row("durable step", ">= 0.9 x fdatasync; >= 6 x Restate, LangGraph, DBOS",
              f"{text(f.own('durable steps/s'))}/s; in turn with the tools {text(step)}/s",
              f"bare loop: {text(share)} x; " + ("; ".join(f"{tool} {text(rate)}/s: {text(quotient(step, rate))} x" for tool, rate in rates.items()) or "no tool"),
              judged((share, 0.9), *((ratio, 6) for ratio in tools or [math.nan])),
              f"one fdatasync each: {text(f.own('bare write + fdatasync/s, in turn'))}/s")
    points = f.grown("lengths", "open after a kill, ms")
    long = [point for point in points if point[0] >= 100_000]
    worst = max((ms for _, ms in long), default=math.nan)
    flat = quotient(max((ms for _, ms in long), default=math.nan), min((ms for _, ms in long), default=math.nan))
    reaches = points[-1][0] if points else math.nan
    yield Row("open after kill -9", "<= 50 ms, flat from 100 k to 10 M",
              "; ".join(f"{text(size)}: {text(ms)} ms" for size, ms in points) or "-",
              f"slowest / fastest from 100,000: {text(flat)} x", judged((50, worst), (2, flat), (reaches, 10e6)),
              "the newest segment of up to 16 MiB, the newest snapshot with its bases, and at most 4,096 later records")
    points = f.grown("lengths", "state at a record, p99, ms")
    long = [ms for size, ms in points if size >= 100_000]
    yield Row("`state_at(random seq)`, p99", "<= 30 ms at 10 M, flat", "; ".join(f"{text(size)}: {text(ms)} ms" for size, ms in points) or "-",
              f"slowest / fastest from 100,000: {text(quotient(max(long, default=math.nan), min(long, default=math.nan)))} x",
              judged((30, points[-1][1] if points else math.nan), (reaches, 10e6)),
              f"a snapshot and 4,096 records at {text(folded)}/s: {text(4096 / folded * 1000)} ms" if folded == folded else "")
    dispatching, receiving = f.own("dispatch, plan of 100,000 steps, us"), f.own("receipt and ready set, plan of 100,000 steps, us")
    yield Row("dispatch; receipt with ready set, 100,000 steps", "<= 20 us of CPU each", f"{text(dispatching)} us; {text(receiving)} us", "",
              judged((20, dispatching), (20, receiving)), "a few look-ups in trees in memory")
    ratio = f.own("step, p99.9, ratio")
    yield Row("p99.9 of a durable step while snapshots are built", "<= 2 x without",
              f"{text(f.own('step, p99.9 while snapshots are built, us'))} us", f"without {text(f.own('step, p99.9 without snapshots, us'))} us: {text(ratio)} x",
              judged((2, ratio)), "snapshots use the same processors and disk")
    live = f.slope("plans", "memory in use, MiB") * 2**20
    size, beyond = f.largest("lengths", "memory of the replay beyond the state, MiB")
    yield Row("memory", "<= 200 bytes a live step; replay of 10 M within 64 MiB beyond the state",
              f"{text(live)} bytes a step with its text in the plan; replay of {text(size)}: {text(beyond)} MiB beyond the state",
              "-",
              judged((200, live), (64, beyond), (size, 10e6)), "the contents of a step; one window of the file")
    pair, (name, least) = f.ours("bytes on disk"), f.best("bytes on disk", min)
    yield Row("bytes on disk, dispatch and receipt", "<= 1.5 x the smallest", f"{text(pair)}", f"{name} {text(least)}: {text(quotient(pair, least))} x",
              judged((1.5, quotient(pair, least))), "512 bytes of payload; 2 frames of 384 bytes in lines of 64")


def table_of(row, f):
    """One task, all engines."""
    medians = {engine: statistics.median(all_) for engine, all_ in row["figures"].items()}
    ours = medians.get(OURS, math.nan)
    lines = [f"### {row['work']}", "", f"| engine | {row['unit']} | ratio to {OURS} | minimum to maximum |", "|---|---|---|---|"]
    is_less_better = row["unit"] in ("ms", "bytes")
    for engine, figure in sorted(medians.items(), key=lambda each: each[1], reverse=not is_less_better):
        every = row["figures"][engine]
        mark = "" if engine in NO_PEERS or f.is_durable(engine) else " (not synced, see above)"
        lines.append(f"| {engine}{mark} | {text(figure)} | {text(quotient(figure, ours))} | {text(min(every))} to {text(max(every))} |")
    return lines + [""]


def bullets(row, points):
    """A target with its reasons or notes."""
    return [f"- **{row.work}**"] + [f"  - {point}" for point in points]


def page(f, plots):
    lines = ["# Results", "",
             "`benches/run` measured these figures in one run and wrote this page. Figures are medians over rounds",
             "in which the engines take turns. Compare only figures of the same run: machines differ, and this one",
             "may be shared. Missed targets stay in the table, with their reasons below it.", "", "| machine | |", "|---|---|"]
    lines += [f"| {name} | {value} |" for name, value in f.machine.items()]
    lines += ["| sync method | plan-ledger and the bare loop: `fdatasync` on files filled with zeros before; other engines: their defaults |", ""]
    lines += ["## Targets", "", "| task | plan-ledger | compared with | target | met | limit on this machine |", "|---|---|---|---|---|---|"]
    all_rows = list(rows(f))
    lines += [row.line() for row in all_rows] + [""]
    short = [row for row in all_rows if row.met is not True]
    if short:
        lines += ["## Missed targets", ""]
        for row in short:
            reason = REASONS.get(row.work, ["No profile was taken yet."]) if row.met is False else ["It was not measured in this run."]
            lines += bullets(row, reason)
        lines += [""]
    known = [(row, NOTES[row.work]) for row in all_rows if row.met is True and row.work in NOTES]
    if known:
        lines += ["## Notes on targets that are met", ""]
        for row, notes in known:
            lines += bullets(row, notes)
        lines += [""]
    lines += ["More about these points: `NOTES.md`.", ""]
    lines += ["## The same records on every engine", "",
              "The records are dispatches and receipts of 256 bytes. Every engine has its default settings and the",
              "strongest durability that it offers for a commit. Calls for 200 durable commits, counted with strace:", "",
              "| engine | fdatasync | fsync | sync_file_range | msync | files with O_SYNC or O_DSYNC |", "|---|---|---|---|---|---|"]
    for engine, seen in f.durability.items():
        calls = seen["calls"]
        lines.append(f"| {engine} | {calls['fdatasync']} | {calls['fsync']} | {calls['sync_file_range']} | {calls['msync']} | {seen['files']} |")
    lines += ["", "An engine with fewer than one `fdatasync` or `fsync` a commit is listed but does not count as a peer.",
              "`sync_file_range` writes pages to the device, but neither metadata nor the cache of the device.", ""]
    for row in f.speed:
        lines += table_of(row, f)
    lines += ["## Workflow tools", "", "| tool | version | durable steps/s | plan-ledger / tool |", "|---|---|---|---|"]
    rates = {tool: statistics.median(all_) for tool, all_ in f.workflow["rates"].items() if all_}
    for tool, rate in rates.items():
        lines.append(f"| {tool} | {f.workflow['versions'].get(tool, '')} | {text(rate)} | {text(quotient(rates.get(OURS, math.nan), rate))} |")
    lines += [f"| {tool} | not measured: {why} | | |" for tool, why in f.workflow["skipped"].items()]
    lines += ["", "Definition of a step for each tool: `workflow/README.md`.", "", "## Limits of the machine", "", "| limit | median | unit |", "|---|---|---|"]
    lines += [f"| {row['limit']} | {text(statistics.median(row['figures']))} | {row['unit']} |" for row in f.limits]
    lines += ["", "## Plans, verification and snapshots", "", "| figure | median |", "|---|---|"]
    lines += [f"| {name} | {text(statistics.median(all_))} |" for name, all_ in f.own_all.items()]
    lines += ["", "## Growth with the length of the log and the size of the plan", ""]
    for of, what in [("lengths", "records"), ("plans", "steps of the plan")]:
        names = [name for name in (f.grow[of][0] if f.grow[of] else {}) if name != "size"]
        lines += [f"| {what} | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
        for entry in f.grow[of]:
            figures = [text(statistics.median(entry[name])) if name in entry else "-" for name in names]
            lines.append(f"| {text(entry['size'][0])} | " + " | ".join(figures) + " |")
        lines.append("")
    lines += [f"![{title}](plots/{name}.svg)" for name, title in plots]
    return "\n".join(lines) + "\n"


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


PLOTS = [
    ("open-replay", "Open, past states, replay, verification", "milliseconds",
     [("open after a kill", "open after a kill, ms"), ("state at a record, p50", "state at a record, p50, ms"),
      ("state at a record, p99", "state at a record, p99, ms"), ("replay from the start", "replay from the start, ms"),
      ("verify with every state", "verify with every state, ms")]),
    ("commands", "Durable commands", "microseconds, median",
     [("dispatch", "durable dispatch, p50, us"), ("receipt", "durable receipt, p50, us"), ("append", "durable append (a variable), p50, us")]),
    ("memory", "Memory", "MiB",
     [("in use", "memory in use, MiB"), ("state", "memory of the state, MiB"), ("replay beyond the state", "memory of the replay beyond the state, MiB")]),
]


def main():
    if sys.argv[1] == "--machine":
        print(json.dumps(machine(sys.argv[2]), indent=1))
        return
    f = Figures(Path(sys.argv[1]))
    folder = HERE / "plots"
    folder.mkdir(exist_ok=True)
    drawn = []
    for of, across in [("lengths", "records in the log"), ("plans", "steps of the plan")]:
        for name, title, up, lines in PLOTS:
            series = [(label, f.grown(of, figure)) for label, figure in lines]
            full = f"{name}-by-{of}"
            if plot(folder / f"{full}.svg", title, across, up, series):
                drawn.append((full, f"{title}, by {across}"))
    (HERE / "RESULTS.md").write_text(page(f, drawn))


main()
