"""The client for asyncio: the same flows and the same rules as the one that blocks."""

from __future__ import annotations

import asyncio
import inspect
import logging
import weakref
from pathlib import Path
from types import TracebackType
from typing import Any, AsyncIterator, Generator, Mapping, Optional, Sequence, TypeVar, cast

from ._core import LedgerBase, Loop, PlanSource, RequestSource
from ._flow import MESSAGE_MAX, Answer, Blocking, Claim, Exchange, Flow, Launch, Lost, NoServer, Step, decode
from ._place import SocketAddress
from ._task import EffectBase, TaskBase
from .errors import LeaseLost, LedgerError

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


class AsyncLedger(LedgerBase["AsyncTask"]):
    """A ledger, for asyncio. The arguments are those of `Ledger`.

    >>> ledger = AsyncLedger("./.ledger")
    >>> async for task in ledger.work("night"):
    ...     async with task:
    ...         task.done(await fetch(task.inputs["url"]))
    """

    _socket: Optional[_AsyncSocket] = None

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

    def _new_task(self, line: Mapping[str, Any], claim: Claim, is_loop: bool) -> AsyncTask:
        return AsyncTask(self, line, claim, is_loop)

    async def _drive(self, flow: Flow[T]) -> T:
        """As `Ledger._drive`."""
        value: Any = None
        error: Optional[BaseException] = None
        while True:
            try:
                step = flow.send(value) if error is None else flow.throw(error)
                error = None
                value = await self._perform(step)
            except StopIteration as end:
                return cast(T, end.value)
            except BaseException as problem:
                if inspect.getgeneratorstate(flow) == inspect.GEN_CLOSED:
                    raise
                value, error = None, problem

    async def _perform(self, step: Step) -> Any:
        if isinstance(step, Exchange):
            if self._folder is None:
                # HTTP without another package blocks: it has a thread.
                return await asyncio.to_thread(self._transport.exchange, step)
            if self._socket is None:
                self._socket = _AsyncSocket(self._folder)
            return await self._socket.exchange(step)
        if isinstance(step, Blocking):
            return await asyncio.to_thread(step.call)
        if isinstance(step, Launch):
            return self._launch()
        return await asyncio.sleep(step.seconds)

    async def request(self, request: RequestSource, key: Optional[str] = None) -> Answer:
        """Makes any request (`format/socket.md`), under a key of its own or the given one."""
        return await self._drive(self._requesting(request, key))

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
        return await self._drive(self._proposing(plan, run, reason, inputs, policy))

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
        loop = Loop(self, lambda: self._claim(run, None, worker, owners, tags, lease, wait))
        try:
            while (task := await self._drive(loop.advancing())) is not None:
                yield task
        finally:
            await self._drive(loop.ending())

    async def get(self, name: str, run: str) -> Any:
        """The value of a variable."""
        return await self._drive(self._reading_variable(name, run))

    async def set(self, name: str, value: Any, run: Optional[str] = None, *, by: Optional[str] = None) -> None:
        """Sets a variable."""
        await self._drive(self._setting(name, value, run, by))

    async def note(
        self, text: str, run: Optional[str] = None, step: Optional[str] = None, *, by: Optional[str] = None
    ) -> None:
        """Records a note about the ledger, a run or a step."""
        await self._drive(self._noting(text, run, step, by))

    async def steps(self, run: str) -> dict[str, str]:
        """The status of each step of the active plan."""
        return await self._drive(self._reading_steps(run))


class _Claiming:
    """A claim that is made when it is awaited, or when its block begins."""

    def __init__(self, ledger: AsyncLedger, claim: Claim) -> None:
        self._ledger = ledger
        self._claim = claim
        self._task: Optional[AsyncTask] = None

    def __await__(self) -> Generator[Any, None, AsyncTask]:
        return self._ledger._drive(self._ledger._taking(self._claim, is_loop=False)).__await__()

    async def __aenter__(self) -> AsyncTask:
        self._task = await self
        return self._task

    async def __aexit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> bool:
        assert self._task is not None
        return await self._task.__aexit__(kind, error, trace)


class AsyncEffect(EffectBase):
    """As `Effect`: `async with task.effect("mail") as effect:`."""

    def __init__(self, task: AsyncTask, key: str, description: str) -> None:
        super().__init__(task, key, description)
        self._drive = task._ledger._drive

    async def __aenter__(self) -> AsyncEffect:
        await self._drive(self._announcing())
        return self

    async def __aexit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        await self._drive(self._confirming(error))


class AsyncTask(TaskBase):
    """One attempt at a step. Its lease is renewed by an asyncio task until it is reported."""

    def __init__(self, ledger: AsyncLedger, line: Mapping[str, Any], claim: Claim, is_loop: bool) -> None:
        super().__init__(ledger, line, claim, is_loop)
        self._ledger = ledger
        self._ended = ended = asyncio.Event()
        renewal = _renew(weakref.ref(self), ended, self._renewal_interval())
        self._renewal = asyncio.ensure_future(renewal)

    async def __aenter__(self) -> AsyncTask:
        return self

    async def __aexit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> bool:
        return await self._ledger._drive(self._leaving(error))

    def effect(self, key: str, description: str = "") -> AsyncEffect:
        """As `Task.effect`: `async with task.effect("mail") as effect:`."""
        return AsyncEffect(self, key, description)

    async def renew(self) -> None:
        """Renews the lease. The client does so by itself."""
        self.check()
        await self._ledger._drive(self._renewing())

    async def finish(self) -> None:
        """Records the result, at once. The block of the task does so by itself."""
        await self._ledger._drive(self._sending(None))


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
            await task._ledger._drive(task._renewing())
        except LeaseLost:
            if task.is_lost:
                task._log_loss()
            return
        except LedgerError as error:
            log.warning("the lease of %r is not renewed: %s", task, error)
        del task
