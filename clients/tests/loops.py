#!/usr/bin/env python3
"""The loop of each client's README has at most ten lines and survives a kill at any point.

    LEDGER=target/debug/ledger clients/tests/loops.py python [STEPS [SEED]]

The loop runs as it is in the README, is killed with SIGKILL at a random point, and is started again, until
the run has ended. Then every step must be accepted exactly once, with one receipt. A machine that is too fast
to kill the loop twice gets a plan with twice as many steps.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
CLIENTS = HERE.parent
LEDGER = os.environ["LEDGER"]
LINES_MAX = 10
KILLS_MIN = 2


def loop_of(client: str) -> str:
    """The first snippet of the README."""
    language = "python" if client == "python" else "js"
    text = (CLIENTS / client / "README.md").read_text()
    found = re.search(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)
    assert found, f"the README of {client} has no loop"
    lines = [line for line in found[1].splitlines() if line.strip()]
    assert len(lines) <= LINES_MAX, f"the loop of {client} has {len(lines)} lines"
    return found[1]


def run_killed(client: str, loop: str, steps: int, rng: random.Random) -> int:
    """Runs the loop on a plan of so many steps, checks the ledger, and returns the number of kills."""
    with tempfile.TemporaryDirectory(prefix="loop-") as folder:
        place = Path(folder)
        run = lambda *words: subprocess.run([LEDGER, *words], cwd=place, check=True, capture_output=True, text=True).stdout
        run("init")
        plan = {"title": "Night", "defaults": {"lease_seconds": 1}, "steps": [{"id": f"s{n}"} for n in range(steps)]}
        (place / "night.json").write_text(json.dumps(plan))
        run("plan", "propose", "night.json")
        environment = {**os.environ, "PLAN_LEDGER_PROGRAM": LEDGER, "PYTHONPATH": str(CLIENTS / "python/src")}
        if client == "python":
            (place / "loop.py").write_text(loop)
            command = [sys.executable, "loop.py"]
        else:
            (place / "node_modules").mkdir()
            (place / "node_modules/plan-ledger").symlink_to(CLIENTS / "typescript")
            (place / "loop.mjs").write_text(loop)
            command = ["node", "loop.mjs"]
        kills, started = 0, time.monotonic()
        while True:
            process = subprocess.Popen(command, cwd=place, env=environment)
            try:
                # The first kills come while the client or its server starts, later ones among the steps: on a
                # slow machine the loop gets its time.
                code = process.wait(rng.uniform(0.05, 0.25 + 0.03 * kills))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                kills += 1
                continue
            assert code == 0, f"the loop ended with exit code {code}"
            break
        lines = [json.loads(line) for line in run("inspect", ".ledger", "records", "--json").splitlines()]
        events = [(line.get("kind"), line.get("event") or {}) for line in lines]
        for kind in ("accepted", "receipt_recorded"):
            numbers = sorted(event["step"] for word, event in events if word == kind)
            assert numbers == list(range(1, steps + 1)), f"{kind}: {numbers}"
        attempts = sum(kind == "dispatched" for kind, _ in events)
        run("verify")
        print(json.dumps({"client": client, "steps": steps, "kills": kills, "attempts": attempts,
                          "seconds": round(time.monotonic() - started, 1)}))
        return kills


def main() -> None:
    client = sys.argv[1]
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    rng = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    loop = loop_of(client)
    while run_killed(client, loop, steps, rng) < KILLS_MIN:
        steps *= 2


if __name__ == "__main__":
    main()
