"""The protocol without input and output: generators that yield what is to be done next.

A flow yields `Exchange` (send a request, return its answer), `Launch` (start a server if none runs), `Pause`
and `Blocking` (call a function that blocks), and returns its result. Both clients drive the same flows: one
blocks, the other is for asyncio. An exception of a step is thrown into the flow, also an interrupt.

Invariants:
- A request that was sent is repeated only under its key, and a repeated claim has its secret again.
- An answer that does not say whether the request was executed is no answer: the flow asks again.
"""

from __future__ import annotations

import json
import secrets
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Generator, Mapping, Optional, Sequence, TypeVar, Union

from .errors import LeaseLost, LedgerError, Rejected, Unavailable

T = TypeVar("T")

# The longest message, with its line end.
MESSAGE_MAX = 16 << 20
# The longest output that a receipt contains; a longer one goes by file.
OUTPUT_MAX = 8 << 20
# How long a request is repeated if nothing else is said, in seconds.
PATIENCE = 60.0
# How long one answer is waited for, in seconds.
ANSWER_WAIT = 60.0

# Kinds of errors after which the same request may succeed, at this server or at the next one.
RETRIED = frozenset({"busy", "locked", "no_owner", "outcome_unknown", "poisoned", "fenced", "disk_full", "io"})


class Lost(Exception):
    """The connection ended before the answer: the request may have been executed."""


class NoServer(Exception):
    """No server accepts connections."""


@dataclass(frozen=True)
class Answer:
    """The answer to a request: exit code, lines, and messages for people.

    acked_by: only if the log is in an object store: `store` if the store has everything that was recorded when the
    answer was made, `local` if it may lack some of it.
    """

    code: int
    lines: list[dict[str, Any]]
    said: list[str]
    acked_by: Optional[str] = None

    def line(self, word: str) -> Optional[dict[str, Any]]:
        """The first line of a type."""
        return next((line for line in self.lines if line.get("type") == word), None)


@dataclass(frozen=True)
class Exchange:
    """Send a request and return its answer; raises `Lost` or `NoServer`."""

    message: bytes
    key: str
    timeout: float


@dataclass(frozen=True)
class Launch:
    """Start a server if none runs."""


@dataclass(frozen=True)
class Pause:
    """Wait."""

    seconds: float


@dataclass(frozen=True)
class Blocking:
    """Call a function that blocks, and return its result."""

    call: Callable[[], Any]


Step = Union[Exchange, Launch, Pause, Blocking]
Flow = Generator[Step, Any, T]


def new_key() -> str:
    """A key, or a secret: 16 random bytes in hexadecimal."""
    return secrets.token_hex(16)


def error_of(line: Mapping[str, Any]) -> LedgerError:
    """The exception for an `error` line."""
    kind = LeaseLost if line.get("rejection") == "stale_token" else Rejected
    hint = line.get("hint")
    message = str(line.get("message", ""))
    return kind(message if hint is None else f"{message}\nhint: {hint}", line)


def encode(request: Mapping[str, Any]) -> bytes:
    """A request as a message without its line end."""
    try:
        message = json.dumps(request, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, UnicodeEncodeError) as error:
        raise Rejected(f"the request cannot be written as JSON: {error}") from error
    if len(message) >= MESSAGE_MAX:
        raise Rejected(f"the request has {len(message)} bytes; the limit is {MESSAGE_MAX}: use files")
    return message


def decode(message: bytes) -> Answer:
    """An answer; `Lost` if it is incomplete."""
    try:
        answer = json.loads(message)
        said, acked_by = list(answer.get("said", [])), answer.get("acked_by")
        return Answer(int(answer["code"]), list(answer["lines"]), said, acked_by)
    except (ValueError, KeyError, TypeError) as error:
        raise Lost(f"the answer cannot be read: {error}") from error


def calling(
    request: Mapping[str, Any],
    key: Optional[str] = None,
    *,
    patience: float = PATIENCE,
    timeout: float = ANSWER_WAIT,
) -> Flow[Answer]:
    """Sends a request until it is answered. Raises `Rejected`, `LeaseLost` or `Unavailable`."""
    key = key or new_key()
    message = encode({**request, "once": key})
    deadline = time.monotonic() + patience
    pause, number = 0.01, 0
    while True:
        try:
            answer: Answer = yield Exchange(message, key, timeout)
        except NoServer as error:
            reason = str(error)
            yield Launch()
        except Lost as error:
            reason = str(error)
        else:
            error_line = answer.line("error")
            if error_line is None:
                return answer
            if error_line.get("kind") not in RETRIED:
                raise error_of(error_line)
            reason = str(error_line.get("message", ""))
        if time.monotonic() >= deadline:
            raise Unavailable(f"the ledger did not answer within {patience:.0f} s: {reason}")
        # The connection may only have been idle for too long: ask again at once.
        if number > 0:
            yield Pause(pause)
            pause = min(pause * 1.5, 0.5)
        number += 1


@dataclass
class Claim:
    """A claim and its state: the same secret and key until it is answered with a step."""

    run: Optional[str] = None
    worker: str = ""
    step: Optional[str] = None
    owners: Sequence[str] = ()
    tags: Sequence[str] = ()
    lease: Optional[int] = None
    wait: Optional[float] = 0.0
    patience: float = PATIENCE
    key: str = field(default_factory=new_key)
    secret: str = field(default_factory=new_key)
    # Whether the ledger may have dispatched a step for it.
    is_open: bool = False

    def renew_key(self) -> None:
        """Begins another claim."""
        self.key, self.secret = new_key(), new_key()

    def request(self) -> dict[str, Any]:
        """The request, without its key."""
        return {
            "act": "claim", "run": self.run, "step": self.step, "worker": self.worker, "secret": self.secret,
            "lease_seconds": self.lease, "owners": list(self.owners), "tags": list(self.tags),
            "every_run": self.run is None and self.step is None,
        }


def claiming(claim: Claim) -> Flow[dict[str, Any]]:
    """Claims a step, and waits for one if the claim does: a `task` line, or else a `nothing` line."""
    deadline = None if claim.wait is None else time.monotonic() + claim.wait
    pause = 0.02
    while True:
        claim.is_open = True
        try:
            answer = yield from calling(claim.request(), claim.key, patience=claim.patience)
        except LeaseLost:
            # The step of this claim is over before its answer arrived: claim another one.
            claim.renew_key()
            continue
        task = answer.line("task")
        if task is not None:
            return task
        claim.is_open = False
        nothing = answer.line("nothing") or {}
        left = None if deadline is None else deadline - time.monotonic()
        if answer.code == 1 or (left is not None and left <= 0):
            return nothing
        yield Pause(pause if left is None else min(pause, max(left, 0.0)))
        pause = min(pause * 1.5, 0.5)


def abandoning(claim: Claim) -> Flow[None]:
    """Releases the step of a claim that was interrupted, if it got one."""
    if not claim.is_open:
        return
    try:
        answer = yield from calling(claim.request(), claim.key, patience=2.0, timeout=2.0)
        task = answer.line("task")
        if task is not None:
            yield from releasing(str(task["token"]), False, "the claim was interrupted")
    except LedgerError:
        # The lease ends the claim.
        pass


def releasing(token: str, has_begun: bool, reason: str) -> Flow[None]:
    """Releases an attempt. If that fails, its lease ends it."""
    request = {"act": "release", "token": token, "work": "begun" if has_begun else "not_begun", "reason": reason}
    try:
        yield from calling(request, patience=5.0, timeout=5.0)
    except LedgerError:
        pass


@dataclass
class Report:
    """A receipt that is to be recorded, and the next claim, if it is made in the same commit."""

    token: str
    receipt: dict[str, Any]
    duration: float = 0.0
    log_tail: str = ""
    next: Optional[Claim] = None
    patience: float = PATIENCE
    key: str = field(default_factory=new_key)

    def request(self) -> dict[str, Any]:
        """The request, without its key."""
        claim = self.next
        following = None if claim is None else {
            "worker": claim.worker, "secret": claim.secret, "owners": list(claim.owners), "tags": list(claim.tags),
        }
        return {
            "act": "receipt", "token": self.token, "receipt": self.receipt,
            "duration_micros": max(0, int(self.duration * 1e6)), "log_tail": self.log_tail, "next": following,
        }


def reporting(report: Report) -> Flow[Answer]:
    """Records a receipt. One that the ledger rejects for its content becomes a failure that says so."""
    try:
        return (yield from calling(report.request(), report.key, patience=report.patience))
    except Rejected as error:
        message = f"the receipt was rejected: {error}"
        failed = {"outcome": "failed", "class": "deterministic", "message": message[:2000]}
        report.receipt, report.key = failed, new_key()
        return (yield from calling(report.request(), report.key, patience=report.patience))
