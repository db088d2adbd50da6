"""The client for asyncio: the same flows and the same rules as the one that blocks."""

from __future__ import annotations

import asyncio
import logging
import weakref
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, AsyncIterator, Generator, Mapping, Optional, Sequence, TypeVar, cast

from ._flow import (
    ANSWER_WAIT, MESSAGE_MAX, Answer, Claim, Exchange, Flow, Launch, Lost, NoServer, Report, abandoning,
    calling, claiming, decode, releasing, reporting,
)
from ._ledger import LedgerBase, PlanSource, _proposed_run, _task_or_raise
from ._place import SocketAddress
from ._task import TaskBase, default_worker, next_claim
from .errors import LeaseLost, LedgerError, NothingToDo, Rejected

if TYPE_CHECKING:
    from .types import Request

log = logging.getLogger("plan_ledger")

T = TypeVar("T")
_Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _AsyncSocket:
    """Connections to the socket in a ledger's folder; idle ones are kept for one event loop."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._idle: list[_Connection] = []
        self._loop: Optional[asyncio.AbstractEventLoop] = None

    async def _connect(self) -> _Connection:
        try:
            address = SocketAddress(self._folder)
            try:
                connecting = asyncio.open_unix_connection(address.path, limit=MESSAGE_MAX + 1)
                return await asyncio.wait_for(connecting, 10)
            finally:
                address.close()
        except (OSError, asyncio.TimeoutError) as error:
            raise NoServer(f"no server at {self._folder}: {error}") from error

    async def exchange(self, exchange: Exchange) -> Answer:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            # Connections belong to the event loop that made them.
            self._idle, self._loop = [], loop
        reader, writer = self._idle.pop() if self._idle else await self._connect()
        try:
            writer.write(exchange.message + b"\n")
            message = await asyncio.wait_for(self._answer(reader, writer), exchange.timeout)
            answer = decode(message)
        except (OSError, EOFError, asyncio.TimeoutError, asyncio.LimitOverrunError) as error:
            writer.close()
            raise Lost(f"the connection ended: {error!r}") from error
        except BaseException:
            writer.close()
            raise
        self._idle.append((reader, writer))
        return answer

    @staticmethod
    async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        await writer.drain()
        return await reader.readuntil(b"\n")

    def close(self) -> None:
        idle, self._idle = self._idle, []
        for _, writer in idle:
            if not writer.transport.is_closing():
                writer.close()


class AsyncLedger(LedgerBase):
    """A ledger, for asyncio. The arguments are those of `Ledger`.

    >>> ledger = AsyncLedger("./.ledger")
    >>> async for task in ledger.work("night"):
    ...     async with task:
    ...         task.done(await fetch(task.inputs["url"]))
    """

    def _prepare(self) -> None:
        self._socket = None if self._folder is None else _AsyncSocket(self._folder)

    async def __aenter__(self) -> AsyncLedger:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections, and ends the server if this object started it."""
        if self._socket is not None:
            self._socket.close()
        self._transport.close()
        if self._launcher is not None:
            await asyncio.to_thread(self._launcher.stop)

    async def _drive(self, flow: Flow[T]) -> T:
        value: Any = None
        error: Optional[BaseException] = None
        while True:
            try:
                step = flow.send(value) if error is None else flow.throw(error)
            except StopIteration as end:
                return cast(T, end.value)
            value, error = None, None
            try:
                if isinstance(step, Exchange):
                    value = await self._exchange(step)
                elif isinstance(step, Launch):
                    if self._launcher is not None:
                        self._launcher.launch()
                else:
                    await asyncio.sleep(step.seconds)
            except (Lost, NoServer, LedgerError) as problem:
                error = problem

    async def _exchange(self, step: Exchange) -> Answer:
        if self._socket is not None:
            return await self._socket.exchange(step)
        # HTTP without another package blocks: it has a thread.
        return await asyncio.to_thread(self._transport.exchange, step)

    async def request(self, request: Request | Mapping[str, Any], key: Optional[str] = None) -> Answer:
        """Makes any request (`format/socket.md`), under a key of its own or the given one."""
        return await self._drive(calling(cast("Mapping[str, Any]", request), key, patience=self._patience))

    async def propose(
        self,
        plan: PlanSource,
        run: Optional[str] = None,
        *,
        reason: str = "",
        inputs: Optional[Mapping[str, Any]] = None,
        policy: Optional[Mapping[str, Any]] = None,
    ) -> str:
        """As `Ledger.propose`."""
        if not inputs and policy is None:
            proposed = await asyncio.to_thread(self._propose_by_program, plan, run, reason)
            if proposed is not None:
                return proposed
        request = self._plan_request(plan, run, reason, inputs, policy)
        try:
            return _proposed_run((await self.request(request)).lines[0], request["run"])
        except Rejected as error:
            return _proposed_run(error.line, request["run"])

    def claim(
        self,
        run: Optional[str] = None,
        *,
        step: Optional[str] = None,
        worker: Optional[str] = None,
        owners: Sequence[str] = (),
        tags: Sequence[str] = (),
        lease: Optional[float] = None,
        wait: Optional[float] = 0.0,
    ) -> _Claiming:
        """As `Ledger.claim`: `task = await ledger.claim(...)` or `async with ledger.claim(...) as task:`."""
        return _Claiming(self, self._claim(run, step, worker, owners, tags, lease, wait))

    async def _claimed(self, claim: Claim, *, is_loop: bool) -> AsyncTask:
        try:
            line = await self._drive(claiming(claim))
        except BaseException:
            if claim.is_open:
                await self._drive(abandoning(claim))
            raise
        return AsyncTask(self, _task_or_raise(line), claim, is_loop)

    async def work(
        self,
        run: Optional[str] = None,
        *,
        worker: Optional[str] = None,
        owners: Sequence[str] = (),
        tags: Sequence[str] = (),
        lease: Optional[float] = None,
        wait: Optional[float] = None,
    ) -> AsyncIterator[AsyncTask]:
        """As `Ledger.work`: use each task as `async with task:`."""
        task: Optional[AsyncTask] = None
        following: Optional[AsyncTask] = None
        try:
            while True:
                task, following = following, None
                if task is None:
                    claim = self._claim(run, None, worker, owners, tags, lease, wait)
                    try:
                        task = await self._claimed(claim, is_loop=True)
                    except NothingToDo as nothing:
                        log.info("no more work: %s", nothing)
                        return
                yield task
                if not task._is_over:
                    # A body without `async with` that came to its end.
                    await task._finish_in_loop()
                following = task._following
        finally:
            if task is not None and not task._is_over:
                await task._give_up("the loop ended")
            following = task._following if task is not None and following is None else following
            if following is not None and not following._is_over:
                await following._give_up("the loop ended", has_begun=False)

    async def get(self, name: str, run: str) -> Any:
        """The value of a variable."""
        return await asyncio.to_thread(self._read_variable, name, run)

    async def set(self, name: str, value: Any, run: Optional[str] = None, *, by: Optional[str] = None) -> None:
        """Sets a variable."""
        await self.request({"act": "set", "run": run, "name": name, "value": value, "by": by or default_worker()})

    async def note(
        self, text: str, run: Optional[str] = None, step: Optional[str] = None, *, by: Optional[str] = None
    ) -> None:
        """Records a note about the ledger, a run or a step."""
        await self.request({"act": "note", "run": run, "step": step, "text": text, "by": by or default_worker()})

    async def steps(self, run: str) -> dict[str, str]:
        """The status of each step of the active plan."""
        return await asyncio.to_thread(self._read_steps, run)


class _Claiming:
    """A claim that is made when it is awaited, or when its block begins."""

    def __init__(self, ledger: AsyncLedger, claim: Claim) -> None:
        self._ledger = ledger
        self._claim = claim
        self._task: Optional[AsyncTask] = None

    def __await__(self) -> Generator[Any, None, AsyncTask]:
        return self._ledger._claimed(self._claim, is_loop=False).__await__()

    async def __aenter__(self) -> AsyncTask:
        self._task = await self
        return self._task

    async def __aexit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> bool:
        assert self._task is not None
        return await self._task.__aexit__(kind, error, trace)


class AsyncEffect:
    """As `Effect`: `async with task.effect("mail") as effect:`."""

    def __init__(self, task: AsyncTask, key: str, description: str) -> None:
        self.key = key
        self.is_done = False
        self._task = task
        self._description = description

    async def _record(self, state: str) -> bool:
        request = {"act": "effect", "token": self._task.token, "key": self.key, "state": state,
                   "effect": self._description}
        self._task.check()
        try:
            await self._task._request(request)
        except Rejected as error:
            if error.rejection != "effect_known":
                raise
            return False
        return True

    async def __aenter__(self) -> AsyncEffect:
        is_new = await self._record("intended")
        self.is_done = not is_new and self.key not in self._task._announced
        self._task._announced.add(self.key)
        return self

    async def __aexit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        if error is None and not self.is_done:
            await self._record("committed")


class AsyncTask(TaskBase):
    """One attempt at a step. Its lease is renewed by an asyncio task until it is reported."""

    def __init__(self, ledger: AsyncLedger, line: Mapping[str, Any], claim: Claim, is_loop: bool) -> None:
        super().__init__(line, claim, ledger._files)
        self._ledger = ledger
        self._is_loop = is_loop
        self._following: Optional[AsyncTask] = None
        self._ended = asyncio.Event()
        renewal = _renew(weakref.ref(self), self._ended, self._renewal_interval())
        self._renewing = asyncio.ensure_future(renewal)

    async def __aenter__(self) -> AsyncTask:
        return self

    async def __aexit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> bool:
        if error is None:
            await (self._finish_in_loop() if self._is_loop else self.finish())
            return False
        if isinstance(error, LeaseLost) or self.is_lost:
            self._end()
            return self._is_loop and isinstance(error, Exception) and self._log_loss()
        if not isinstance(error, Exception):
            # CancelledError, KeyboardInterrupt, GeneratorExit: the worker ends, the step did not fail.
            await self._give_up(type(error).__name__)
            return False
        self._end_with(error)
        if not self._is_loop:
            await self.finish()
            return False
        log.warning("%r failed", self, exc_info=error)
        await self._finish_in_loop()
        return True

    def effect(self, key: str, description: str = "") -> AsyncEffect:
        """As `Task.effect`: `async with task.effect("mail") as effect:`."""
        return AsyncEffect(self, key, description)

    async def renew(self) -> None:
        """Renews the lease. The client does so by itself."""
        self.check()
        await self._request_renewal()

    async def _request_renewal(self) -> None:
        line = (await self._request(self._renewal(), timeout=10.0)).line("renewed")
        if line is not None:
            self._see_lease(int(line["lease_until_micros"]))

    async def finish(self) -> None:
        """Records the result, at once. The block of the task does so by itself."""
        await self._send(None)

    async def _request(self, request: Mapping[str, Any], timeout: float = ANSWER_WAIT) -> Answer:
        try:
            flow = calling(request, patience=self._ledger._patience, timeout=timeout)
            return await self._ledger._drive(flow)
        except LeaseLost as lost:
            # While the receipt is recorded, the attempt ends by itself.
            if not self._is_reporting:
                self._lost = lost
            raise

    async def _send(self, following: Optional[Claim]) -> Optional[Mapping[str, Any]]:
        if self._is_over:
            return None
        self.check()
        report = self._report(following)
        self._is_reporting = True
        try:
            answer = await self._ledger._drive(reporting(report))
        except LeaseLost as lost:
            self._lost = lost
            raise
        except LedgerError:
            raise
        except BaseException:
            await self._finish_interrupted(report)
            raise
        finally:
            self._end()
        self.result = cast(Any, answer.line("receipt"))
        return answer.line("task")

    async def _finish_interrupted(self, report: Report) -> None:
        report.patience = 2.0
        try:
            task = (await self._ledger._drive(reporting(report))).line("task")
        except LedgerError:
            return
        if task is not None:
            await self._ledger._drive(releasing(str(task["token"]), False, "interrupted"))

    async def _finish_in_loop(self) -> None:
        following = next_claim(self, self._ledger._patience)
        try:
            task = await self._send(following)
        except LeaseLost:
            self._log_loss()
            return
        if task is not None and following is not None:
            self._following = AsyncTask(self._ledger, task, following, is_loop=True)

    def _log_loss(self) -> bool:
        log.warning("%r is lost: %s", self, self._lost)
        return True

    async def _give_up(self, reason: str, has_begun: bool = True) -> None:
        """Releases the attempt."""
        if not self._is_over and not self.is_lost:
            await self._ledger._drive(releasing(self.token, has_begun, reason))
        self._end()

    def _end(self) -> None:
        self._is_over = True
        self._ended.set()


async def _renew(reference: weakref.ref[AsyncTask], ended: asyncio.Event, interval: float) -> None:
    """Renews the lease of a task, and does not keep an abandoned one alive."""
    while True:
        try:
            await asyncio.wait_for(ended.wait(), interval)
            return
        except asyncio.TimeoutError:
            pass
        task = reference()
        if task is None or task.is_lost:
            return
        try:
            await task._request_renewal()
        except LeaseLost:
            if task.is_lost:
                task._log_loss()
            return
        except LedgerError as error:
            log.warning("the lease of %r is not renewed: %s", task, error)
        del task
