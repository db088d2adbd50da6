"""Writes EVIDENCE.md from the output of the laboratory, the tests, the mutants and the fuzz targets.

Usage:
  evidence.py page FOLDER COMMIT        write the page from the parts in a folder; COMMIT is that of the program
  evidence.py different FOLDER HASHES   count the different images of the parts, whose hashes are in another folder
  evidence.py digests                   put the short runs (JSON Lines on standard input) into the page
  evidence.py check                     compare the short runs with those in the page

`format/evidence.sh` calls it. The script copies figures, and computes sums and percentages. A part without a file is
reported as not run, and a part that failed as failed, without its figures. A part that passed and has no figures is
an error: this script no longer knows what its tool prints.
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
    out("All workloads with at most the number in *operations* (append, batch, flush, rotate, snapshot, reopen, kill, prune)")
    out("crash at every change of the simulated disk. *Images* are disks as they may be after the crash. Equal images with the")
    out("same history and number of crashes are examined once (*distinct*). *All subsets*: the share of crash points at which every subset of the")
    out("unsynced writes is tried; at the others, all of them, none of them, and samples. Shorter workloads come first:")
    out("where not all were run, the missing ones are of the longest. A broken promise ends a run with an error: a run that")
    out("is listed here broke none. An image that *a person must judge* is refused and stays as it")
    out("is; the error names what is uncertain.\n")
    if counts:
        out(f"**{counts['all']} different images** in all runs together: their content differs, whatever device, history and")
        out("number of crashes led to them. Of these, each run has (*distinct* images with equal content count once here):")
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
            f"ledger, {it.get('asked', 0)} that a person must judge. Digest of all images: `{it['digest'][:16]}`, "
            "which the order of threads may change where subsets are samples."
        )
    out("")


def faults(all_of, runs, out):
    out("Each fault is injected into every call that it can affect, one at a time. Then the machine restarts in four")
    out("ways.")
    for it in runs:
        out(
            f"\nWorkloads of up to {it['ops']} operations, {it['workloads']} of {it['workloads_all']} "
            f"({share(it['workloads'], it['workloads_all'])}), seed {it['seed']}, {it['seconds']:.0f} seconds."
        )
    out("\nThe first table has faults that keep the contract of `log.md`: no acknowledged record may be missing.")
    out("A broken promise ends the run with an error, and this run ended without one.\n")
    # A broken promise ends the run without these lines: the faults listed here broke none.
    lies = [it for it in all_of if it["whole"] + it["refused"] + it["reported"] + it["earlier"]]
    contract = [it for it in all_of if it not in lies or it["fault"] == ASKS]
    out("| fault | injected | images | a person must judge |")
    out("|---|---|---|---|")
    for it in (it for it in contract if it["struck"]):
        out(f"| {it['fault']} | {it['struck']} | {it['images']} | {it['refused']} |")
    never = [it["fault"] for it in contract if not it["struck"]]
    if never:
        out(f"\nNo call of these workloads can have: {', '.join(never)}.")
    out("\nThe second table has faults that break it, and no engine can keep everything under all of them. *Earlier*: the ledger is")
    out("as it was at an earlier time, and only a root that is kept elsewhere shows it. *Complete*: nothing is missing.")
    out("*Refused*: the ledger does not open. *Reported*: it opens, and names what is missing. No record was invented.\n")
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


def flips(text, out):
    out("*Located*: `verify` names the file and the place. *Dead*: nothing depends on the byte. *Silent*: neither, which no flip may")
    out("be. A similar test of other logs: `benches/peers/FLIPS.md`.\n")
    out(f"```text\n{text}\n```\n")


def lives(all_of, out):
    out("One ledger that crashes repeatedly, in operations and in recoveries, is pruned when it is long, and is read")
    out("all the time through a reader that was opened before. A broken promise ends it with an error.\n")
    out("| operations | seed | crashes | records | reads | seconds |\n|---|---|---|---|---|---|")
    for it in all_of:
        out(
            f"| {it['ops']} | {it['seed']} | {it['crashes']} | {it['records']} | {it['looks']} | {it['seconds']:.0f} |"
        )
    out("")


# The device that the format relies on.
RELIED_ON = "atomic-sector"

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
    kills = {found[0]: found for found in KILLS.findall(text)}
    names = MUTANT.findall(source_at(commit, "src/sim/mutants.rs"))
    # Several run at once: the order is that of the list.
    kills = {name: kills[name] for name in sorted(kills, key=lambda it: names.index(it) if it in names else -1)}
    found, bugs, seconds = found_bugs(kills)
    out(f"{found} of {bugs} were found: a test failed after it had reached the bug, or ended its process or hung because of")
    out(f"it. The tests took {seconds:.0f} seconds, several at once. NoOp is a mutant without an effect, which no test may find.")
    missing = [name for name in names if name not in kills]
    if missing:
        out(f"Not run for this page: {', '.join(missing)}.")
    out("\nThe test that found each mutant, and how often it had reached the mutant (*hits*; unknown where it happened in")
    out("another process). *Hazards*: H is storage, with the numbers of `tests/hazards.md`; P is plans; S is the server and the")
    out("runner.\n")
    out("| mutant | hazard | found by | hits |\n|---|---|---|---|")
    for name, hazard, killer, hits, _ in kills.values():
        # No hit in the process that failed: another one had it.
        out(f"| {name} | {hazard.replace('+', ' ')} | {killer or 'nothing'} | {'unknown' if hits == '0' else hits} |")
    out("")


MEASURED = re.compile(r"measured: ([^:\n]+): (\d+) ([^\n]+)")
PASSED = re.compile(r"^test (\w+)::\S+ \.\.\. ok$", re.M)
# The result of all tests of a part.
RESULT = re.compile(r"^test result: ok\. (\d+) passed; 0 failed", re.M)
# The module of the tests that measure each subject.
SUBJECTS = {
    "unreadable ranges": "unreadable_sectors", "clocks": "ledger_time", "histories": "histories",
    "files of other users": "other_users", "socket over a simulated disk": "durable_answers", "models": "protocol_model",
}


def cases(text, out):
    measured = MEASURED.findall(text)
    out("Tests that count what they try; all of them passed. *Unreadable ranges* stay unreadable, mapped pages included; they")
    out("cost the records in them and nothing else, except that a writer may refuse to open until the ledger is salvaged.")
    out("*Clocks* jump by minutes, days and decades in both directions. In *histories* concurrent clients cut connections,")
    out("repeat requests and reuse keys while the server is killed. Every answer that reports success must be")
    out("true, and so must a rejected receipt and a rejected key. A request whose answer is lost is repeated with its key, and")
    out("*requests* counts each time that it was sent. Traces of *models* of the protocol are replayed against the real code.\n")
    out("| subject | tests | tried |\n|---|---|---|")
    passed = PASSED.findall(text)
    for subject, module in SUBJECTS.items():
        tried = [f"{count} {what.strip()}" for name, count, what in measured if name == subject]
        if tried:
            out(f"| {subject} | {passed.count(module)} | {'; '.join(tried)} |")
    out("")


def runners(rows, out):
    out("`ledger drill --every-crash`: the loop of `ledger run` on a simulated disk, with a simulated clock and simulated")
    out("workers, which succeed, or sometimes fail at their first attempt (*flaky*). It crashes at each of its writes, once in")
    out("each run, and is resumed. Each resumed run must end with the status, the steps and the variables of the run without a")
    out("crash, and no accepted work may be done twice. *Repeated*: executions of steps that were in flight at a crash, over all")
    out("crashes.\n")
    out("| plan | agents | steps | crash points | resumed runs | repeated | holds |\n|---|---|---|---|---|---|---|")
    for it in rows:
        plan = it["plan"].rpartition("/")[2]
        out(f"| {plan} | {it['agents']} | {it['steps']} | {it['points']} | {it['lives']} | {it['executed_twice']} | {'yes' if it['holds'] else 'no'} |")
    out("")


def power(rows, out):
    out("A ledger works on a real file system, with clients, a server that is killed, snapshots, large outputs and two")
    out("prunes. Its disk records every write and flush. A *cut* keeps all writes before the last flush, and any part")
    out("of those after it, in pieces of 512 or 4096 bytes; the kernel mounts the result, after a repair by `e2fsck` where")
    out("there is no journal. A quarter of the cuts are while the log is pruned (*in a prune*). *Checked*: how often a")
    out("promise was looked up; of the roots, the newest one is compared, and of new ledgers, the last two. *Broken*: cuts after")
    out("which something acknowledged was missing, something pruned was back, `verify` reported damage of the log, or the ledger")
    out("did not open. *Snapshot lost*: without a journal, a removed snapshot returned with blocks of another file; nothing else")
    out("was missing. *Not mounted*: the kernel could not mount the file system, since a block was torn inside; such a cut is")
    out("repeated with whole blocks. The number in the command is the sum of all three file systems. The file of each part ends")
    out("with a disk that lies about its flushes, which the check must detect.\n")
    out("| file system | cuts | in a prune | writes | flushes | acknowledged | checked | broken | snapshot lost | not mounted | opened as | seconds |")
    out("|---|---|---|---|---|---|---|---|---|---|---|---|")
    for it in rows:
        openings = ", ".join(f"{count} {name}" for name, count in it["openings"].items())
        out(
            f"| {it['fs']} | {it['cuts']} | {it['in_prune']} | {it['writes']} | {it['flushes']} | {it['acks']} | {it['checked']} "
            f"| {it['broken']} | {it['derived']} | {it['unmountable']} | {openings} | {it['seconds']} |"
        )
    out(f"| **all** | **{sum(it['cuts'] for it in rows)}** | **{sum(it['in_prune'] for it in rows)}** | | | | | **{sum(it['broken'] for it in rows)}** | | | | |")
    out("")


SEEDED = re.compile(r"^schedules: seeded bug (\w+): found", re.M)
SCHEDULED = re.compile(r"^schedules: ([^:\n]+): (\d+) (\w+)$", re.M)


def schedules(text, out):
    found = SCHEDULED.findall(text)
    out("`shuttle` runs group commit under random schedules, and under schedules with few preemptions. No thread")
    out("waited forever, and every acknowledged record was durable.\n")
    out("| test | scheduler | schedules |\n|---|---|---|")
    for name, count, kind in found:
        out(f"| {name} | {kind} | {count} |")
    bugs = SEEDED.findall(text)
    out(f"\nThe schedules find each of {len(bugs)} seeded bugs: {', '.join(bugs)}.\n")


COVERED = re.compile(r"^(format|log|plan)/\S+ +\d+ +\d+ +\S+ +\d+ +\d+ +\S+ +(\d+) +(\d+)", re.M)
FUZZED = re.compile(r"^(\w+): (\d+) runs, (\d+) new inputs, (\d+) seconds", re.M)


def coverage(output, out):
    lines = {}
    for layer, whole, missed in COVERED.findall(output):
        before = lines.get(layer, (0, 0))
        lines[layer] = (before[0] + int(whole), before[1] + int(missed))
    text = "; ".join(
        f"`{layer}` {whole - missed} of {whole} ({share(whole - missed, whole)})"
        for layer, (whole, missed) in sorted(lines.items())
    )
    out(f"{text}, inline tests included.\n")


def miri(text, out):
    passed = [int(count) for count in RESULT.findall(text)]
    out(f"{sum(passed)} tests ran in Miri, an interpreter that finds undefined behavior, data races and leaks. It found none.")
    out("Tests that visit every bit or length visit some of them there. Left out are the laboratory of crash images, two tests of")
    out("damaged indexes that would take an hour, the memory map (`src/storage/map.rs`, the only unsafe code), and the vector")
    out("instructions of the hash.")
    out(f"{' '.join(NOTE.findall(text))}\n")


MUTATED = re.compile(r"^mutations: (\S+): (\d+) caught, (\d+) missed, (\d+) timeout, (\d+) unviable$", re.M)


def mutated(text, out):
    rows = MUTATED.findall(text)
    out("Small changes of recovery and of the decisions about plans, made by a program that knows no hazards. *Caught*: one of the")
    out("tests that `tests/mutants/mutations` selects fails. *Missed*: none of them fails; each is explained in")
    out("`tests/mutants/survivors.md`. *Timeout*: the tests did not end within five minutes (those of the library) or fifteen, as in")
    out("an endless loop. *Unviable*: it does not compile. When tests change, only the missed changes are tried again.")
    out(f"{' '.join(NOTE.findall(text))}\n")
    out("| file | caught | missed | timeout | unviable |\n|---|---|---|---|---|")
    for row in rows:
        out(f"| {' | '.join(row)} |")
    sums = [sum(int(row[at]) for row in rows) for at in range(1, 5)]
    out(f"| **all** | {' | '.join(f'**{it}**' for it in sums)} |\n")


NOTE = re.compile(r"^note: (.*)$", re.M)


def fuzzed(text, out):
    out("Each target runs from its corpus for a fixed time. A target that finds a crash fails its part.\n")
    out("| target | runs | new inputs | seconds |\n|---|---|---|---|")
    rows = FUZZED.findall(text)
    for name, runs, new, seconds in rows:
        out(f"| {name} | {runs} | {new} | {seconds} |")
    missing = sorted({path.name for path in (ROOT / "fuzz" / "corpus").iterdir()} - {row[0] for row in rows})
    if missing:
        out(f"\nNot run for this page: {', '.join(missing)}.")


SHORT = "## Short runs\n"
DIGEST = re.compile(r"^- (\S+): digest `([0-9a-f]+)`, (\d+) images, (\d+) that a person must judge$", re.M)


def short_runs(labs):
    """The section with the digests of the short runs."""
    lines = [
        SHORT,
        "All workloads of up to 2 operations, seed 1. CI repeats them at every commit and fails if a digest differs, or if more images need",
        "a person. `format/evidence.sh digests` records them after a change of bytes or of the laboratory. A person is",
        "needed where a device tears inside of a sector and so leaves a slot of HEAD that looks corrupt (`recovery.md`, row",
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


def is_since(commit, other):
    """Whether a commit is `other`, or follows it."""
    ancestry = ["git", "merge-base", "--is-ancestor", other, commit]
    return commit == other or subprocess.run(ancestry, cwd=ROOT, capture_output=True).returncode == 0


class Parts:
    """The parts of a program in a folder, by name. One subject may have several parts: `fuzz-a+b`, `fuzz-c+d`."""

    def __init__(self, folder, commit):
        known = [path for path in sorted(folder.iterdir()) if path.suffix != ".part"]
        self.about, self.passed, self.earlier = {}, {}, []
        for path in known:
            values, text = read(path)
            about = next(it for it in values if it["type"] == "part")
            if not is_since(about["commit"], commit):
                self.earlier.append(path.name)
                continue
            self.about[path.name] = about
            if self.about[path.name]["exit"] == 0:
                self.passed[path.name] = values, text

    def of(self, subject, names):
        return [name for name in names if name == subject or name.startswith(subject + "-")]

    def failed(self, subject):
        return [name for name in self.of(subject, self.about) if name not in self.passed]

    def text(self, subject):
        return "".join(self.passed[name][1] for name in self.of(subject, self.passed))

    def values(self, kind):
        return [it for values, _ in self.passed.values() for it in values if it["type"] == kind]


def measured(parts, out):
    """The parts, their commands, and what was measured where."""
    where = {}
    for name, it in parts.about.items():
        where.setdefault((it["toolchain"], it["machine"]), []).append(name)
    out("## How it was measured\n")
    out("*Commit*: when the part ran, the newest one that changed what it measures, which is the program and, for some parts,")
    out("tests or a tool. *Program*: the first digits of its SHA-256, for parts that run it; parts that compile tests have none. Other work")
    out("may have shared the processors, so the seconds show only what to expect. `cargo-mutants` continues where an earlier call")
    out("ended, and the table has the seconds of the last call.\n")
    for (toolchain, machine), names in where.items():
        which = "All parts" if len(where) == 1 else ", ".join(names)
        nightly = " (Miri: a nightly, see its section)" if "miri" in names else ""
        out(f"- {which}: {toolchain}{nightly}, {machine}")
    out("\n| part | command | commit | program | date | seconds |\n|---|---|---|---|---|---|")
    for name, it in parts.about.items():
        program = f"`{it['program']}`" if it["program"] else ""
        out(f"| {name} | `{it['command']}` | {it['commit']} | {program} | {it['date']} | {it['seconds']} |")
    out("")


def summary(parts, counts, out):
    """The figures that matter most; a part that was not run has no row."""
    rows = [(f"part `{name}`", "", f"**failed**, exit code {it['exit']}: `evidence/{name}`")
            for name, it in parts.about.items() if it["exit"]]
    labs = [it for it in parts.values("lab") if it["ops"]]
    if labs:
        tried, examined, asked = (sum(it[key] for it in labs) for key in ("tried", "examined", "asked"))
        images = f"{counts['all']} different of {tried}" if counts else f"{tried}, different ones not counted"
        relied_on = sum(it["asked"] for it in labs if it["device"] == RELIED_ON)
        judged = f"a person must judge {asked} of {examined}, {relied_on} of them on the device that the format relies on"
        rows.append(("crash images", images, f"0 promises broken; {judged}"))
    kills = {found[0]: found for found in KILLS.findall(parts.text("mutants"))}
    if kills:
        found, bugs, _ = found_bugs(kills)
        rows.append(("seeded bugs", bugs, f"{found} found"))
    cuts = parts.values("power")
    if cuts:
        broken, derived = (sum(it[key] for it in cuts) for key in ("broken", "derived"))
        rows.append(("power cuts below ext4 and xfs", sum(it["cuts"] for it in cuts), f"{broken} broke a promise; {derived} lost a removed snapshot"))
    requests = sum(int(count) for subject, count, what in MEASURED.findall(parts.text("cases")) if (subject, what) == ("histories", "requests"))
    if requests:
        rows.append(("requests in histories of answers", requests, "0 answers untrue"))
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


def page(folder, commit):
    parts = Parts(folder, commit)
    lines = [
        "# Evidence\n",
        "Results of the long tests of the engine. `format/evidence.sh` writes this page; do not edit it.\n",
        f"Measured at commit `{commit}`. What each part printed is in `evidence/`.\n",
    ]
    out = lines.append
    if parts.earlier:
        out(f"Left out, because an earlier program was measured: {', '.join(parts.earlier)}.\n")
    counts = next(iter(parts.values("different")), None)
    # They were counted before a run was repeated, or another one added.
    if counts and set(counts["each"]) != set(parts.of("crashes", parts.passed)):
        counts = None
    summary(parts, counts, out)
    measured(parts, out)
    lines.append(section()[1].rstrip() + "\n")

    def add_section(title, subject, write, *figures):
        out(f"## {title}\n")
        for name in parts.failed(subject):
            out(f"**Failed**: {name}, with exit code {parts.about[name]['exit']}. What it printed is in `evidence/{name}`.\n")
        if parts.of(subject, parts.passed):
            before = len(lines)
            write(*figures, out)
            if not any(re.search(r"\d", line) for line in lines[before:]):
                sys.exit(f"error: evidence.py finds no figure in the part {subject}")
        elif not parts.failed(subject):
            out(f"Not run for this page: `format/evidence.sh {subject}`.\n")

    # A run with faults also prints a line for the workload of no operations.
    add_section("Crash images", "crashes", crashes, [it for it in parts.values("lab") if it["ops"]], counts)
    add_section("Long workloads", "life", lives, parts.values("endured"))
    add_section("Failing and lying disks", "faults", faults, parts.values("fault"), parts.values("faults"))
    add_section("Flipped bits", "flips", flips, parts.text("flips").strip())
    add_section("Permanent faults, clocks, histories of answers, other users", "cases", cases, parts.text("cases"))
    add_section("The runner in the simulator", "runner", runners, parts.values("every_crash"))
    add_section("Power cuts below real file systems", "power", power, parts.values("power"))
    add_section("Schedules of threads", "schedules", schedules, parts.text("schedules"))
    add_section("Mutants (seeded bugs)", "mutants", mutants, parts.text("mutants"), commit)
    add_section("Mutations by cargo-mutants", "cargo-mutants", mutated, parts.text("cargo-mutants"))
    add_section("Undefined behavior", "miri", miri, parts.text("miri"))
    add_section("Line coverage", "coverage", coverage, parts.text("coverage"))
    add_section("Fuzzing", "fuzz", fuzzed, parts.text("fuzz"))
    PAGE.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


def main():
    if sys.argv[1] == "page":
        page(pathlib.Path(sys.argv[2]), sys.argv[3])
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
