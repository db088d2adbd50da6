#!/usr/bin/env python3
"""Workers that are killed: their steps are free at once, every step is accepted, and none has two winners.

    clients/tests/kills.py --client python --trials 20
    clients/tests/kills.py --client typescript --seed 7

In each trial four processes work on 200 steps of 10 ms, with leases of 15 minutes. Six times one of them is
killed with SIGKILL and started again; a server that it had started ends with it. A trial in which a step waits
for a lease does not end in time.

Environment: LEDGER, the program.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
LEDGER = os.environ.setdefault("PLAN_LEDGER_PROGRAM", os.environ.get("LEDGER", "ledger"))
STEPS, WORKERS, KILLS = 200, 4, 6
# A trial takes some seconds; a lease lasts 15 minutes.
TRIAL_SECONDS = 120

PYTHON = """
import json, os, sys, time
from plan_ledger import Ledger
results = open(sys.argv[2], "a", buffering=1)
for task in Ledger(sys.argv[1]).work("r"):
    with task:
        time.sleep(0.01)
        task.done()
    if task.result is not None:
        results.write(json.dumps([task.id, task.result["status"]]) + "\\n")
"""

TYPESCRIPT = """
import { appendFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
const { Ledger } = await import(process.argv[1]);
const ledger = new Ledger(process.argv[2]);
for await (const task of ledger.work("r")) {
  await task.do(() => sleep(10));
  if (task.result) appendFileSync(process.argv[3], `${JSON.stringify([task.id, task.result.status])}\\n`);
}
await ledger.close();
"""


def command(client: str, folder: Path, results: Path) -> list[str]:
    if client == "python":
        return [sys.executable, "-c", PYTHON, str(folder), str(results)]
    index = (HERE.parent / "typescript/src/index.js").as_uri()
    return ["node", "--input-type=module", "-e", TYPESCRIPT, index, str(folder), str(results)]


def trial(client: str, rng: random.Random, base: Path) -> float:
    """One trial. Returns how long it took, in seconds."""
    folder, results = base / "l", base / "results"
    plan = base / "plan.json"
    steps = [{"id": f"s{number}"} for number in range(STEPS)]
    plan.write_text(json.dumps({"title": "Kills", "defaults": {"lease_seconds": 900}, "steps": steps}))
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent / "python/src")}
    for name in ("LEDGER_DIR", "LEDGER_RUN", "LEDGER_SERVER", "LEDGER_WORKER", "LEDGER_TOKEN"):
        environment.pop(name, None)
    subprocess.run([LEDGER, "init", "--ledger", str(folder)], check=True, stdout=subprocess.DEVNULL)
    words = [LEDGER, "plan", "propose", str(plan), "--run", "r", "--ledger", str(folder)]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command(client, folder, results), env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    started = time.monotonic()
    workers = [start() for _ in range(WORKERS)]
    try:
        for _ in range(KILLS):
            time.sleep(rng.uniform(0.1, 0.8))
            number = rng.randrange(WORKERS)
            workers[number].kill()
            workers[number].wait()
            workers[number] = start()
        for worker in workers:
            left = TRIAL_SECONDS - (time.monotonic() - started)
            try:
                code = worker.wait(max(0.0, left))
            except subprocess.TimeoutExpired:
                status = subprocess.run([LEDGER, "status", "r", "--ledger", str(folder)], capture_output=True, text=True)
                raise AssertionError(f"the trial stalls:\n{status.stdout}") from None
            assert code == 0, f"a worker ended with {code}"
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    took = time.monotonic() - started
    confirmed = collections.Counter(
        step for step, status in map(json.loads, results.read_text().splitlines()) if status == "accepted"
    )
    twice = [step for step, count in confirmed.items() if count > 1]
    assert not twice, f"steps with two winners: {twice}"
    words = [LEDGER, "inspect", str(folder), "records", "--kind", "accepted", "--json"]
    lines = subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()
    accepted = collections.Counter(
        line["event"]["step"] for line in map(json.loads, lines) if line["type"] == "record"
    )
    assert len(accepted) == STEPS and max(accepted.values()) == 1, f"accepted: {accepted}"
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--client", choices=["python", "typescript"], required=True)
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    for number in range(arguments.trials):
        with tempfile.TemporaryDirectory(prefix="kills-") as base:
            took = trial(arguments.client, rng, Path(base))
        print(f"trial {number + 1} of {arguments.trials}: {STEPS} steps, {KILLS} kills, {took:.1f} s", flush=True)
    print(f"{arguments.client}: no trial stalled, and no step had two winners")


main()
