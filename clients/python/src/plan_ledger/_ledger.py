"""The client that blocks."""

from __future__ import annotations

import inspect
import logging
import threading
import time
import weakref
from types import TracebackType
from typing import Any, Iterator, Mapping, Optional, Sequence, TypeVar, cast

from ._core import LedgerBase, Loop, PlanSource, RequestSource
from ._flow import Answer, Blocking, Claim, Exchange, Flow, Launch, Step
from ._task import EffectBase, TaskBase
from .errors import LeaseLost, LedgerError

log = logging.getLogger("plan_ledger")

T = TypeVar("T")


class Ledger(LedgerBase["Task"]):
    """A ledger. It may be used by several threads at once.

    >>> ledger = Ledger("./.ledger")
    >>> for task in ledger.work("night"):
    ...     with task:
    ...         task.done({"rows": len(fetch(task.inputs["url"]))})
    """

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections, and ends the server if this object started it."""
        self._transport.close()
        if self._launcher is not None:
            self._launcher.stop()

    def _new_task(self, line: Mapping[str, Any], claim: Claim, is_loop: bool) -> Task:
        return Task(self, line, claim, is_loop)

    def _drive(self, flow: Flow[T]) -> T:
        """Does what a flow asks for, and returns its result."""
        value: Any = None
        error: Optional[BaseException] = None
        while True:
            try:
                step = flow.send(value) if error is None else flow.throw(error)
                error = None
                value = self._perform(step)
            except StopIteration as end:
                return cast(T, end.value)
            except BaseException as problem:
                if inspect.getgeneratorstate(flow) == inspect.GEN_CLOSED:
                    raise
                value, error = None, problem

    def _perform(self, step: Step) -> Any:
        if isinstance(step, Exchange):
            return self._transport.exchange(step)
        if isinstance(step, Blocking):
            return step.call()
        if isinstance(step, Launch):
            return self._launch()
        return time.sleep(step.seconds)

    def request(self, request: RequestSource, key: Optional[str] = None) -> Answer:
        """Makes any request (`format/socket.md`), under a key of its own or the given one."""
        return self._drive(self._requesting(request, key))

    def propose(
        self,
        plan: PlanSource,
        run: Optional[str] = None,
        *,
        reason: str = "",
        inputs: Optional[Mapping[str, Any]] = None,
        policy: Optional[Mapping[str, Any]] = None,
    ) -> str:
        """Starts a run of a plan, or proposes the next version of a run's plan; returns the run's name.

        A plan that is active already is not proposed again.
        """
        return self._drive(self._proposing(plan, run, reason, inputs, policy))

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
    ) -> Task:
        """Claims a step: of a run, or without one of any run. Raises `NothingToDo`.

        wait: how many seconds to wait for a step; None waits until there is one or the run has ended.
        """
        return self._drive(self._taking(self._claim(run, step, worker, owners, tags, lease, wait), is_loop=False))

    def work(
        self,
        run: Optional[str] = None,
        *,
        worker: Optional[str] = None,
        owners: Sequence[str] = (),
        tags: Sequence[str] = (),
        lease: Optional[float] = None,
        wait: Optional[float] = None,
    ) -> Iterator[Task]:
        """The steps of a run, or of all runs, one after the other, until the run has ended.

        Use each as `with task:`. A receipt and the next claim are one commit. An exception of the block
        becomes a failed receipt and is logged, and the loop continues with the next step.
        wait: how many seconds to wait when no step is ready; None waits until the run has ended.
        """
        loop = Loop(self, lambda: self._claim(run, None, worker, owners, tags, lease, wait))
        try:
            while (task := self._drive(loop.advancing())) is not None:
                yield task
        finally:
            self._drive(loop.ending())

    def get(self, name: str, run: str) -> Any:
        """The value of a variable."""
        return self._drive(self._reading_variable(name, run))

    def set(self, name: str, value: Any, run: Optional[str] = None, *, by: Optional[str] = None) -> None:
        """Sets a variable."""
        self._drive(self._setting(name, value, run, by))

    def note(self, text: str, run: Optional[str] = None, step: Optional[str] = None, *, by: Optional[str] = None) -> None:
        """Records a note about the ledger, a run or a step."""
        self._drive(self._noting(text, run, step, by))

    def steps(self, run: str) -> dict[str, str]:
        """The status of each step of the active plan."""
        return self._drive(self._reading_steps(run))


class Effect(EffectBase):
    """A side effect. `is_done`: it happened already, in this or an earlier attempt; do not repeat it."""

    def __init__(self, task: Task, key: str, description: str) -> None:
        super().__init__(task, key, description)
        self._drive = task._ledger._drive

    def __enter__(self) -> Effect:
        self._drive(self._announcing())
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self._drive(self._confirming(error))


class Task(TaskBase):
    """One attempt at a step. Its lease is renewed in the background until it is reported."""

    def __init__(self, ledger: Ledger, line: Mapping[str, Any], claim: Claim, is_loop: bool) -> None:
        super().__init__(ledger, line, claim, is_loop)
        self._ledger = ledger
        self._ended = ended = threading.Event()
        _Renewal(self, ended).start()

    def __enter__(self) -> Task:
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> bool:
        return self._ledger._drive(self._leaving(error))

    def effect(self, key: str, description: str = "") -> Effect:
        """A side effect: announced when the block begins, confirmed when it ends without an exception.

        >>> with task.effect("mail") as effect:
        ...     if not effect.is_done:
        ...         send(key=task.idempotency_key)
        """
        return Effect(self, key, description)

    def renew(self) -> None:
        """Renews the lease. The client does so by itself."""
        self.check()
        self._ledger._drive(self._renewing())

    def finish(self) -> None:
        """Records the result, at once. The block of the task does so by itself."""
        self._ledger._drive(self._sending(None))


class _Renewal(threading.Thread):
    """Renews the lease of a task. It ends with the task, and does not keep an abandoned one alive."""

    def __init__(self, task: Task, ended: threading.Event) -> None:
        super().__init__(name=f"renew {task.token.split('-')[0]}", daemon=True)
        self._task = weakref.ref(task)
        self._ended = ended
        self._interval = task._renewal_interval()

    def run(self) -> None:
        while not self._ended.wait(self._interval):
            task = self._task()
            if task is None or task.is_lost:
                return
            try:
                task._ledger._drive(task._renewing())
            except LeaseLost:
                if task.is_lost:
                    task._log_loss()
                return
            except LedgerError as error:
                log.warning("the lease of %r is not renewed: %s", task, error)
            del task
