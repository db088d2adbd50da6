#!/usr/bin/env python3
"""The examples of integrations, with a model on loopback: `LEDGER=... integrations.py [PART ...]`.

Parts: store (the conformance suite of the Claude Agent SDK, and crashes), claude (a worker of that SDK), langgraph.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLES = ROOT / "examples/integrations"
sys.path[:0] = [str(EXAMPLES), str(ROOT / "tests/interfaces")]
LEDGER = os.environ["LEDGER"]

from model import ScriptedModel  # noqa: E402
from session_store import FileSessionStore  # noqa: E402

ANSWER = "The step is done."


class Model(ScriptedModel):
    """Answers every request with the same text."""

    def next(self, request):
        with self.lock:
            self.requests.append(request)
        return ANSWER


def store() -> None:
    from claude_agent_sdk.testing import run_session_store_conformance

    with tempfile.TemporaryDirectory() as base:
        count = 0

        def make():
            nonlocal count
            count += 1
            return FileSessionStore(f"{base}/{count}")

        asyncio.run(run_session_store_conformance(make))
        assert count >= 13, count

        async def crash():
            """An entry that a crash cut off is neither loaded nor in the way."""
            key = {"project_key": "../p", "session_id": "..", "subpath": "../../x"}
            one = FileSessionStore(f"{base}/crash")
            await one.append(key, [{"type": "x", "uuid": "a"}, {"type": "x", "uuid": "b"}])
            path = one._path(key)
            assert path.resolve().is_relative_to(Path(base).resolve() / "crash"), path
            path.write_bytes(path.read_bytes()[:-5])
            assert [entry["uuid"] for entry in await one.load(key)] == ["a"]
            await one.append(key, [{"type": "x", "uuid": "a"}, {"type": "x", "uuid": "b"}, {"type": "x"}])
            assert [entry.get("uuid") for entry in await one.load(key)] == ["a", "b", None]

        asyncio.run(crash())


def work(program: str, check) -> None:
    """A worker does a run of two steps with the model on loopback."""
    with tempfile.TemporaryDirectory() as base:
        model = Model([], io.StringIO())
        environment = {
            **os.environ, "HOME": base, "PYTHONPATH": f"{ROOT / 'clients/python/src'}:{EXAMPLES}",
            "PLAN_LEDGER_PROGRAM": LEDGER, "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{model.port}",
            "ANTHROPIC_API_KEY": "scripted", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_TELEMETRY": "1",
            "DISABLE_ERROR_REPORTING": "1", "DISABLE_AUTOUPDATER": "1",
        }
        plan = {"title": "Night", "steps": [{"id": "write", "goal": "Write it"}, {"id": "check", "after": ["write"]}]}
        Path(base, "night.json").write_text(json.dumps(plan))
        run = lambda *words: subprocess.run([LEDGER, *words], cwd=base, check=True, capture_output=True, text=True).stdout
        run("init")
        run("plan", "propose", "night.json")
        subprocess.run([sys.executable, str(EXAMPLES / program), "night"], cwd=base, env=environment, check=True, timeout=300)
        lines = [json.loads(line) for line in run("inspect", ".ledger", "records", "--json").splitlines()]
        receipts = [line["event"]["receipt"] for line in lines if line.get("kind") == "receipt_recorded"]
        assert [receipt["outcome"]["is"] for receipt in receipts] == ["succeeded"] * 2, receipts
        assert all(receipt["cost"]["tokens"] > 0 for receipt in receipts), receipts
        assert model.saw("Write it")
        check(Path(base), receipts)


def claude() -> None:
    def check(base, receipts):
        assert all(receipt["output"]["text"] == ANSWER for receipt in receipts), receipts
        transcripts = list((base / "sessions").glob("*/*/main.jsonl"))
        sessions = {receipt["output"]["session"] for receipt in receipts}
        assert {path.parent.name for path in transcripts} == sessions, (transcripts, sessions)
        assert all(ANSWER in path.read_text() for path in transcripts)

    work("claude_agent.py", check)


def langgraph() -> None:
    def check(_, receipts):
        assert [receipt["output"] for receipt in receipts] == [ANSWER] * 2, receipts

    work("langgraph_worker.py", check)


for part in sys.argv[1:] or ["store", "claude", "langgraph"]:
    {"store": store, "claude": claude, "langgraph": langgraph}[part]()
    print(f"ok: {part}", flush=True)
