"""Power cuts below a real file system.

`record` runs a workload of a real ledger on a real file system whose disk records every write and flush, and
notes each answer with the length of the recording at that moment. `cut` then makes disks as they may be after a
power cut at any entry of the recording: all writes before the last flush, and any part of those after it, in
pieces of 512 or 4096 bytes. The kernel mounts each disk, and what was acknowledged before the cut must be there.

A cut is a function of the recording, the seed and its number: `cut --only N` repeats one. With `--lying` the disk
lies about its last flushes, which no engine survives: then at least one cut must be found to lose something.
The log is pruned twice, and a quarter of the cuts are while it is pruned.

Usage: cuts.py record WORK --fs ext4|xfs|ext4-without-journal --seconds N --seed N
       cuts.py cut WORK --cuts N --seed N [--only N] [--lying]

Environment: LEDGER, the program. Needs root, /dev/fuse and loop devices; WORK is a folder for the recording.
"""

import argparse
import bisect
import collections
import json
import os
import random
import secrets
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

from blake3 import blake3

from block_recorder import ENTRY, FLUSH, WRITE

HERE = Path(__file__).resolve().parent
LEDGER = os.environ.get("LEDGER", str(HERE.parents[1] / "target/release/ledger"))
# xfs needs 300 MB.
FILE_SYSTEMS = {
    "ext4": ("ext4", ["-q", "-F"], 256 << 20),
    "ext4-without-journal": ("ext4", ["-q", "-F", "-O", "^has_journal"], 256 << 20),
    "xfs": ("xfs", ["-q", "-f"], 320 << 20),
}
CLIENTS, STEPS = 4, 4000
# What is pruned: segments of runs that ended long before. Keys of requests are kept for 65536 records, so there must be
# more records than that.
EARLIER_RUNS, EARLIER_STEPS = 8, 3000
# After so many answers, the segments through this record are removed: the first one, and later the second one.
PRUNES = [(3000, 5000), (7000, 15000)]
# How many flushes a lying disk forgets.
LIES = 50


def run(*command, timeout=120):
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout)


def use_state_of(folder):
    """What the program keeps beside its ledgers, such as the last root that it saw, is on the same disk."""
    os.environ["XDG_STATE_HOME"] = str(folder / "state")


def must(*command):
    done = run(*command)
    if done.returncode:
        raise SystemExit(f"error: {' '.join(map(str, command))}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout.strip()


def digest(output):
    """A large output is a blob, which has this name."""
    return blake3(json.dumps(output).encode()).hexdigest()


def lines(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def first_record(rows):
    """Where the log begins."""
    return next((row["seq"] for row in rows if row["type"] == "record"), 1)


def unmount(folder):
    """A process that has just ended may keep the file system busy for a moment."""
    for _ in range(50):
        if run("umount", folder).returncode == 0 or not os.path.ismount(folder):
            return
        time.sleep(0.1)
    raise SystemExit(f"error: cannot unmount {folder}")


class Workload:
    """Clients, a server that is killed, and commands; every answer is noted in `acks`."""

    def __init__(self, folder, recording, seconds, seed):
        self.folder, self.ledger, self.recording = folder, folder / "ledger", recording
        self.seconds, self.until, self.seed, self.acks = seconds, 0, seed, []
        # The first record of the clients.
        self.first_seq = 0

    def acknowledge(self, what, **members):
        """What was promised, and how long the recording was when the answer arrived."""
        self.acks.append({"at": os.path.getsize(self.recording), "what": what} | members)

    def command(self, *arguments, ledger=None):
        return run(LEDGER, *arguments, "--ledger", ledger or self.ledger)

    def first(self, *arguments):
        done = self.command(*arguments)
        if done.returncode:
            raise SystemExit(f"error: ledger {arguments[0]}: {done.stderr}")

    def segments(self):
        return {str(path.relative_to(self.folder)) for path in self.ledger.rglob("*.seg")}

    def client(self, number, ends):
        """Claims steps and reports them until the server dies."""
        chance = random.Random(f"{self.seed} {number} {ends}")
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(60)
                connection.connect(str(self.ledger / "serve.sock"))
                lines = connection.makefile("rb")

                def ask(**request):
                    request["once"] = secrets.token_hex(16)
                    connection.sendall(json.dumps(request).encode() + b"\n")
                    line = lines.readline()
                    if not line.endswith(b"\n"):
                        raise ConnectionError
                    return json.loads(line)

                worker = {"worker": f"w{number}"}
                answer = ask(act="claim", run="work", **worker, secret=secrets.token_hex(16))
                while answer["code"] == 0 and time.monotonic() < self.until:
                    token = answer["lines"][-1].get("token")
                    if answer["lines"][-1]["type"] != "task":
                        return
                    self.acknowledge("claim", token=int(token.split("-")[0]))
                    size = chance.choice([10, 10, 10, 300, 300, 3000, 3000, 70000])
                    output = f"{token} " + "x" * size
                    answer = ask(act="receipt", token=token, receipt={"outcome": "succeeded", "output": output},
                                 next=worker | {"secret": secrets.token_hex(16)})
                    if answer["code"] == 0:
                        self.acknowledge("receipt", token=int(token.split("-")[0]), output=digest(output))
                    if chance.random() < 0.05:
                        text = f"note {token}"
                        if ask(act="note", text=text, by="rig")["code"] == 0:
                            self.acknowledge("note", text=text)
        except OSError:
            pass  # the server was killed

    def run(self):
        chance = random.Random(self.seed)
        self.first("init")
        plan = self.folder / "plan.json"
        plan.write_text(json.dumps({"steps": [{"id": f"s{n}"} for n in range(EARLIER_STEPS)]}))
        for number in range(EARLIER_RUNS):
            self.first("run", plan, "--run", f"earlier-{number}", "--stub", "--quiet")
        steps = [{"id": f"s{n}", "idempotent": "no" if n % 5 == 0 else "yes"} for n in range(STEPS)]
        plan.write_text(json.dumps({"steps": steps}))
        self.first("plan", "propose", plan, "--run", "work")
        self.first_seq = int(self.command("root").stdout.split(":")[0])
        rounds, first, prunes, self.until = 0, 1, list(PRUNES), time.monotonic() + self.seconds
        while time.monotonic() < self.until:
            server = subprocess.Popen([LEDGER, "serve", "--ledger", self.ledger], stdout=subprocess.PIPE,
                                      stderr=subprocess.DEVNULL)
            server.stdout.readline()
            clients = [threading.Thread(target=self.client, args=(n, rounds)) for n in range(CLIENTS)]
            for client in clients:
                client.start()
            time.sleep(min(chance.uniform(0.5, 3), max(0.2, self.until - time.monotonic())))
            server.send_signal(chance.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM]))
            server.wait()
            for client in clients:
                client.join()
            if chance.random() < 0.6:
                self.command("snapshot")
            text = f"round {rounds}"
            if self.command("note", text).returncode == 0:
                self.acknowledge("note", text=text)
            root = self.command("root")
            if root.returncode == 0:
                self.acknowledge("root", root=root.stdout.strip())
            new = self.folder / f"new-{rounds}"
            if self.command("init", ledger=new).returncode == 0:
                self.acknowledge("init", folder=new.name)
            if prunes and len(self.acks) > prunes[0][0]:
                _, through = prunes.pop(0)
                self.acknowledge("prune", through=through)
                segments = self.segments()
                self.first("prune", "--through", str(through), "--yes")
                done = self.command("inspect", "records", "--json", "--limit", "1")
                earlier, first = first, first_record(lines(done.stdout))
                removed = sorted(segments - self.segments())
                if first <= earlier or not removed:
                    raise SystemExit(f"error: the prune through record {through} removed nothing")
                self.acknowledge("pruned", first=first, segments=removed)
            rounds += 1
        if prunes:
            raise SystemExit(f"error: {len(prunes)} of {len(PRUNES)} prunes were not reached: --seconds is too small")


def record(options):
    kind, make, size = FILE_SYSTEMS[options.fs]
    work = options.work
    work.mkdir(parents=True, exist_ok=True)
    base, live, recording = work / "base.img", work / "live.img", work / "recording"
    with open(base, "wb") as file:
        file.truncate(size)
    must(f"mkfs.{kind}", *make, base)
    must("cp", "--sparse=always", base, live)
    fuse, mounted = work / "fuse", work / "mounted"
    fuse.mkdir(exist_ok=True)
    mounted.mkdir(exist_ok=True)
    recorder = subprocess.Popen([sys.executable, HERE / "block_recorder.py", fuse, live, recording],
                                stderr=open(work / "recorder.log", "wb"))
    loop = None
    try:
        for _ in range(100):
            if (fuse / "disk").exists():
                break
            time.sleep(0.05)
        loop = must("losetup", "--find", "--show", fuse / "disk")
        must("mount", "-t", kind, loop, mounted)
        use_state_of(mounted)
        workload = Workload(mounted, recording, options.seconds, options.seed)
        workload.run()
    finally:
        if os.path.ismount(mounted):
            unmount(mounted)
        if loop:
            must("losetup", "--detach", loop)
        if os.path.ismount(fuse):
            unmount(fuse)
        recorder.wait(30)
        live.unlink()
    rows = {"fs": options.fs, "first": workload.first_seq, "acks": workload.acks}
    (work / "acks.json").write_text(json.dumps(rows))
    print(f"{options.fs}: {len(workload.acks)} answers, {os.path.getsize(recording) >> 20} MiB of writes", flush=True)


Entry = collections.namedtuple("Entry", "kind offset start length end")


def entries(recording):
    """Where each entry is in the recording."""
    found, at = [], 0
    while at < len(recording):
        kind, offset, length = ENTRY.unpack_from(recording, at)
        start = at + ENTRY.size
        at = start + length
        found.append(Entry(kind, offset, start, length, at))
    return found


# What the disk keeps of the writes that no flush covers.
LOSSES = ["nothing", "everything", "some", "most", "all but one", "one", "pieces of 512", "pieces of 4096", "prefix"]


def survivors(pending, loss, chance):
    """The surviving parts of the pending writes, in their order: entry, and a range of its bytes."""
    chosen = chance.randrange(len(pending)) if pending else 0
    for number, entry in enumerate(pending):
        whole = (entry, 0, entry.length)
        if loss.startswith("pieces") or (loss == "prefix" and number == chosen):
            size = 4096 if loss.endswith("4096") else 512
            # A prefix may end inside of a write.
            end = chance.randrange(entry.length + 1) if loss == "prefix" else entry.length
            for start in range(0, entry.length, size):
                if (start + size <= end) if loss == "prefix" else chance.random() < 0.5:
                    yield entry, start, min(start + size, entry.length)
        elif (loss == "everything" or (loss == "some" and chance.random() < 0.5)
              or (loss == "most" and chance.random() < 0.9) or (loss == "all but one" and number != chosen)
              or (loss == "one" and number == chosen) or (loss == "prefix" and number < chosen)):
            yield whole


PIECE = bytes(64 << 10)


def write_disk(covered, crashed, recording, parts):
    """The disk after a cut: `covered`, the bytes of all writes before the last flush, and `parts` of those after it."""
    with open(crashed, "wb", buffering=0) as disk:
        disk.truncate(len(covered))
        for start in range(0, len(covered), len(PIECE)):
            piece = covered[start:start + len(PIECE)]
            if piece != PIECE[:len(piece)]:
                os.pwrite(disk.fileno(), piece, start)
        for entry, start, end in parts:
            os.pwrite(disk.fileno(), recording[entry.start + start:entry.start + end], entry.offset + start)


class Check:
    """Examines one disk after a cut. `problems` stays empty if every promise was kept."""

    def __init__(self, folder, promised, from_seq, *, is_second_opinion, has_journal):
        self.folder, self.ledger, self.promised, self.from_seq = folder, folder / "ledger", promised, from_seq
        self.is_second_opinion, self.has_journal = is_second_opinion, has_journal
        self.problems, self.opening, self.is_derived_lost = [], "no answer", False

    def expect(self, is_true, what, done=None):
        if not is_true:
            said = f": {(done.stdout[-600:] + done.stderr[-300:]).strip()}" if done else ""
            self.problems.append(what + said)
        return is_true

    def ledger_command(self, *arguments):
        return run(LEDGER, *arguments, "--ledger", self.ledger)

    def verify(self, when, *arguments):
        done = self.ledger_command("verify", "--level", "replay", "--json", *arguments)
        summary = next((line for line in lines(done.stdout) if line["type"] == "summary"), None) or {}
        # Without a journal a removed snapshot may return, with blocks that belong to another file by now. No record
        # is in it, and it is made again.
        if not self.has_journal and done.returncode == 4 and summary.get("damage") == 0 and summary.get("derived"):
            self.is_derived_lost = True
        else:
            self.expect(done.returncode == 0, f"verify {when}: exit {done.returncode}", done)
        return summary.get("opening", {}).get("verdict")

    def reader(self, when, allowed):
        """The reader that shares no code with the program."""
        if not self.is_second_opinion:
            return
        done = run(sys.executable, HERE.parents[1] / "format/reader.py", "--json", self.ledger)
        status = next((line["status"] for line in lines(done.stdout) if line["type"] == "summary"), "no summary")
        self.expect(status in allowed, f"format/reader.py {when}: {status}", done)

    def run(self):
        done = [ack for ack in self.promised if ack["what"] == "pruned"]
        # Before a writer opens the ledger: it would finish an interrupted prune.
        back = [name for ack in done for name in ack["segments"] if (self.folder / name).exists()]
        self.expect(not back, f"what was pruned is back: {back}")
        self.opening = self.verify("after the cut") or "refused"
        self.reader("after the cut", ("whole", "unacknowledged_tail"))
        opened = self.ledger_command("note", "after the cut")
        self.expect(opened.returncode == 0, f"the ledger cannot be opened: exit {opened.returncode}", opened)
        first = first_record(self.records("--limit", "1"))
        begun = [ack for ack in self.promised if ack["what"] == "prune"]
        self.expect(first <= (begun[-1]["through"] + 1 if begun else 1), f"the log begins at record {first}: too much is gone")
        self.expect(not done or first >= done[-1]["first"], f"the log begins at record {first}: what was pruned is back")
        self.compare(self.records("--from", str(self.from_seq)))
        roots = [ack["root"] for ack in self.promised if ack["what"] == "root"]
        newest = roots[-1:]
        self.verify("after recovery", *(["--expect-head", *newest] if newest else []))
        self.reader("after recovery", ("whole",))
        blobs = self.ledger_command("blobs", "--json")
        self.expect(blobs.returncode == 0, f"blobs: exit {blobs.returncode}", blobs)
        for ack in [ack for ack in self.promised if ack["what"] == "init"][-2:]:
            made = run(LEDGER, "verify", self.folder / ack["folder"], "--json")
            self.expect(made.returncode == 0, f"{ack['folder']}: exit {made.returncode}", made)

    def records(self, *which):
        done = self.ledger_command("inspect", "records", "--json", *which)
        self.expect(done.returncode == 0, f"inspect records: exit {done.returncode}", done)
        return [line for line in lines(done.stdout) if line["type"] == "record"]

    def compare(self, records):
        """Everything that was promised is in the log: the prunes remove only what is older."""
        claims, receipts, notes = set(), {}, set()
        for row in records:
            event = row["event"] or {}
            if row["kind"] == "dispatched":
                claims.add(row["seq"])
            elif row["kind"] == "receipt_recorded":
                receipt = event["receipt"]
                blob = receipt.get("output_blob")
                receipts[event["token"]] = blob["hash"] if blob else digest(receipt["output"])
            elif row["kind"] == "note":
                notes.add(event["text"])
        for ack in self.promised:
            is_kept = True
            if ack["what"] == "claim":
                is_kept = ack["token"] in claims
            elif ack["what"] == "receipt":
                is_kept = ack["output"] == receipts.get(ack["token"])
            elif ack["what"] == "note":
                is_kept = ack["text"] in notes
            self.expect(is_kept, f"lost: {json.dumps(ack)[:200]}")


def cut(options):
    work = options.work
    rows = json.loads((work / "acks.json").read_text())
    kind = FILE_SYSTEMS[rows["fs"]][0]
    acks = rows["acks"]
    recording = (work / "recording").read_bytes()
    log = entries(recording)
    ends = [entry.end for entry in log]
    chance = random.Random(options.seed)
    # A quarter of the cuts are at an answer, where a promise has just been made, and a quarter while the log is pruned;
    # the others are anywhere after the first answer.
    def entry(ack):
        return min(bisect.bisect_left(ends, ack["at"]), len(log) - 1)

    begins, done = ([entry(ack) for ack in acks if ack["what"] == what] for what in ("prune", "pruned"))
    prunes = list(zip(begins, done, strict=True))
    points = []
    for number in range(options.cuts):
        if number % 4 == 1:
            points.append(entry(chance.choice(acks)))
        elif number % 4 == 3:
            points.append(chance.randint(*chance.choice(prunes)))
        else:
            points.append(chance.randrange(entry(acks[0]), len(log)))
    begun = time.monotonic()
    crashed, mounted = work / "crashed.img", work / "after"
    mounted.mkdir(exist_ok=True)
    # In memory: no copy of a file with holes can then miss what was just written to it.
    image = bytearray((work / "base.img").read_bytes())
    applied, broken, promises, unmountable, derived = 0, 0, 0, 0, 0
    # Of a disk that lies, a whole file system may be lost. That says nothing about the check.
    unmounted = 0
    openings, losses = collections.Counter(), collections.Counter()
    in_prune = sum(any(low <= point <= high for low, high in prunes) for point in points)
    # In the order of time, so that the writes before the last flush are applied once.
    for number, point in enumerate(sorted(points)):
        chance = random.Random(f"{options.seed} {number}")
        flushes = [at for at in range(applied, point + 1) if log[at].kind == FLUSH]
        if options.lying:
            flushes = flushes[:-LIES]
        covered = flushes[-1] if flushes else applied
        for entry in log[applied:covered]:
            if entry.kind == WRITE:
                image[entry.offset:entry.offset + entry.length] = recording[entry.start:entry.end]
        applied = covered
        pending = [entry for entry in log[applied:point + 1] if entry.kind == WRITE]
        loss = LOSSES[number % len(LOSSES)]
        parts = list(survivors(pending, loss, chance))
        if options.only not in (None, number):
            continue
        write_disk(image, crashed, recording, parts)
        if rows["fs"] == "ext4-without-journal":
            # Without a journal it is not safe to mount before that. 1: errors were corrected.
            checked = run("e2fsck", "-f", "-y", crashed)
            if checked.returncode > 1:
                raise SystemExit(f"error: e2fsck: exit {checked.returncode}: {checked.stdout[-500:]}")
        promised = [ack for ack in acks if ack["at"] <= log[point].end]
        mount = ["mount", "-t", kind, "-o", "loop" + (",nouuid" if kind == "xfs" else ""), crashed, mounted]
        if run(*mount).returncode:
            # The file system itself is lost: on a disk that lies, or by tearing inside of its blocks. The disk that
            # tears only between blocks takes the place of the cut.
            if options.lying:
                unmounted += 1
                continue
            if loss != "pieces of 512":
                raise SystemExit(f"error: cut {number} at entry {point}, kept {loss}: the disk cannot be mounted")
            unmountable += 1
            loss = "pieces of 4096"
            write_disk(image, crashed, recording, survivors(pending, loss, chance))
            must(*mount)
        use_state_of(mounted)
        check = Check(mounted, promised, rows["first"], is_second_opinion=number % 8 == 0,
                      has_journal=rows["fs"] != "ext4-without-journal")
        try:
            check.run()
        finally:
            unmount(mounted)
        promises += len(promised)
        derived += check.is_derived_lost
        losses[loss] += 1
        openings[check.opening] += 1
        if check.problems:
            broken += 1
        if check.problems and not options.lying:
            print(f"cut {number} at entry {point}, kept {loss} of {len(pending)} writes:", flush=True)
            for problem in check.problems[:5]:
                print(f"  {problem}", flush=True)
    if options.lying:
        print(f"{rows['fs']}, a disk that lies about its flushes: "
              f"{broken} of {options.cuts} cuts were found to lose something, and {unmounted} file systems were lost")
        return 0 if broken else 1
    print(json.dumps({
        "type": "power", "fs": rows["fs"], "seed": options.seed, "cuts": sum(losses.values()),
        "writes": sum(entry.kind == WRITE for entry in log), "flushes": sum(entry.kind == FLUSH for entry in log),
        "bytes": sum(entry.length for entry in log), "acks": len(acks), "checked": promises, "broken": broken,
        "unmountable": unmountable, "derived": derived, "in_prune": in_prune,
        "openings": dict(sorted(openings.items())), "seconds": round(time.monotonic() - begun),
    }), flush=True)
    return 1 if broken else 0


def main():
    parser = argparse.ArgumentParser(description="power cuts below a real file system")
    commands = parser.add_subparsers(required=True)
    first = commands.add_parser("record")
    first.add_argument("--fs", choices=FILE_SYSTEMS, required=True)
    first.add_argument("--seconds", type=float, required=True)
    first.set_defaults(function=record)
    second = commands.add_parser("cut")
    second.add_argument("--cuts", type=int, required=True)
    second.add_argument("--only", type=int)
    second.add_argument("--lying", action="store_true")
    second.set_defaults(function=cut)
    for each in (first, second):
        each.add_argument("work", type=lambda text: Path(text).resolve())
        each.add_argument("--seed", type=int, required=True)
    options = parser.parse_args()
    return options.function(options)


if __name__ == "__main__":
    sys.exit(main())
