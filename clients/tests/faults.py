#!/usr/bin/env python3
"""Fault injection between clients and server: every step is accepted exactly once, none is lost or doubled.

    clients/tests/faults.py --client python --steps 400
    clients/tests/faults.py --client typescript --interface http --steps 10000 --seed 7
    clients/tests/faults.py --client python --every-message

Real workers, in processes of their own, work on a plan through a proxy. At every message the proxy may cut
the connection before, inside or after the request or the answer, drop the answer, delay it, or kill the server
with SIGKILL. Between messages the server is killed, and workers are stopped for longer than their lease or
killed. Then the ledger is compared with what each worker was told.

`--every-message` makes one fault at a time instead: each fault at each message of a short session.

Environment: LEDGER, the program; PLAN_LEDGER_CLIENTS, the folder of the clients.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Awaitable, Callable, Optional

HERE = Path(__file__).resolve().parent
CLIENTS = HERE.parent
LEDGER = os.environ.get("LEDGER", "ledger")
# How long a lease holds, and how long a stopped worker stays stopped, in seconds.
LEASE = 2
STOPPED = 3.5
TOKEN = "a-token-of-the-fault-test"

# Each fault, and how often it occurs in 10,000 messages.
FAULTS = {
    "before_request": 150,
    "inside_request": 150,
    "after_request": 150,
    "answer_dropped": 150,
    "inside_answer": 150,
    "after_answer": 150,
    "delayed": 100,
    "held": 4,
    "killed_before_answer": 15,
    "killed_after_answer": 15,
}


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Server:
    """`ledger serve`, which is killed and started again."""

    def __init__(self, folder: Path, port: Optional[int]) -> None:
        self.folder = folder
        self.kills = 0
        # Whether it has answered since its start: on a busy machine the next kill must not come before.
        self.has_answered = False
        self._words = ["serve", "--ledger", str(folder), "--until-eof"]
        if port is not None:
            tokens = folder.parent / "tokens"
            tokens.write_text(f"operator {TOKEN}\n")
            self._words += ["--http", f"127.0.0.1:{port}", "--token-file", str(tokens)]
        self._process: Optional[subprocess.Popen[bytes]] = None

    def start(self) -> None:
        self.has_answered = False
        self._process = subprocess.Popen(
            [LEDGER, *self._words], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def kill(self) -> None:
        """SIGKILL, and another server."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self.kills += 1
        self.start()

    def keep(self) -> None:
        """Starts another server if this one ended by itself."""
        if self._process is None or self._process.poll() is not None:
            self.start()

    def stop(self) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait()


async def read_line(reader: asyncio.StreamReader) -> bytes:
    """A message of the socket."""
    return await reader.readuntil(b"\n")


async def read_http(reader: asyncio.StreamReader) -> bytes:
    """A message of HTTP/1.1 with its body."""
    head = await reader.readuntil(b"\r\n\r\n")
    found = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
    if b"chunked" in head.lower():
        raise AssertionError("the proxy cannot read chunks")
    return head + (await reader.readexactly(int(found[1])) if found else b"")


class Proxy:
    """Between clients and server, message by message."""

    def __init__(
        self,
        target: Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]],
        read: Callable[[asyncio.StreamReader], Awaitable[bytes]],
        server: Server,
        choose: Callable[[int], Optional[str]],
        rng: random.Random,
    ) -> None:
        self.messages = 0
        self.connections: set[asyncio.Task[Any]] = set()
        self.faults: collections.Counter[str] = collections.Counter()
        self._target, self._read, self._server, self._choose, self._rng = target, read, server, choose, rng

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner: Optional[asyncio.StreamWriter] = None
        connection = asyncio.current_task()
        assert connection is not None
        self.connections.add(connection)
        try:
            # Without a server the client's connection ends: it cannot tell the proxy from a dead server.
            answers, inner = await self._target()
            while await self._message(reader, writer, answers, inner):
                pass
        except (OSError, EOFError, asyncio.IncompleteReadError):
            pass
        finally:
            self.connections.discard(connection)
            writer.close()
            if inner is not None:
                inner.close()

    async def _message(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answers: asyncio.StreamReader,
        inner: asyncio.StreamWriter,
    ) -> bool:
        """One request and its answer; whether the connection continues."""
        request = await self._read(reader)
        number, self.messages = self.messages, self.messages + 1
        fault = self._choose(number)
        if fault:
            self.faults[fault] += 1
        if fault == "before_request":
            return False
        if fault == "inside_request":
            inner.write(request[: self._rng.randrange(1, len(request))])
            await inner.drain()
            return False
        if fault == "delayed":
            await asyncio.sleep(self._rng.uniform(0.01, 0.3))
        if fault == "held":
            # Longer than the lease: the answer arrives late, or never.
            await asyncio.sleep(LEASE * 1.5)
        inner.write(request)
        await inner.drain()
        if fault == "killed_before_answer":
            await asyncio.sleep(self._rng.choice([0, 0.0005, 0.002]))
            self._server.kill()
            return False
        if fault == "after_request":
            return False
        answer = await self._read(answers)
        self._server.has_answered = True
        if fault == "killed_after_answer":
            self._server.kill()
        if fault in ("answer_dropped", "held"):
            return False
        if fault == "inside_answer":
            writer.write(answer[: self._rng.randrange(1, len(answer))])
            await writer.drain()
            return False
        writer.write(answer)
        await writer.drain()
        return fault not in ("after_answer", "killed_after_answer")


class Worker:
    """A process that works on the run until it has ended, and is started again if it was killed."""

    def __init__(self, command: list[str], environment: dict[str, str], name: str, folder: Path) -> None:
        self._command, self._environment, self._name, self._folder = command, environment, name, folder
        self.starts = 0
        self.process: Optional[asyncio.subprocess.Process] = None

    async def work(self) -> None:
        while True:
            self.starts += 1
            results = self._folder / f"{self._name}-{self.starts}.jsonl"
            log = (self._folder / f"{self._name}-{self.starts}.log").open("wb")
            environment = {**os.environ, **self._environment, "WORKER": f"{self._name}-{self.starts}", "RESULTS": str(results)}
            self.process = await asyncio.create_subprocess_exec(
                *self._command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
            code = await self.process.wait()
            log.close()
            if code == 0:
                return
            if code > 0:
                text = Path(log.name).read_text()[-3000:]
                raise AssertionError(f"worker {self._name} ended with exit code {code}:\n{text}")


def run(*words: str) -> str:
    ended = subprocess.run([LEDGER, *words], capture_output=True, text=True)
    if ended.returncode != 0:
        raise AssertionError(f"{words}: exit code {ended.returncode}\n{ended.stdout[-2000:]}{ended.stderr[-2000:]}")
    return ended.stdout


def propose(folder: Path, name: str, steps: int) -> None:
    plan = {
        "title": "Faults",
        "defaults": {"lease_seconds": LEASE},
        "steps": [{"id": f"s{number}"} for number in range(steps)],
    }
    path = folder.parent / f"{name}.json"
    path.write_text(json.dumps(plan))
    run("plan", "propose", str(path), "--ledger", str(folder))


def check(folder: Path, results: Path, steps: int, name: str) -> dict[str, Any]:
    """Compares the ledger with what the workers were told."""
    numbers: dict[int, int] = {}
    accepted: collections.Counter[str] = collections.Counter()
    receipts: dict[int, Any] = {}
    by_step: dict[str, list[int]] = collections.defaultdict(list)
    lost, late = 0, 0
    words = [LEDGER, "inspect", str(folder), "records", "--run", name, "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        for text in reader.stdout:
            line = json.loads(text)
            kind, event = line.get("kind"), line.get("event") or {}
            if kind == "dispatched":
                numbers[line["seq"]] = event["step"]
            elif kind == "receipt_recorded":
                receipts[event["token"]] = event["receipt"]
                by_step[f"s{event['step'] - 1}"].append(event["token"])
            elif kind == "accepted":
                accepted[f"s{event['step'] - 1}"] += 1
            elif kind == "attempt_lost":
                lost += 1
            elif kind == "receipt_refused":
                late += 1
            assert line.get("type") != "damage", line
    expected = {f"s{number}" for number in range(steps)}
    missing = expected - set(accepted)
    doubled = {step: count for step, count in accepted.items() if count != 1}
    assert not missing, f"{len(missing)} steps were lost: {sorted(missing)[:5]}"
    assert not doubled, f"steps were accepted more than once: {doubled}"
    reports = {step: tokens for step, tokens in by_step.items() if len(tokens) != 1}
    assert not reports, f"steps have more than one receipt: {reports}"
    told: dict[str, dict[str, Any]] = {}
    losses = 0
    for path in results.glob("*.jsonl"):
        for text in path.read_text().splitlines():
            try:
                line = json.loads(text)
            except ValueError:
                # The worker was killed while it wrote.
                continue
            if line["run"] != name:
                continue
            if line["status"] == "lost":
                losses += 1
                continue
            assert line["status"] == "accepted", line
            step = line["step"]
            assert step not in told, f"two workers were told that {step} is accepted: {told[step]}, {line}"
            told[step] = line
            receipt = receipts.get(line["token"])
            assert receipt is not None, f"the receipt of {step} was acknowledged and is lost: {line}"
            assert receipt["output"] == {"value": line["value"]}, f"{step} has another output: {receipt}, {line}"
    return {"accepted": len(accepted), "told": len(told), "attempts": len(numbers), "attempts_lost": lost,
            "late_receipts": late, "losses_told": losses}


def worker_command(client: str) -> list[str]:
    if client == "python":
        return [sys.executable, str(HERE / "worker.py")]
    return ["node", str(HERE / "worker.mjs")]


class Place:
    """A ledger with its server and its proxy."""

    def __init__(self, base: Path, interface: str, choose: Callable[[int], Optional[str]], rng: random.Random) -> None:
        self.base, self.interface = base, interface
        self.folder = base / "real" / "l"
        self.folder.parent.mkdir(parents=True)
        self.results = base / "results"
        self.results.mkdir()
        run("init", "--ledger", str(self.folder))
        if interface == "http":
            port, front = free_port(), free_port()
            self.server = Server(self.folder, port)
            self.proxy = Proxy(lambda: asyncio.open_connection("127.0.0.1", port), read_http, self.server, choose, rng)
            self.place, self._front = f"http://127.0.0.1:{front}", front
        else:
            self.server = Server(self.folder, None)
            path = str(self.folder / "serve.sock")
            self.proxy = Proxy(
                lambda: asyncio.open_unix_connection(path, limit=1 << 24), read_line, self.server, choose, rng
            )
            (base / "front").mkdir()
            self.place = str(base / "front")

    async def listen(self) -> None:
        if self.interface == "http":
            self._listening = await asyncio.start_server(self.proxy.serve, "127.0.0.1", self._front)
        else:
            path = str(self.base / "front" / "serve.sock")
            self._listening = await asyncio.start_unix_server(self.proxy.serve, path, limit=1 << 24)

    async def close(self) -> None:
        """Ends the server, the proxy and its connections."""
        self.server.stop()
        self._listening.close()
        connections = list(self.proxy.connections)
        for each in connections:
            each.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    def environment(self, run_name: str, workers: int) -> dict[str, str]:
        return {
            "PLACE": self.place, "RUN": run_name, "TOKEN": TOKEN, "CONCURRENCY": str(workers),
            "PYTHONPATH": str(CLIENTS / "python/src"), "LEASE": str(LEASE),
        }


async def random_faults(args: argparse.Namespace) -> dict[str, Any]:
    rng = random.Random(args.seed)
    words, weights = list(FAULTS), list(FAULTS.values())
    rest = 10_000 - sum(weights)

    def choose(_: int) -> Optional[str]:
        return rng.choices([None, *words], [rest, *weights])[0]

    totals: collections.Counter[str] = collections.Counter()
    faults: collections.Counter[str] = collections.Counter()
    left, number, started = args.steps, 0, time.monotonic()
    while left > 0:
        steps = min(left, args.steps_of_run)
        left, number = left - steps, number + 1
        with tempfile.TemporaryDirectory(prefix="faults-") as folder:
            place = Place(Path(folder), args.interface, choose, rng)
            propose(place.folder, "r", steps)
            place.server.start()
            await place.listen()
            each = max(1, args.workers // args.processes)
            workers = [
                Worker(worker_command(args.client), place.environment("r", each), f"w{index}", place.results)
                for index in range(args.processes)
            ]
            tasks = [asyncio.ensure_future(worker.work()) for worker in workers]
            disturbing = asyncio.ensure_future(disturb(place.server, workers, rng, args, totals))
            try:
                await asyncio.wait_for(asyncio.gather(*tasks), args.timeout)
            finally:
                for task in (disturbing, *tasks):
                    task.cancel()
                for worker in workers:
                    if worker.process is not None and worker.process.returncode is None:
                        worker.process.kill()
                await place.close()
            result = check(place.folder, place.results, steps, "r")
            run("verify", "--ledger", str(place.folder), "--level", "replay")
            totals.update(result)
            totals.update({"messages": place.proxy.messages, "server_kills": place.server.kills})
            faults.update(place.proxy.faults)
        done = args.steps - left
        print(f"{args.client} over {args.interface}: {done} of {args.steps} steps, {totals['messages']} messages, "
              f"{sum(faults.values())} faults, {totals['server_kills']} kills of the server, "
              f"{time.monotonic() - started:.0f} s", flush=True)
    return {"client": args.client, "interface": args.interface, "steps": args.steps, "seed": args.seed,
            "seconds": round(time.monotonic() - started, 1), **totals, "faults": dict(faults)}


async def disturb(
    server: Server, workers: list[Worker], rng: random.Random, args: argparse.Namespace, totals: collections.Counter[str]
) -> None:
    """Kills the server between messages, stops workers for longer than their lease, and kills workers."""
    while True:
        await asyncio.sleep(rng.uniform(0.5, 2 * args.pause))
        server.keep()
        what = rng.choices(["server", "stop", "kill"], [4, 3, 2])[0]
        worker = rng.choice(workers)
        process = worker.process
        if what == "server":
            if server.has_answered:
                server.kill()
        elif process is not None and process.returncode is None:
            try:
                if what == "kill":
                    process.send_signal(signal.SIGKILL)
                    totals["worker_kills"] += 1
                else:
                    process.send_signal(signal.SIGSTOP)
                    totals["worker_stops"] += 1
                    await asyncio.sleep(STOPPED)
                    process.send_signal(signal.SIGCONT)
            except ProcessLookupError:
                pass


async def every_message(args: argparse.Namespace) -> dict[str, Any]:
    """Each fault at each message of a session of one worker with three steps, one fault at a time."""
    rng = random.Random(args.seed)
    case: list[Any] = [None, 0]

    def choose(_: int) -> Optional[str]:
        case[1] += 1
        return case[0][0] if case[0] is not None and case[1] - 1 == case[0][1] else None

    faults = [fault for fault in FAULTS if fault != "delayed"]
    cases = 0
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        place = Place(Path(folder), args.interface, choose, rng)
        place.server.start()
        await place.listen()

        async def session(name: str) -> int:
            """One worker does three steps; returns how many messages it took."""
            place.server.keep()
            propose(place.folder, name, 3)
            case[1] = 0
            worker = Worker(worker_command(args.client), place.environment(name, 1), name, place.results)
            await asyncio.wait_for(worker.work(), 60)
            result = check(place.folder, place.results, 3, name)
            if case[0] is None or case[0][0] != "held":
                assert result["told"] == 3, (name, result)
            return int(case[1])

        messages = await session("without-faults")
        assert messages >= 4, messages
        for fault in faults:
            for number in range(messages):
                if fault == "held" and number > 0 and number % 3 != 0:
                    # Each takes longer than a lease: a third of them.
                    continue
                case[0] = (fault, number)
                before = place.proxy.faults[fault]
                taken = await session(f"{fault.replace('_', '-')}-{number}")
                if number >= 4 and taken <= number:
                    # On a slow machine the first session had a renewal more.
                    continue
                assert place.proxy.faults[fault] == before + 1, f"{fault} at message {number} did not happen"
                cases += 1
        await place.close()
        run("verify", "--ledger", str(place.folder), "--level", "replay")
    return {"client": args.client, "interface": args.interface, "every_message": True, "messages": messages,
            "faults": len(faults), "cases": cases, "steps": 3 * (cases + 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--client", choices=["python", "typescript"], required=True)
    parser.add_argument("--interface", choices=["socket", "http"], default="socket")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--steps-of-run", type=int, default=5000, help="steps of one ledger")
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pause", type=float, default=2.0, help="seconds between two disturbances")
    parser.add_argument("--timeout", type=float, default=1800.0, help="seconds for one run")
    parser.add_argument("--every-message", action="store_true")
    args = parser.parse_args()
    result = asyncio.run(every_message(args) if args.every_message else random_faults(args))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
