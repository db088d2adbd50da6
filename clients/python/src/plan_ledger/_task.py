"""What the tasks of both clients share: the hand-off, the result, and the receipt."""

from __future__ import annotations

import json
import os
import socket
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterable, Mapping, Optional, Sequence, cast

from ._flow import OUTPUT_MAX, PATIENCE, Claim, Report
from .errors import Failure, LeaseLost, LedgerError, Replan, failure_class

if TYPE_CHECKING:
    from .types import ReceiptLine, StepView, TaskLine

# How much of a traceback a receipt keeps.
_LOG_TAIL = 4096
# A member of an output that goes by file has at least this length.
_MEMBER_MIN = 64 << 10


def default_worker() -> str:
    """A name that tells machine and process."""
    return f"{socket.gethostname()}/{os.getpid()}"


class TaskBase:
    """One attempt at a step."""

    def __init__(self, line: Mapping[str, Any], claim: Claim, files: Optional[Path]) -> None:
        self.hand_off: TaskLine = cast("TaskLine", line)
        """The whole hand-off (`format/hand-off.md`)."""
        self.result: Optional[ReceiptLine] = None
        """The ledger's answer to the receipt, once it is recorded."""
        self._claim = claim
        self._files = files
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
        """The step failed. `failure` is a class of failures, by its word or its exception."""
        word = failure if isinstance(failure, str) else failure.failure_class
        self._receipt = {
            "outcome": "failed", "class": word, "message": message, "payload": payload,
            "disposition": disposition, "cost": _cost(money, tokens),
            **({} if retry_after is None else {"retry_after_seconds": max(0, round(retry_after))}),
        }

    def replan(self, reason: str, *, from_step: Optional[str] = None, kind: str = "replan") -> None:
        """The plan should change."""
        self._receipt = {"outcome": "replan_requested", "message": reason, "from": from_step, "kind": kind}

    def _end_with(self, error: BaseException) -> None:
        """An exception left the block of the task."""
        self._log_tail = "".join(traceback.format_exception(type(error), error, error.__traceback__))[-_LOG_TAIL:]
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

    def _renewal(self) -> dict[str, Any]:
        return {"act": "renew", "token": self.token, "lease_seconds": self._claim.lease}

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
        if self._files is None:
            raise LedgerError("an output of more than 8 MiB goes by file: name a folder with `files=`")
        self._files.mkdir(parents=True, exist_ok=True)
        path = self._files.absolute() / f"{self.token.split('-')[0]}{suffix}.json"
        content = text.encode()
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        folder = os.open(self._files, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        paths.append(str(path))
        return {"artifact": str(path), "bytes": len(content)}


def _cost(money: float, tokens: int) -> dict[str, int]:
    return {"money_micros": round(money * 1e6), "tokens": tokens}


def next_claim(task: TaskBase, patience: float = PATIENCE) -> Optional[Claim]:
    """The claim of the next step in the same commit. A lease of one's own cannot be stated there."""
    claim = task._claim
    if claim.lease is not None or claim.run is None:
        return None
    return Claim(
        run=claim.run, worker=claim.worker, owners=claim.owners, tags=claim.tags, wait=claim.wait, patience=patience
    )
