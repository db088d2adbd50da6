"""Writes EVIDENCE.md from the output of the laboratory, the tests, the mutants and the fuzz targets.

Usage:
  evidence.py page FOLDER               write the page from the parts in a folder, all of one commit
  evidence.py different FOLDER HASHES   count the different images of the parts, whose hashes are in another folder
  evidence.py digests                   put the short runs (JSON Lines on standard input) into the page
  evidence.py check                     compare the short runs with those in the page

`format/evidence.sh` calls it. The script copies figures, and computes sums and percentages. A part without a file is
reported as not run.
"""

import heapq
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "format" / "EVIDENCE.md"


def read(path):
    """The JSON lines of a part, and its other lines."""
    values, text = [], []
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        value = json.loads(line) if line.startswith('{"') and line.endswith("}\n") else None
        if value:
            values.append(value)
        else:
            text.append(line)
    return values, "".join(text)


def union(paths):
    """How many different hashes sorted files have together."""
    files = [path.open(encoding="ascii") for path in paths]
    count, last = 0, None
    for line in heapq.merge(*files):
        count += line != last
        last = line
    for file in files:
        file.close()
    return count


def different(folder, hashes):
    """The different images of all runs together, and of each; those of a part that was interrupted do not count."""
    parts = sorted(path.name for path in folder.glob("crashes*") if path.suffix != ".part")
    paths = [hashes / f"{name}.hashes" for name in parts]
    lost = [path.stem for path in paths if not path.exists()]
    if lost or not paths:
        sys.exit(f"the hashes of {', '.join(lost) or 'all images'} are not here: run the parts `crashes` and `devices` again")
    each = {path.stem: union([path]) for path in paths}
    return {"type": "different", "all": union(paths), "each": each}


def share(part, whole):
    return f"{100 * part / whole:.1f} %" if whole else "-"


def crashes(labs, counts, out):
    """`counts`: the different images of all runs together, and of each."""
    out("## Crash images\n")
    if not labs:
        out("Not run for this page: `format/evidence.sh crashes devices`.\n")
        return
    out("All workloads of so many operations (append, batch, flush, rotate, snapshot, reopen, kill, prune) crash")
    out("at every change of the simulated disk. *Images* are disks as they may be after the crash. Of equal images")
    out("one is examined (*distinct*). *All subsets*: the share of crash points at which every subset of the")
    out("unsynced writes is tried; at the others, all of them, none of them, and samples. Shorter workloads come first: where")
    out("not all workloads were run, it is a selection of the longest that is missing.\n")
    if counts:
        out(f"**{counts['all']} different images** in all runs together: their content differs, whatever device, history and")
        out("number of crashes led to them. Of these, each run has (*distinct* images with equal content count once):")
        out(f"{'; '.join(f'{name} {count}' for name, count in counts['each'].items())}.\n")
    out("| operations | device | workloads | crash | points | all subsets | images | distinct | seconds |")
    out("|---|---|---|---|---|---|---|---|---|")
    for it in labs:
        device = it.get("device", "atomic-sector")
        workloads = f"{it['workloads']} of {it['workloads_all']} ({share(it['workloads'], it['workloads_all'])})"
        for name, key in (("first", ""), ("in recovery", "_again")):
            whole = share(it["points" + key + "_whole"], it["points" + key])
            out(
                f"| {it['ops']} | {device} | {workloads} | {name} | {it['points' + key]} | {whole} "
                f"| {it['images' + key]} | {it['distinct' + key]} | {it['seconds']:.0f} |"
            )
        out(f"| {it['ops']} | {device} | {workloads} | third, sampled | | | {it['images_third']} | {it['distinct_third']} | |")
        out(f"| {it['ops']} | {device} | {workloads} | **all** | | | **{it['tried']}** | **{it['examined']}** | |")
    out("")
    for it in labs:
        out(
            f"- {it['ops']} operations, {it.get('device', 'atomic-sector')}, seed {it['seed']}: "
            f"{it['clean']} clean, {it['unacknowledged']} with an unacknowledged tail, {it['torn']} torn, {it['absent']} without a "
            f"ledger, {it.get('asked', 0)} that a person must judge; promises broken: {it['broken']}. Digest of "
            f"all images: `{it['digest'][:16]}`."
        )
    out("")


def faults(all_of, runs, out):
    out("## Failing and lying disks\n")
    out("Each fault is injected into every call that it can affect, one at a time. Then the machine restarts in four")
    out("ways.")
    for it in runs:
        out(
            f"\nWorkloads of up to {it['ops']} operations, {it['workloads']} of {it['workloads_all']} "
            f"({share(it['workloads'], it['workloads_all'])}), seed {it['seed']}, {it['seconds']:.0f} seconds."
        )
    out("\nThe first table has faults that keep the contract of `log.md`: no acknowledged record may be missing.\n")
    # A broken promise ends the run without these lines: the faults listed here broke none.
    lies = [it for it in all_of if it["whole"] + it["refused"] + it["reported"] + it["earlier"]]
    contract = [it for it in all_of if it not in lies or it["fault"] == ASKS]
    out("| fault | injected | images | promises broken | left to a person |")
    out("|---|---|---|---|---|")
    for it in (it for it in contract if it["struck"]):
        out(f"| {it['fault']} | {it['struck']} | {it['images']} | 0 | {it['refused']} |")
    out("\nThe second table has faults that break it, so that no engine can keep everything. *Earlier*: the ledger is")
    out("as it was at an earlier time, and only a root that is kept elsewhere shows it. No record was invented.\n")
    out("| fault | injected | images | complete | refused | reported | earlier |")
    out("|---|---|---|---|---|---|---|")
    for it in (it for it in lies if it["fault"] != ASKS):
        out(
            f"| {it['fault']} | {it['struck']} | {it['images']} | {it['whole']} | {it['refused']} "
            f"| {it['reported']} | {it['earlier']} |"
        )
    out("")


# After this fault the engine may leave the decision to a person: a torn sector need not look torn.
ASKS = "disk full inside of a sector"


def lives(all_of, out):
    out("## Long workloads\n")
    if not all_of:
        out("Not run for this page: `format/evidence.sh life`.\n")
        return
    out("One ledger that crashes repeatedly, in operations and in recoveries, is pruned when it is long, and is read")
    out("all the time through a reader that was opened before.\n")
    out("| operations | seed | crashes | records | reads | promises broken | seconds |\n|---|---|---|---|---|---|---|")
    for it in all_of:
        out(
            f"| {it['ops']} | {it['seed']} | {it['crashes']} | {it['records']} | {it['looks']} | {it['broken']} "
            f"| {it['seconds']:.0f} |"
        )
    out("")


KILLS = re.compile(r"^mutant: (\w+) (\S+) (?:killed-by=(\S+) hits=(\S+)|survived) .*seconds=(\S+)", re.M)


# Every mutant has one line: the page lists the mutants that were not run.
MUTANT = re.compile(r'^    (\w+), "[^"]+", "', re.M)


def found_bugs(kills):
    """How many seeded bugs were found, how many were run, and the seconds that this took."""
    bugs = [it for it in kills.values() if it[0] != "NoOp"]
    return sum(1 for it in bugs if it[2]), len(bugs), sum(float(it[4]) for it in bugs)


def source_at(commit, name):
    """A file at a commit; of the working tree if there is no such commit."""
    shown = subprocess.run(["git", "show", f"{commit}:{name}"], cwd=ROOT, capture_output=True, text=True)
    return shown.stdout if shown.returncode == 0 else (ROOT / name).read_text(encoding="utf-8")


def mutants(text, commit, out):
    out("## Mutants (seeded bugs)\n")
    kills = {found[0]: found for found in KILLS.findall(text)}
    if not kills:
        out("Not run for this page: `tests/mutants/run all`.")
        return
    names = MUTANT.findall(source_at(commit, "src/sim/mutants.rs"))
    # Several run at once: the order is that of the list.
    kills = {name: kills[name] for name in sorted(kills, key=lambda it: names.index(it) if it in names else -1)}
    found, bugs, seconds = found_bugs(kills)
    out(f"{found} of {bugs} were found by a test, in {seconds:.0f} seconds.")
    missing = [name for name in names if name not in kills]
    if missing:
        out(f"Not run for this page: {', '.join(missing)}.")
    out("The test that found each mutant, and how often it had reached the mutant (*hits*):\n")
    out("| mutant | hazard | found by | hits |\n|---|---|---|---|")
    for name, hazard, killer, hits, _ in kills.values():
        out(f"| {name} | {hazard} | {killer or 'nothing'} | {hits} |")


MEASURED = re.compile(r"measured: ([^:\n]+): (\d+) ([^\n]+)")
PASSED = re.compile(r"^test (\w+)::\S+ \.\.\. ok$", re.M)
# The module of the tests that measure each subject.
SUBJECTS = {
    "unreadable ranges": "unreadable_sectors", "clocks": "ledger_time", "histories": "histories",
    "files of other users": "other_users", "socket over a simulated disk": "durable_answers", "models": "protocol_model",
}


def cases(text, out):
    out("## Permanent faults, clocks, histories of answers, other users\n")
    measured = MEASURED.findall(text)
    if not measured:
        out("Not run for this page: `format/evidence.sh cases`.\n")
        return
    out("Tests that count what they try. *Unreadable ranges* stay unreadable, mapped pages included; they cost the")
    out("records in them and nothing else. *Clocks* jump by minutes, days and decades in both directions. In")
    out("*histories* concurrent clients cut connections, repeat requests and reuse keys while the server is killed,")
    out("and every answer must be true. Traces of *models* of the protocol are replayed against the real code. No")
    out("promise was broken.\n")
    out("| subject | tests | tried |\n|---|---|---|")
    passed = PASSED.findall(text)
    for subject, module in SUBJECTS.items():
        tried = [f"{count} {what.strip()}" for name, count, what in measured if name == subject]
        if tried:
            out(f"| {subject} | {passed.count(module)} | {'; '.join(tried)} |")
    out("")


def runners(rows, out):
    out("## The runner in the simulator\n")
    if not rows:
        out("Not run for this page: `format/evidence.sh runner`.\n")
        return
    out("`ledger drill --every-crash`: the loop of `ledger run` on a simulated disk, with a simulated clock and simulated")
    out("workers, which succeed, fail, or are lost (*flaky*). It crashes at each of its writes and is resumed. Each run must end")
    out("with the state of the run without a crash, and no accepted work may be done twice.\n")
    out("| plan | agents | steps | crash points | lives | holds |\n|---|---|---|---|---|---|")
    for it in rows:
        plan = it["plan"].rpartition("/")[2]
        out(f"| {plan} | {it['agents']} | {it['steps']} | {it['points']} | {it['lives']} | {'yes' if it['holds'] else 'no'} |")
    out("")


def power(rows, out):
    out("## Power cuts below real file systems\n")
    if not rows:
        out("Not run for this page: `tests/power/run`.\n")
        return
    out("A ledger works on a real file system, with clients, a server that is killed, snapshots, large outputs and a")
    out("prune. Its disk records every write and flush. A *cut* keeps all writes before the last flush, and any part")
    out("of those after it, in pieces of 512 or 4096 bytes; the kernel mounts the result. *Checked*: how often a")
    out("promise was compared. *Broken*: cuts after which something acknowledged was missing, `verify` reported")
    out("damage of the log, or the ledger did not open. *Snapshot lost*: without a journal, a removed snapshot")
    out("returned with blocks of another file; nothing else was missing. *Not mounted*: the kernel gave up the file")
    out("system, since a block was torn inside; such a cut is repeated with whole blocks.\n")
    out("| file system | cuts | writes | flushes | answers | checked | broken | snapshot lost | not mounted | opened as | seconds |")
    out("|---|---|---|---|---|---|---|---|---|---|---|")
    for it in rows:
        openings = ", ".join(f"{count} {name}" for name, count in it["openings"].items())
        out(
            f"| {it['fs']} | {it['cuts']} | {it['writes']} | {it['flushes']} | {it['acks']} | {it['checked']} "
            f"| {it['broken']} | {it['derived']} | {it['unmountable']} | {openings} | {it['seconds']} |"
        )
    out(f"| **all** | **{sum(it['cuts'] for it in rows)}** | | | | | **{sum(it['broken'] for it in rows)}** | | | | |")
    out("")


SCHEDULED = re.compile(r"^schedules: ([^:\n]+): (\d+) (\w+)$", re.M)


def schedules(text, out):
    out("## Schedules of threads\n")
    found = SCHEDULED.findall(text)
    if not found:
        out("Not run for this page: `tests/schedules/run`.\n")
        return
    out("`shuttle` runs group commit under random schedules, and under schedules with few preemptions. No thread")
    out("waited forever, and every acknowledged record was durable.\n")
    out("| test | scheduler | schedules |\n|---|---|---|")
    for name, count, kind in found:
        out(f"| {name} | {kind} | {count} |")
    out("")


COVERED = re.compile(r"^(format|log|plan)/\S+ +\d+ +\d+ +\S+ +\d+ +\d+ +\S+ +(\d+) +(\d+)", re.M)
FUZZED = re.compile(r"^(\w+): (\d+) runs, (\d+) new inputs, (\d+) seconds", re.M)


def coverage(output, out):
    out("\n## Line coverage\n")
    if not output:
        out("Not run for this page: `tests/coverage/run`.")
        return
    lines = {}
    for layer, whole, missed in COVERED.findall(output):
        before = lines.get(layer, (0, 0))
        lines[layer] = (before[0] + int(whole), before[1] + int(missed))
    text = "; ".join(
        f"`{layer}` {whole - missed} of {whole} ({share(whole - missed, whole)})"
        for layer, (whole, missed) in sorted(lines.items())
    )
    out(f"{text}, inline tests included. {' '.join(NOTE.findall(output))}")


MIRI = re.compile(r"^test result: ok\. (\d+) passed", re.M)


def miri(text, out):
    out("\n## Undefined behavior\n")
    passed = [int(count) for count in MIRI.findall(text)]
    if not passed:
        out("Not run for this page: `.ci/run miri`.")
        return
    out(f"{sum(passed)} tests ran in Miri, an interpreter that finds undefined behavior, data races and leaks. It found none.")
    out(f"{' '.join(NOTE.findall(text))}")


MUTATED = re.compile(r"^mutations: (\S+): (\d+) caught, (\d+) missed, (\d+) timeout, (\d+) unviable$", re.M)


def mutated(text, out):
    out("\n## Mutations by cargo-mutants\n")
    rows = MUTATED.findall(text)
    if not rows:
        out("Not run for this page: `.ci/run cargo-mutants`.")
        return
    out("Small changes of the code, made by a program that knows no hazards. *Caught*: a test fails. *Missed*: no test fails;")
    out("each is explained in `tests/mutants/survivors.md`. *Unviable*: it does not compile.")
    out(f"{' '.join(NOTE.findall(text))}\n")
    out("| file | caught | missed | timeout | unviable |\n|---|---|---|---|---|")
    for row in rows:
        out(f"| {' | '.join(row)} |")
    sums = [sum(int(row[at]) for row in rows) for at in range(1, 5)]
    out(f"| **all** | {' | '.join(f'**{it}**' for it in sums)} |")


NOTE = re.compile(r"^note: (.*)$", re.M)


def fuzzed(text, out):
    out("\n## Fuzzing\n")
    if not text:
        out("Not run for this page: `fuzz/run 600`.")
        return
    out("Each target runs from its corpus for a fixed time. A target that finds a crash stops and has no line here.\n")
    out("| target | runs | new inputs | seconds |\n|---|---|---|---|")
    for name, runs, new, seconds in FUZZED.findall(text):
        out(f"| {name} | {runs} | {new} | {seconds} |")


SHORT = "## Short runs\n"
DIGEST = re.compile(r"^- (\S+): digest `([0-9a-f]+)`, (\d+) images, (\d+) that a person must judge$", re.M)


def short_runs(labs):
    """The section with the digests of the short runs."""
    lines = [
        SHORT,
        "All workloads of 2 operations, seed 1. CI repeats them and fails if a digest differs, or if more images need",
        "a person. `format/evidence.sh digests` records them after a change of bytes or of the laboratory. A person is",
        "needed where a device tears inside of a sector and so leaves a slot of HEAD that looks rotten (`recovery.md`, row",
        "6a), or garbage after the last record (row 12); never on the device that the format relies on.\n",
    ]
    for it in labs:
        device = it.get("device", "atomic-sector")
        lines.append(
            f"- {device}: digest `{it['digest'][:16]}`, {it['tried']} images, {it.get('asked', 0)} that a person must judge"
        )
    return "\n".join(lines) + "\n\n"


def section():
    """The page before the short runs, the short runs, and the page after them."""
    page = PAGE.read_text(encoding="utf-8")
    start = page.find(SHORT)
    if start < 0:
        start = page.find("## ")
        return page[:start], "", page[start:]
    end = page.find("\n## ", start) + 1
    return page[:start], page[start:end], page[end:]


def record(labs):
    before, _, after = section()
    PAGE.write_text(before + short_runs(labs) + after, encoding="utf-8")


def check(labs):
    """The differences between short runs and the page."""
    known = {device: (digest, int(asked)) for device, digest, _, asked in DIGEST.findall(section()[1])}
    for device, digest, _, asked in DIGEST.findall(short_runs(labs)):
        was, allowed = known.pop(device, (None, 0))
        if digest != was:
            yield f"{device}: the digest is {digest}, the page has {was}"
        if int(asked) > allowed:
            yield f"{device}: {asked} images need a person, the page has {allowed}"
    yield from (f"{device}: not run" for device in known)


class Parts:
    """The parts in a folder, by name. One subject may have several parts: `fuzz-a+b`, `fuzz-c+d`."""

    def __init__(self, folder):
        self.commit = (folder / "commit").read_text(encoding="utf-8").strip()
        known = [path for path in sorted(folder.iterdir()) if path.suffix != ".part" and path.name != "commit"]
        self.parts = {path.name: read(path) for path in known}

    def text(self, name):
        parts = (text for part, (_, text) in self.parts.items() if part == name or part.startswith(name + "-"))
        return "".join(parts)

    def values(self, kind):
        # The short runs have a section of their own.
        values = (it for name, (values, _) in self.parts.items() if name != "digests" for it in values)
        return [it for it in values if it["type"] == kind]

    def digests(self):
        return [it for it in self.parts.get("digests", ([], ""))[0] if it["type"] == "lab"]

    def about(self):
        """The command of each part, its time, and what was measured where."""
        for name, (values, _) in self.parts.items():
            about = next(it for it in values if it["type"] == "part")
            yield name, about


def measured(parts, out):
    """The parts, their commands, and what was measured where."""
    about = dict(parts.about())
    where = {}
    for name, it in about.items():
        where.setdefault((it["program"], it["toolchain"], it["machine"]), []).append(name)
    out("## How it was measured\n")
    for (program, toolchain, machine), names in where.items():
        which = "All parts" if len(where) == 1 else ", ".join(names)
        out(f"- {which}: program `{program}` (SHA-256), {toolchain}, {machine}")
    out("\n| part | command | seconds |\n|---|---|---|")
    for name, it in about.items():
        out(f"| {name} | `{it['command']}` | {it['seconds']} |")
    out("")


def summary(parts, counts, out):
    """The figures that matter most; a part that was not run has no row."""
    rows = []
    labs = [it for it in parts.values("lab") if it["ops"]]
    if labs:
        tried, broken = sum(it["tried"] for it in labs), sum(it["broken"] for it in labs)
        images = f"{counts['all']} different of {tried}" if counts else f"{tried}, different ones not counted"
        rows.append(("crash images", images, f"{broken} guarantees violated"))
    kills = {found[0]: found for found in KILLS.findall(parts.text("mutants"))}
    if kills:
        found, bugs, _ = found_bugs(kills)
        rows.append(("seeded bugs", bugs, f"{found} found"))
    cuts = parts.values("power")
    if cuts:
        rows.append(("power cuts below ext4 and xfs", sum(it["cuts"] for it in cuts), f"{sum(it['broken'] for it in cuts)} with a loss"))
    requests = sum(int(count) for subject, count, what in MEASURED.findall(parts.text("cases")) if (subject, what) == ("histories", "requests"))
    if requests:
        rows.append(("requests in histories of answers", requests, "0 violations"))
    crashed = parts.values("every_crash")
    if crashed:
        failed = sum(not it["holds"] for it in crashed)
        rows.append(("resumed runs of the simulated runner", sum(it["lives"] for it in crashed), f"{failed} plans with another end"))
    targets = FUZZED.findall(parts.text("fuzz"))
    if targets:
        least = min(int(it[3]) for it in targets)
        rows.append(("runs of fuzz targets", sum(int(it[1]) for it in targets), f"0 crashes; {len(targets)} targets, each {least} seconds or more"))
    if rows:
        out("| what | how many | result |\n|---|---|---|")
        for row in rows:
            out(f"| {row[0]} | {row[1]} | {row[2]} |")
        out("")


def page(folder):
    parts = Parts(folder)
    digests = short_runs(parts.digests()) if parts.digests() else section()[1]
    lines = [
        "# Evidence\n",
        "Results of the long tests of the engine. `format/evidence.sh` writes this page; do not edit it.\n",
        f"Measured at commit `{parts.commit}`. What each part printed is in `evidence/`.\n",
    ]
    out = lines.append
    counts = next(iter(parts.values("different")), None)
    summary(parts, counts, out)
    measured(parts, out)
    lines.append(digests.rstrip() + "\n")
    # A run with faults also prints a line for the workload of no operations.
    crashes([it for it in parts.values("lab") if it["ops"]], counts, out)
    lives(parts.values("endured"), out)
    struck = parts.values("fault")
    if struck:
        faults(struck, parts.values("faults"), out)
    else:
        out("## Failing and lying disks\n\nNot run for this page: `ledger lab run --faults 1`.\n")
    flips = parts.text("flips").strip()
    out("## Flipped bits\n")
    out(f"```text\n{flips}\n```\n" if flips else "Not run for this page: `cargo run --release --example sweep`.\n")
    out("The same sweep on other logs: `benches/peers/FLIPS.md`.\n")
    cases(parts.text("cases"), out)
    runners(parts.values("every_crash"), out)
    power(parts.values("power"), out)
    schedules(parts.text("schedules"), out)
    mutants(parts.text("mutants"), parts.commit, out)
    mutated(parts.text("cargo-mutants"), out)
    miri(parts.text("miri"), out)
    coverage(parts.text("coverage"), out)
    fuzzed(parts.text("fuzz"), out)
    PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main():
    if sys.argv[1] == "page":
        page(pathlib.Path(sys.argv[2]))
        return
    if sys.argv[1] == "different":
        print(json.dumps(different(*map(pathlib.Path, sys.argv[2:4]))))
        return
    labs = [json.loads(line) for line in sys.stdin if line.startswith("{")]
    if sys.argv[1] == "digests":
        record(labs)
        return
    problems = list(check(labs))
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        sys.exit("the page differs: if that is meant, run `format/evidence.sh digests`, and say why in the commit")
    print(f"{len(labs)} short runs have the digests of the page")


if __name__ == "__main__":
    main()
