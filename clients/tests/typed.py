"""A program of a user: strict checkers of types accept it, and reject its last line. `clients/run types` checks it."""

from __future__ import annotations

import asyncio

from plan_ledger import AsyncLedger, LeaseLost, Ledger, NothingToDo, Replan, Task, Transient
from plan_ledger.types import Plan

plan: Plan = {"title": "Night", "steps": [{"id": "a", "goal": "go"}]}


def perform(task: Task) -> dict[str, int]:
    if task.attempt == 1:
        raise Transient("busy", retry_after=2, payload={"status": 429})
    if "never" in task.step.get("tags", []):
        raise Replan("no", from_step=task.id, kind="scope_change")
    with task.effect("mail", "a mail") as effect:
        return {"rows": 0 if effect.is_done else 3}


def work() -> None:
    with Ledger(".ledger", patience=5) as ledger:
        run: str = ledger.propose(plan, "night")
        for task in ledger.work(run, worker="w", tags=["x"]):
            with task:
                task.done(perform(task), tokens=3)
            status: str | None = task.result["status"] if task.result else None
            print(status)
        try:
            with ledger.claim(run, lease=30) as one:
                one.fail("no", Transient)
        except NothingToDo as nothing:
            print(nothing.is_over)
        except LeaseLost:
            raise
        answer = ledger.request({"act": "note", "text": "x", "by": "me", "run": None, "step": None})
        print(ledger.steps(run), answer.code)


async def work_async() -> None:
    async with AsyncLedger() as ledger:
        async for task in ledger.work("night"):
            async with task, task.effect("mail") as effect:
                task.done(effect.is_done)
        async with ledger.claim("night") as one:
            one.done()


work()
asyncio.run(work_async())
Ledger().propose(3, "bad")  # type: ignore[arg-type]
