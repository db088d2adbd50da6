"""Work on the steps of a plan-ledger.

>>> from plan_ledger import Ledger
>>> for task in Ledger().work("night"):
...     with task:
...         task.done(output=do(task))

`Ledger` blocks, `AsyncLedger` is for asyncio. Neither needs another package.
"""

from ._async import AsyncLedger, AsyncTask
from ._flow import Answer
from ._ledger import Effect, Ledger, Task
from .errors import (
    AssumptionBroken,
    BudgetExhausted,
    Deterministic,
    Failure,
    LeaseLost,
    LedgerError,
    NothingToDo,
    Rejected,
    Replan,
    Transient,
    Unavailable,
)

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "AssumptionBroken",
    "AsyncLedger",
    "AsyncTask",
    "BudgetExhausted",
    "Deterministic",
    "Effect",
    "Failure",
    "LeaseLost",
    "Ledger",
    "LedgerError",
    "NothingToDo",
    "Rejected",
    "Replan",
    "Task",
    "Transient",
    "Unavailable",
]
