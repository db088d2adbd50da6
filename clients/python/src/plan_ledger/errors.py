"""What can go wrong, and what a worker raises to say how a step failed."""

from __future__ import annotations

import asyncio
from typing import Any, Mapping, Optional


class LedgerError(Exception):
    """A request failed. `kind`, `rejection` and `exit_code` are those of the ledger's `error` line."""

    def __init__(self, message: str, line: Optional[Mapping[str, Any]] = None) -> None:
        super().__init__(message)
        self.line: Mapping[str, Any] = line or {}

    @property
    def kind(self) -> Optional[str]:
        """The kind of the error; None if no ledger answered."""
        kind = self.line.get("kind")
        return None if kind is None else str(kind)

    @property
    def rejection(self) -> Optional[str]:
        """The rule of the ledger that rejected the request, such as `stale_token`."""
        rejection = self.line.get("rejection")
        return None if rejection is None else str(rejection)

    @property
    def hint(self) -> Optional[str]:
        """The next action, for people; None if there is no particular one."""
        hint = self.line.get("hint")
        return None if hint is None else str(hint)

    @property
    def exit_code(self) -> Optional[int]:
        """The exit code that the command would have."""
        code = self.line.get("exit_code")
        return None if code is None else int(code)


class Rejected(LedgerError):
    """The ledger answered, and did not do what was asked."""


class Unavailable(LedgerError):
    """No server answered in time. The request may have been executed; its key was not answered."""


class NothingToDo(LedgerError):
    """No step can be dispatched. `line` is the `nothing` line: `status` of the run, `reason`, and more."""

    @property
    def is_over(self) -> bool:
        """Whether the run has ended, so that waiting is useless."""
        return self.line.get("reason") == "run_has_ended"


class LeaseLost(LedgerError):
    """The attempt is over: its lease expired, or its step was released or removed. Nothing that the
    worker still does counts, and another worker may have the step."""


class Failure(Exception):
    """Raise a subclass to say how a step failed; `retry_after` is in seconds."""

    failure_class = "unknown"

    def __init__(self, message: str = "", *, retry_after: Optional[float] = None, payload: Any = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.payload = payload


class Transient(Failure):
    """A retry may succeed."""

    failure_class = "transient"


class Deterministic(Failure):
    """A retry would fail in the same way."""

    failure_class = "deterministic"


class AssumptionBroken(Failure):
    """An assumption of the plan does not hold."""

    failure_class = "assumption_broken"


class BudgetExhausted(Failure):
    """Money, tokens or time ran out."""

    failure_class = "budget_exhausted"


class Replan(Exception):
    """Raise it if the plan should change. `kind` is `replan`, `new_evidence` or `scope_change`."""

    def __init__(self, reason: str, *, from_step: Optional[str] = None, kind: str = "replan") -> None:
        super().__init__(reason)
        self.from_step = from_step
        self.kind = kind


# Errors of programs: they occur again when the step is repeated.
_DETERMINISTIC = (
    ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, NameError,
    NotImplementedError, TypeError, ValueError,
)
_TRANSIENT = (OSError, TimeoutError, asyncio.TimeoutError)


def failure_class(error: BaseException) -> str:
    """The class of the failure that an exception means."""
    if isinstance(error, Failure):
        return error.failure_class
    if isinstance(error, _TRANSIENT):
        return "transient"
    if isinstance(error, _DETERMINISTIC):
        return "deterministic"
    return "unknown"
