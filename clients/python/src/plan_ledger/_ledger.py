"""The client that blocks."""

from __future__ import annotations

import logging
import os
import ssl
import threading
import time
import weakref
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Iterator, Mapping, Optional, Sequence, TypeVar, Union, cast

from . import _place
from ._flow import (
    ANSWER_WAIT, PATIENCE, Answer, Claim, Exchange, Flow, Launch, Lost, NoServer, Report, abandoning,
    calling, claiming, error_of, releasing, reporting,
)
from ._task import TaskBase, default_worker, next_claim
from ._transport import HttpTransport, SocketTransport, Transport
from .errors import LeaseLost, LedgerError, NothingToDo, Rejected, Unavailable

if TYPE_CHECKING:
    from .types import Plan, Request

log = logging.getLogger("plan_ledger")

T = TypeVar("T")
PlanSource = Union["Plan", Mapping[str, Any], str, "os.PathLike[str]"]


class LedgerBase:
    """What both clients share: the place of the ledger, and how it is reached."""

    def __init__(
        self,
        place: str | os.PathLike[str] | None = None,
        *,
        token: Optional[str] = None,
        program: Optional[str] = None,
        start: bool = True,
        patience: float = PATIENCE,
        files: str | os.PathLike[str] | None = None,
        context: Optional[ssl.SSLContext] = None,
    ) -> None:
        """Names a ledger, without connecting to it.

        place: its folder, or the URL of `ledger serve --http`; by default `LEDGER_DIR` or the nearest `.ledger`.
        token: the bearer token for a URL; by default `LEDGER_HTTP_TOKEN`.
        program: the program `ledger`, if a server is to be started and the program is not in `PATH`.
        start: whether a server is started if none runs.
        patience: how long a request is repeated while no server answers, in seconds.
        files: the folder for outputs that are too long for a message; by default in the ledger's folder.
        context: the settings of TLS for a URL.
        """
        self._patience = patience
        self._program = program
        self._folder: Optional[Path] = None
        self._launcher: Optional[_place.Launcher] = None
        self._http: Optional[HttpTransport] = None
        text = None if place is None else os.fspath(place)
        if text is not None and text.startswith(("http://", "https://")):
            self._http = HttpTransport(text, token or os.environ.get("LEDGER_HTTP_TOKEN"), context)
            self._transport: Transport = self._http
        else:
            self._folder = (_place.default_place() if text is None else Path(text)).absolute()
            self._transport = SocketTransport(self._folder)
            if start:
                self._launcher = _place.Launcher(self._folder, program)
        own = None if self._folder is None else self._folder / "work" / "outputs"
        self._files = own if files is None else Path(files)
        self._prepare()

    def _prepare(self) -> None:
        """What a client adds."""

    def _claim(
        self, run: Optional[str], step: Optional[str], worker: Optional[str], owners: Sequence[str],
        tags: Sequence[str], lease: Optional[float], wait: Optional[float],
    ) -> Claim:
        seconds = None if lease is None else max(1, round(lease))
        return Claim(
            run=run, step=step, worker=worker or default_worker(), owners=owners, tags=tags, lease=seconds,
            wait=wait, patience=self._patience,
        )

    def _plan_request(
        self, plan: PlanSource, run: Optional[str], reason: str, inputs: Optional[Mapping[str, Any]],
        policy: Optional[Mapping[str, Any]],
    ) -> dict[str, Any]:
        if not isinstance(plan, Mapping):
            import json

            path = Path(plan)
            run = run or path.stem
            if path.suffix == ".json":
                plan = cast("Mapping[str, Any]", json.loads(path.read_text()))
            else:
                raise Rejected(f"{path} is no JSON: propose it with `ledger plan propose`, or pass the plan itself")
        if run is None:
            raise ValueError("a plan that is no file needs the name of its run")
        return {
            "act": "propose", "run": run, "plan": dict(plan), "reason": reason, "inputs": dict(inputs or {}),
            **({} if policy is None else {"policy": dict(policy)}),
        }

    def _propose_by_program(self, plan: PlanSource, run: Optional[str], reason: str) -> Optional[str]:
        """The program reads plan files of every form."""
        if isinstance(plan, Mapping) or self._folder is None or Path(plan).suffix == ".json":
            return None
        words = ["plan", "propose", os.fspath(plan), *([] if run is None else ["--run", run])]
        line = _place.run_program(self._program, self._folder, [*words, *(["--reason", reason] if reason else [])])[-1]
        return _proposed_run(line, run or Path(plan).stem)

    def _read(self, path: Sequence[str], words: Sequence[str]) -> list[dict[str, Any]]:
        """A view: by its path over HTTP, or by the command that prints it. It needs no server."""
        if self._http is not None:
            try:
                return self._http.view(*path).lines
            except (Lost, NoServer) as error:
                raise Unavailable(str(error)) from error
        assert self._folder is not None
        lines = _place.run_program(self._program, self._folder, words)
        if lines[-1].get("type") == "error":
            raise error_of(lines[-1])
        return lines

    def _read_variable(self, name: str, run: str) -> Any:
        lines = self._read(("runs", run, "variables", name), ("get", name, "--run", run))
        value = next((line for line in lines if "value" in line), None)
        if value is None:
            raise LedgerError(f"the variable {name} of run {run} is not in the answer")
        return value["value"]

    def _read_steps(self, run: str) -> dict[str, str]:
        lines = self._read(("runs", run, "graph"), ("inspect", "graph", run))
        return {line["id"]: line["status"] for line in lines if line.get("type") == "node" and "status" in line}


def _proposed_run(line: Mapping[str, Any], run: str) -> str:
    """The run of a proposed plan. A plan that is active already needs no proposal."""
    if line.get("type") == "error" and line.get("rejection") != "same_plan":
        raise error_of(line)
    return str(line.get("run", run))


def _task_or_raise(line: Mapping[str, Any]) -> Mapping[str, Any]:
    if line.get("type") == "task":
        return line
    raise NothingToDo(str(line.get("message", "there is no step")), line)


class Ledger(LedgerBase):
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

    def _drive(self, flow: Flow[T]) -> T:
        """Does what a flow asks for."""
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
                    value = self._transport.exchange(step)
                elif isinstance(step, Launch):
                    if self._launcher is not None:
                        self._launcher.launch()
                else:
                    time.sleep(step.seconds)
            except (Lost, NoServer, LedgerError) as problem:
                error = problem

    def request(self, request: Request | Mapping[str, Any], key: Optional[str] = None) -> Answer:
        """Makes any request (`format/socket.md`), under a key of its own or the given one."""
        return self._drive(calling(cast("Mapping[str, Any]", request), key, patience=self._patience))

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
        if not inputs and policy is None:
            proposed = self._propose_by_program(plan, run, reason)
            if proposed is not None:
                return proposed
        request = self._plan_request(plan, run, reason, inputs, policy)
        try:
            return _proposed_run(self.request(request).lines[0], request["run"])
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
    ) -> Task:
        """Claims a step: of a run, or without one of any run. Raises `NothingToDo`.

        wait: how many seconds to wait for a step; None waits until there is one or the run has ended.
        """
        return self._claimed(self._claim(run, step, worker, owners, tags, lease, wait), is_loop=False)

    def _claimed(self, claim: Claim, *, is_loop: bool) -> Task:
        try:
            line = self._drive(claiming(claim))
        except BaseException:
            self._abandon(claim)
            raise
        return Task(self, _task_or_raise(line), claim, is_loop)

    def _abandon(self, claim: Claim) -> None:
        if claim.is_open:
            self._drive(abandoning(claim))

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
        task: Optional[Task] = None
        following: Optional[Task] = None
        try:
            while True:
                task, following = following, None
                if task is None:
                    claim = self._claim(run, None, worker, owners, tags, lease, wait)
                    try:
                        task = self._claimed(claim, is_loop=True)
                    except NothingToDo as nothing:
                        log.info("no more work: %s", nothing)
                        return
                yield task
                if not task._is_over:
                    # A body without `with` that came to its end.
                    task._finish_in_loop()
                following = task._following
        finally:
            if task is not None and not task._is_over:
                task._give_up("the loop ended")
            following = task._following if task is not None and following is None else following
            if following is not None and not following._is_over:
                following._give_up("the loop ended", has_begun=False)

    def get(self, name: str, run: str) -> Any:
        """The value of a variable."""
        return self._read_variable(name, run)

    def set(self, name: str, value: Any, run: Optional[str] = None, *, by: Optional[str] = None) -> None:
        """Sets a variable."""
        self.request({"act": "set", "run": run, "name": name, "value": value, "by": by or default_worker()})

    def note(self, text: str, run: Optional[str] = None, step: Optional[str] = None, *, by: Optional[str] = None) -> None:
        """Records a note about the ledger, a run or a step."""
        self.request({"act": "note", "run": run, "step": step, "text": text, "by": by or default_worker()})

    def steps(self, run: str) -> dict[str, str]:
        """The status of each step of the active plan."""
        return self._read_steps(run)


class Effect:
    """A side effect. `is_done`: it happened already, in this or an earlier attempt; do not repeat it."""

    def __init__(self, task: Task, key: str, description: str) -> None:
        self.key = key
        self.is_done = False
        self._task = task
        self._description = description

    def _record(self, state: str) -> bool:
        """Whether the ledger did not know it."""
        request = {"act": "effect", "token": self._task.token, "key": self.key, "state": state,
                   "effect": self._description}
        self._task.check()
        try:
            self._task._request(request)
        except Rejected as error:
            if error.rejection != "effect_known":
                raise
            return False
        return True

    def __enter__(self) -> Effect:
        is_new = self._record("intended")
        self.is_done = not is_new and self.key not in self._task._announced
        self._task._announced.add(self.key)
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        if error is None and not self.is_done:
            self._record("committed")


class Task(TaskBase):
    """One attempt at a step. Its lease is renewed in the background until it is reported."""

    def __init__(self, ledger: Ledger, line: Mapping[str, Any], claim: Claim, is_loop: bool) -> None:
        super().__init__(line, claim, ledger._files)
        self._ledger = ledger
        self._is_loop = is_loop
        self._following: Optional[Task] = None
        self._ended = threading.Event()
        _Renewal(self).start()

    def __enter__(self) -> Task:
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> bool:
        if error is None:
            self._finish_in_loop() if self._is_loop else self.finish()
            return False
        if isinstance(error, LeaseLost) or self.is_lost:
            self._end()
            return self._is_loop and isinstance(error, Exception) and self._log_loss()
        if not isinstance(error, Exception):
            # KeyboardInterrupt, SystemExit, GeneratorExit: the worker ends, the step did not fail.
            self._give_up(type(error).__name__)
            return False
        self._end_with(error)
        if not self._is_loop:
            self.finish()
            return False
        log.warning("%r failed", self, exc_info=error)
        self._finish_in_loop()
        return True

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
        self._request_renewal()

    def _request_renewal(self) -> None:
        # A renewal is quick: a server that does not answer soon is asked again.
        line = self._request(self._renewal(), timeout=10.0).line("renewed")
        if line is not None:
            self._see_lease(int(line["lease_until_micros"]))

    def finish(self) -> None:
        """Records the result, at once. The block of the task does so by itself."""
        self._send(None)

    def _request(self, request: Mapping[str, Any], timeout: float = ANSWER_WAIT) -> Answer:
        try:
            flow = calling(request, patience=self._ledger._patience, timeout=timeout)
            return self._ledger._drive(flow)
        except LeaseLost as lost:
            # While the receipt is recorded, the attempt ends by itself.
            if not self._is_reporting:
                self._lost = lost
            raise

    def _send(self, following: Optional[Claim]) -> Optional[Mapping[str, Any]]:
        """Records the receipt, and returns the next task, if there is one."""
        if self._is_over:
            return None
        self.check()
        report = self._report(following)
        self._is_reporting = True
        try:
            answer = self._ledger._drive(reporting(report))
        except LeaseLost as lost:
            self._lost = lost
            raise
        except LedgerError:
            raise
        except BaseException:
            self._finish_interrupted(report)
            raise
        finally:
            self._end()
        self.result = cast(Any, answer.line("receipt"))
        return answer.line("task")

    def _finish_interrupted(self, report: Report) -> None:
        """An interrupt came while the receipt was sent: send it again, shortly, and keep no next step."""
        report.patience = 2.0
        try:
            task = self._ledger._drive(reporting(report)).line("task")
        except LedgerError:
            return
        if task is not None:
            self._ledger._drive(releasing(str(task["token"]), False, "interrupted"))

    def _finish_in_loop(self) -> None:
        following = next_claim(self, self._ledger._patience)
        try:
            task = self._send(following)
        except LeaseLost:
            self._log_loss()
            return
        if task is not None and following is not None:
            self._following = Task(self._ledger, task, following, is_loop=True)

    def _log_loss(self) -> bool:
        log.warning("%r is lost: %s", self, self._lost)
        return True

    def _give_up(self, reason: str, has_begun: bool = True) -> None:
        """Releases the attempt."""
        if not self._is_over and not self.is_lost:
            self._ledger._drive(releasing(self.token, has_begun, reason))
        self._end()

    def _end(self) -> None:
        self._is_over = True
        self._ended.set()


class _Renewal(threading.Thread):
    """Renews the lease of a task. It ends with the task, and does not keep an abandoned one alive."""

    def __init__(self, task: Task) -> None:
        super().__init__(name=f"renew {task.token.split('-')[0]}", daemon=True)
        self._task = weakref.ref(task)
        self._ended = task._ended
        self._interval = task._renewal_interval()

    def run(self) -> None:
        while not self._ended.wait(self._interval):
            task = self._task()
            if task is None or task.is_lost:
                return
            try:
                task._request_renewal()
            except LeaseLost:
                if task.is_lost:
                    task._log_loss()
                return
            except LedgerError as error:
                log.warning("the lease of %r is not renewed: %s", task, error)
            del task
