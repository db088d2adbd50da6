"""What the tasks of both clients share: the hand-off, the result, the receipt, and the flows that record them."""

from __future__ import annotations

import json
import logging
import math
import os
import socket
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterable, Mapping, Optional, Protocol, Sequence, cast

from ._flow import ANSWER_WAIT, OUTPUT_MAX, Answer, Claim, Flow, Report, calling, releasing, reporting
from .errors import Failure, LeaseLost, LedgerError, Rejected, Replan, failure_class

if TYPE_CHECKING:
    from .types import ReceiptLine, StepView, TaskLine

log = logging.getLogger("plan_ledger")

# How much of a traceback a receipt keeps.
_LOG_TAIL = 4096
# A member of an output that goes by file has at least this length.
_MEMBER_MIN = 64 << 10


def default_worker() -> str:
    """A name that tells machine and process."""
    return f"{socket.gethostname()}/{os.getpid()}"


class _Home(Protocol):
    """What a task needs of its ledger."""

    _files: Optional[Path]
    _patience: float

    def _new_task(self, line: Mapping[str, Any], claim: Claim, is_loop: bool) -> TaskBase: ...


class _Flag(Protocol):
    """An event of threads or of asyncio."""

    def set(self) -> None: ...


class TaskBase:
    """One attempt at a step."""

    # Ends the renewal of the lease. It belongs to a client.
    _ended: _Flag

    def __init__(self, home: _Home, line: Mapping[str, Any], claim: Claim, is_loop: bool) -> None:
        self.hand_off: TaskLine = cast("TaskLine", line)
        """The whole hand-off (`format/hand-off.md`)."""
        self.result: Optional[ReceiptLine] = None
        """The ledger's answer to the receipt, once it is recorded."""
        self._home = home
        self._claim = claim
        self._is_loop = is_loop
        self._following: Optional[TaskBase] = None
        self._receipt: Optional[dict[str, Any]] = None
        self._log_tail = ""
        self._is_over = False
        self._is_reporting = False
        self._lost: Optional[LeaseLost] = None
        self._lease_end = 0.0
        self._announced: set[str] = set()
        self._started = time.monotonic()
        self._see_lease(int(line["lease_until_micros"]))

    # The hand-off.

    @property
    def run(self) -> str:
        """The name of the run."""
        return self.hand_off["run"]

    @property
    def step(self) -> StepView:
        """The step as in the plan, with defaults filled in."""
        return self.hand_off["step"]

    @property
    def id(self) -> str:
        """The id of the step."""
        return self.hand_off["step"]["id"]

    @property
    def number(self) -> int:
        """The number of the step, which is fixed for the life of the run."""
        return self.hand_off["number"]

    @property
    def attempt(self) -> int:
        """The number of the attempt, from 1."""
        return self.hand_off["attempt"]

    @property
    def token(self) -> str:
        """The token of the attempt. It is a secret."""
        return self.hand_off["token"]

    @property
    def inputs(self) -> dict[str, Any]:
        """The values of the variables that the step reads."""
        if "inputs" in cast("dict[str, Any]", self.hand_off).get("omitted", []):
            raise LedgerError("the inputs are too long for a message: read each with `get`")
        return self.hand_off["inputs"]

    @property
    def idempotency_key(self) -> str:
        """The key to send with side effects."""
        return self.hand_off["idempotency_key"]

    @property
    def last_failure(self) -> Optional[str]:
        """Why the previous attempt failed."""
        return self.hand_off["last_failure"]

    @property
    def is_lost(self) -> bool:
        """Whether the ledger said that this attempt is over. The work no longer counts: stop it."""
        return self._lost is not None

    def check(self) -> None:
        """Raises `LeaseLost` if the attempt is over."""
        if self._lost is not None:
            raise self._lost

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.run}/{self.id} #{self.number}, attempt {self.attempt}>"

    # The result. It is sent when the block of the task ends.

    def done(
        self,
        output: Any = None,
        *,
        variables: Optional[Mapping[str, Any]] = None,
        artifacts: Iterable[str | os.PathLike[str]] = (),
        money: float = 0.0,
        tokens: int = 0,
        side_effects: Sequence[str] = (),
    ) -> None:
        """The step succeeded. `money` is in units of the currency, such as dollars.

        An output of more than 8 MiB goes by file: long members, or else the whole, are replaced by
        `{"artifact": PATH, "bytes": LENGTH}`, and the files are artifacts of the receipt.
        """
        paths = [os.fspath(path) for path in artifacts]
        self._receipt = {
            "outcome": "succeeded",
            "output": self._fitting(output, paths),
            "variables": dict(variables or {}),
            "artifacts": [{"path": path} for path in paths],
            "side_effects": list(side_effects),
            "cost": _cost(money, tokens),
        }

    def fail(
        self,
        message: str,
        failure: str | type[Failure] = "unknown",
        *,
        payload: Any = None,
        retry_after: Optional[float] = None,
        disposition: Optional[str] = None,
        money: float = 0.0,
        tokens: int = 0,
    ) -> None:
        """The step failed. `failure` is a class of failures, by its word or its exception.

        `retry_after` is in seconds, and is rounded up to whole ones.
        """
        word = failure if isinstance(failure, str) else failure.failure_class
        self._receipt = {
            "outcome": "failed", "class": word, "message": _encodable(message), "payload": payload,
            "disposition": disposition, "cost": _cost(money, tokens),
            **({} if retry_after is None else {"retry_after_seconds": max(0, math.ceil(retry_after))}),
        }

    def replan(self, reason: str, *, from_step: Optional[str] = None, kind: str = "replan") -> None:
        """The plan should change."""
        self._receipt = {
            "outcome": "replan_requested", "message": _encodable(reason), "from": from_step, "kind": kind,
        }

    def _end_with(self, error: BaseException) -> None:
        """An exception left the block of the task."""
        trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        self._log_tail = _encodable(trace)[-_LOG_TAIL:]
        if isinstance(error, Replan):
            self.replan(str(error), from_step=error.from_step, kind=error.kind)
            return
        message = str(error) if isinstance(error, Failure) else f"{type(error).__name__}: {error}"
        given = error if isinstance(error, Failure) else Failure()
        self.fail(message, failure_class(error), payload=given.payload, retry_after=given.retry_after)

    def _report(self, next_claim: Optional[Claim]) -> Report:
        """The receipt that is to be recorded. A block that ended without a result succeeded."""
        if self._receipt is None:
            self.done()
        lease_left = self._lease_end - time.time()
        return Report(
            token=self.token, receipt=self._receipt or {}, duration=time.monotonic() - self._started,
            log_tail=self._log_tail, next=next_claim, patience=max(self._claim.patience, lease_left),
        )

    # The lease.

    def _see_lease(self, until_micros: int) -> None:
        self._lease_end = until_micros / 1e6

    def _lease_seconds(self) -> float:
        """How long the lease lasts: as claimed, as planned, or as the clock says."""
        planned = cast("dict[str, Any]", self.hand_off["step"]).get("lease_seconds")
        stated = self._claim.lease or planned
        return float(stated) if stated else max(1.0, min(self._lease_end - time.time(), 60.0))

    def _renewal_interval(self) -> float:
        return max(0.2, min(self._lease_seconds() / 3, 300.0))

    def _renewing(self) -> Flow[None]:
        """Renews the lease. A renewal is quick: a server that does not answer soon is asked again."""
        request = {"act": "renew", "token": self.token, "lease_seconds": self._claim.lease}
        line = (yield from self._requesting(request, timeout=10.0)).line("renewed")
        if line is not None:
            self._see_lease(int(line["lease_until_micros"]))

    def _requesting(self, request: Mapping[str, Any], timeout: float = ANSWER_WAIT) -> Flow[Answer]:
        """Makes a request about the attempt."""
        try:
            return (yield from calling(request, patience=self._home._patience, timeout=timeout))
        except LeaseLost as lost:
            # While the receipt is recorded, the attempt ends by itself.
            if not self._is_reporting:
                self._lost = lost
            raise

    # The end of the attempt.

    def _leaving(self, error: Optional[BaseException]) -> Flow[bool]:
        """The block of the task ended. Returns whether its exception is handled."""
        if isinstance(error, LeaseLost) or (error is not None and self.is_lost):
            self._end()
            if self._is_loop and isinstance(error, Exception):
                self._log_loss()
                return True
            return False
        if error is not None and not isinstance(error, Exception):
            # KeyboardInterrupt, CancelledError, GeneratorExit: the worker ends, the step did not fail.
            yield from self._giving_up(type(error).__name__)
            return False
        if error is not None:
            self._end_with(error)
            if self._is_loop:
                log.warning("%r failed", self, exc_info=error)
        yield from self._finishing()
        return error is not None and self._is_loop

    def _finishing(self) -> Flow[None]:
        """Records the result, in a loop together with the claim of the next step."""
        if not self._is_loop:
            yield from self._sending(None)
            return
        following = _next_claim(self._claim, self._home._patience)
        try:
            line = yield from self._sending(following)
        except LeaseLost:
            self._log_loss()
            return
        if line is not None and following is not None:
            self._following = self._home._new_task(line, following, True)

    def _sending(self, following: Optional[Claim]) -> Flow[Optional[Mapping[str, Any]]]:
        """Records the receipt, and returns the next task, if there is one."""
        if self._is_over:
            return None
        self.check()
        report = self._report(following)
        self._is_reporting = True
        try:
            answer = yield from reporting(report)
        except LeaseLost as lost:
            self._lost = lost
            raise
        except (LedgerError, GeneratorExit):
            raise
        except BaseException:
            yield from _repeating(report)
            raise
        finally:
            self._end()
        self.result = cast(Any, answer.line("receipt"))
        return answer.line("task")

    def _giving_up(self, reason: str, has_begun: bool = True) -> Flow[None]:
        """Releases the attempt, if it is not over."""
        if not self._is_over and not self.is_lost:
            yield from releasing(self.token, has_begun, reason)
        self._end()

    def _log_loss(self) -> None:
        log.warning("%r is lost: %s", self, self._lost)

    def _end(self) -> None:
        self._is_over = True
        self._ended.set()

    # Outputs that are too long for a message.

    def _fitting(self, output: Any, paths: list[str]) -> Any:
        text = json.dumps(output, ensure_ascii=False, allow_nan=False)
        if len(text) <= OUTPUT_MAX // 4 or len(text.encode()) <= OUTPUT_MAX:
            return output
        if isinstance(output, dict):
            members = cast("dict[str, Any]", output)
            for number, (key, value) in enumerate(list(members.items())):
                part = json.dumps(value, ensure_ascii=False)
                if len(part) >= _MEMBER_MIN:
                    members = {**members, key: self._in_file(part, f"-{number}", paths)}
            text = json.dumps(members, ensure_ascii=False)
            if len(text.encode()) <= OUTPUT_MAX:
                return members
        return self._in_file(text, "", paths)

    def _in_file(self, text: str, suffix: str, paths: list[str]) -> dict[str, Any]:
        """Writes JSON into a durable file."""
        files = self._home._files
        if files is None:
            raise LedgerError("an output of more than 8 MiB goes by file: name a folder with `files=`")
        for folder in reversed([files, *files.parents]):
            folder.mkdir(mode=0o700, exist_ok=True)
        path = files.absolute() / f"{self.token.split('-')[0]}{suffix}.json"
        content = text.encode()
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        opened = os.open(files, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
        paths.append(str(path))
        return {"artifact": str(path), "bytes": len(content)}


class EffectBase:
    """A side effect. `is_done`: it happened already, in this or an earlier attempt; do not repeat it."""

    def __init__(self, task: TaskBase, key: str, description: str) -> None:
        self.key = key
        self.is_done = False
        self._task = task
        self._description = description

    def _recording(self, state: str) -> Flow[bool]:
        """Records the effect. Returns whether the ledger did not know it."""
        request = {"act": "effect", "token": self._task.token, "key": self.key, "state": state,
                   "effect": self._description}
        self._task.check()
        try:
            yield from self._task._requesting(request)
        except Rejected as error:
            if error.rejection != "effect_known":
                raise
            return False
        return True

    def _announcing(self) -> Flow[None]:
        """Before the block."""
        is_new = yield from self._recording("intended")
        self.is_done = not is_new and self.key not in self._task._announced
        self._task._announced.add(self.key)

    def _confirming(self, error: Optional[BaseException]) -> Flow[None]:
        """After the block."""
        if error is None and not self.is_done:
            yield from self._recording("committed")


def _encodable(text: str) -> str:
    """The text without lone surrogates, as names of files may contain them: a message cannot."""
    return text.encode(errors="backslashreplace").decode()


def _cost(money: float, tokens: int) -> dict[str, int]:
    return {"money_micros": round(money * 1e6), "tokens": tokens}


def _next_claim(claim: Claim, patience: float) -> Optional[Claim]:
    """The claim of the next step in the same commit. A lease of one's own cannot be stated there."""
    if claim.lease is not None or claim.run is None:
        return None
    return Claim(
        run=claim.run, worker=claim.worker, owners=claim.owners, tags=claim.tags, wait=claim.wait, patience=patience
    )


def _repeating(report: Report) -> Flow[None]:
    """An interrupt came while the receipt was sent: sends it again, shortly, and keeps no next step."""
    report.patience = 2.0
    try:
        task = (yield from reporting(report)).line("task")
    except LedgerError:
        return
    if task is not None:
        yield from releasing(str(task["token"]), False, "interrupted")
