"""A worker of the fault test: threads with `Ledger`, and in every other process tasks with `AsyncLedger`.

It writes one line for each step that the ledger confirmed, or that it lost.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
import threading
import zlib

from plan_ledger import AsyncLedger, Ledger

PLACE, RUN, WORKER = os.environ["PLACE"], os.environ["RUN"], os.environ["WORKER"]
results = open(os.environ["RESULTS"], "a", buffering=1)
lock = threading.Lock()
options = {"token": os.environ["TOKEN"], "start": False, "patience": 600.0}


def write(task, value):
    status = "lost" if task.is_lost else task.result["status"]
    line = {"run": task.run, "step": task.id, "token": int(task.token.split("-")[0]), "value": value, "status": status}
    with lock:
        results.write(json.dumps(line) + "\n")


def has_effect(step):
    return zlib.crc32(step.encode()) % 4 == 0


def in_thread(number):
    ledger = Ledger(PLACE, **options)
    for task in ledger.work(RUN, worker=f"{WORKER}/{number}"):
        value = secrets.token_hex(8)
        with task:
            if has_effect(task.id):
                with task.effect(f"effect of {task.id}"):
                    pass
            task.done({"value": value})
        if task.is_lost or task.result is not None:
            write(task, value)


async def in_task(ledger, number):
    async for task in ledger.work(RUN, worker=f"{WORKER}/{number}"):
        value = secrets.token_hex(8)
        async with task:
            if has_effect(task.id):
                async with task.effect(f"effect of {task.id}"):
                    pass
            task.done({"value": value})
        if task.is_lost or task.result is not None:
            write(task, value)


async def in_tasks(count):
    ledger = AsyncLedger(PLACE, **options)
    await asyncio.gather(*(in_task(ledger, number) for number in range(count)))


def main():
    logging.basicConfig()
    count = int(os.environ["CONCURRENCY"])
    failures = []

    def guarded(number):
        try:
            in_thread(number)
        except BaseException as error:
            failures.append(error)
            raise

    if zlib.crc32(WORKER.encode()) % 2:
        asyncio.run(in_tasks(count))
    else:
        threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    raise SystemExit(1 if failures else 0)


main()
