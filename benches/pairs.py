#!/usr/bin/env python3
"""Measures what a user waits for: the fold of a log, an open after a kill, the start of a run, the first
dispatch of a plan with many dependencies, and a whole run. With BENCH_BEFORE, the path of an older program
`ledger`, both programs take turns; the library is measured, too, if `plan-ledger-peers` of that commit is
in the same folder, whose file `commit` names it. Each program has ledgers of its own.

    BENCH_BEFORE=old/ledger benches/pairs.py --json pairs.json
"""

import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import tempfile
import time

import arguments


class Program:
    """The programs of a commit."""

    def __init__(self, ledger, peers):
        self.ledger, self.peers = str(ledger), str(peers)

    def grow(self, part, ledger, size):
        """The figures of a part of `plan-ledger-peers grow`."""
        words = [self.peers, "grow", "--part", part, "--ledger", str(ledger), "--records", str(size), "--steps", str(size)]
        out = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout
        return {name: float(figure) for name, figure in (line.split("\t") for line in out.splitlines())}

    def killed(self, ledger):
        """Use a ledger in another process, and kill that."""
        words = [self.peers, "grow", "--part", "hold", "--ledger", str(ledger)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as child:
            line = child.stdout.readline()
            child.kill()
        assert line.strip() == "working", line

    def run(self, plan, ledger, *words):
        """The seconds of a run whose steps need no work, and the exit code."""
        command = [self.ledger, "run", str(plan), "--stub", "--ledger", str(ledger), *words]
        started = time.monotonic()
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        took = time.monotonic() - started
        shutil.rmtree(ledger)
        return took, done


class Pairs:
    """The figures of all measurements, by name and program."""

    def __init__(self, options):
        self.commit = None
        self.programs = {"now": Program(options.program, options.peers)}
        if options.before:
            before = pathlib.Path(options.before).resolve()
            self.programs = {"before": Program(before, before.with_name("plan-ledger-peers")), **self.programs}
            commit = before.with_name("commit")
            self.commit = commit.read_text().strip() if commit.exists() else "of BENCH_BEFORE"
        self.options, self.figures = options, {}
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=options.folder))

    def keep(self, name, which, figure):
        self.figures.setdefault(name, {}).setdefault(which, []).append(figure)
        print(f"{name}, {which}: {figure:.4g}", flush=True)

    def rounds(self, measure, needs_peers=False, slow=()):
        """Measure each program in each round, in changing order. Slow ones are measured once."""
        for number in range(self.options.rounds):
            names = list(self.programs) if number % 2 == 0 else list(reversed(self.programs))
            for which in names:
                program = self.programs[which]
                if needs_peers and not os.access(program.peers, os.X_OK):
                    continue
                if number > 0 and which in slow:
                    continue
                measure(which, program)

    def fold(self):
        ledgers = {}
        for which, program in self.programs.items():
            if os.access(program.peers, os.X_OK):
                ledgers[which] = self.folder / f"fold-{which}.ledger"
                program.grow("extend", ledgers[which], self.options.records)

        def measure(which, program):
            self.keep("fold, records/s", which, program.grow("replay", ledgers[which], 0)["replay, records/s"])

        self.rounds(measure, needs_peers=True)
        for ledger in ledgers.values():
            shutil.rmtree(ledger)

    def starts(self):
        for steps in self.options.steps:
            def measure(which, program):
                ledger = self.folder / "start.ledger"
                started = program.grow("begin", ledger, steps)["start of the run, ms"]
                self.keep(f"start of {steps} steps, ms", which, started)
                for _ in range(3):
                    program.killed(ledger)
                    opened = program.grow("open", ledger, 0)["open after a kill, ms"]
                    self.keep(f"open after a kill, plan of {steps} steps, ms", which, opened)
                shutil.rmtree(ledger)

            self.rounds(measure, needs_peers=True)

    def dependencies(self):
        """Until the first dispatch of a plan in which each of some steps needs each of as many others."""
        width = self.options.width
        first = [f"a{number}" for number in range(width)]
        steps = [{"id": name} for name in first] + [{"id": f"b{number}", "after": first} for number in range(width)]
        plan = self.folder / "layers.json"
        plan.write_text(json.dumps({"title": "Layers", "steps": steps}))

        def measure(which, program):
            # The program kills itself when the first step is dispatched.
            took, done = program.run(plan, self.folder / "layers.ledger", "--kill-at", "1")
            assert done.returncode == -signal.SIGKILL, (done.returncode, done.stderr[-400:])
            self.keep(f"{width * width} dependencies until the first dispatch, s", which, took)

        self.rounds(measure, slow=["before"])
        plan.unlink()

    def stubs(self):
        """Whole runs of plans of several sizes."""
        for steps in self.options.stubs:
            plan = self.folder / f"stub-{steps}.json"
            plan.write_text(json.dumps({"title": "Stub", "steps": [{"id": f"s{number}", "goal": "do it"} for number in range(steps)]}))

            def measure(which, program):
                took, done = program.run(plan, self.folder / "stub.ledger")
                assert done.returncode == 0, done.stderr[-400:]
                self.keep(f"run --stub, {steps} steps, s", which, took)

            self.rounds(measure, slow=["before"])
            plan.unlink()


def main():
    words = arguments.common(__doc__)
    words.add_argument("--records", type=int, default=1_000_000, help="records of the log that is folded")
    words.add_argument("--steps", type=arguments.numbers, default=[10_000, 100_000], help="steps of runs that are started")
    words.add_argument("--width", type=int, default=1_500, help="steps of each of two layers")
    words.add_argument("--stubs", type=arguments.numbers, default=[1_250, 2_500, 5_000, 10_000], help="steps of whole runs")
    words.add_argument("--before", default=os.environ.get("BENCH_BEFORE"))
    options = words.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    pairs = Pairs(options)
    try:
        for measure in [pairs.fold, pairs.starts, pairs.dependencies, pairs.stubs]:
            measure()
    finally:
        shutil.rmtree(pairs.folder)
    print("| measurement | before | now |\n|---|---|---|")
    for name, by_program in pairs.figures.items():
        medians = [f"{statistics.median(by_program[which]):.4g}" if which in by_program else "-" for which in ("before", "now")]
        print(f"| {name} | {' | '.join(medians)} |")
    if options.json:
        options.json.write_text(json.dumps({"before": pairs.commit, "figures": pairs.figures}, indent=1))


if __name__ == "__main__":
    main()
