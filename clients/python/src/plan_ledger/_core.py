"""What both clients share: the place of the ledger, and each request as a flow."""

from __future__ import annotations

import json
import logging
import os
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Generic, Mapping, Optional, Sequence, TypeVar, Union, cast

from . import _place
from ._flow import PATIENCE, Answer, Blocking, Claim, Flow, Lost, NoServer, abandoning, calling, claiming, error_of
from ._task import TaskBase, default_worker
from ._transport import HttpTransport, SocketTransport, Transport
from .errors import LedgerError, NothingToDo, Rejected, Unavailable

if TYPE_CHECKING:
    from .types import Plan, Request

log = logging.getLogger("plan_ledger")

TaskT = TypeVar("TaskT", bound=TaskBase)
PlanSource = Union["Plan", Mapping[str, Any], str, "os.PathLike[str]"]
RequestSource = Union["Request", Mapping[str, Any]]


class LedgerBase(Generic[TaskT]):
    """A ledger, and how it is reached."""

    def __init__(
        self,
        place: str | os.PathLike[str] | Sequence[str] | None = None,
        *,
        token: Optional[str] = None,
        program: Optional[str] = None,
        start: bool = True,
        patience: float = PATIENCE,
        files: str | os.PathLike[str] | None = None,
        context: Optional[ssl.SSLContext] = None,
    ) -> None:
        """Names a ledger, without connecting to it.

        place: its folder, or the URL of `ledger serve --http`, or a list of them (also as text, with commas): owner and
        standbys, of which the one that holds the ledger is found. By default `LEDGER_SERVER`, `LEDGER_DIR` or the
        nearest `.ledger`.
        token: the bearer token for a URL; by default `LEDGER_HTTP_TOKEN`. It is sent to these addresses alone.
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
        servers, folder = _place.servers_or_folder(place)
        if folder is None:
            self._http = HttpTransport(servers, token or os.environ.get("LEDGER_HTTP_TOKEN"), context)
            self._transport: Transport = self._http
        else:
            self._folder = folder.absolute()
            self._transport = SocketTransport(self._folder)
            if start:
                self._launcher = _place.Launcher(self._folder, program)
        own = None if self._folder is None else self._folder / "work" / "outputs"
        self._files = own if files is None else Path(files)

    def _new_task(self, line: Mapping[str, Any], claim: Claim, is_loop: bool) -> TaskT:
        """The task of a client."""
        raise NotImplementedError

    def _launch(self) -> None:
        if self._launcher is not None:
            self._launcher.launch()

    def _requesting(self, request: RequestSource, key: Optional[str] = None) -> Flow[Answer]:
        return calling(cast("Mapping[str, Any]", request), key, patience=self._patience)

    # Plans.

    def _proposing(
        self, plan: PlanSource, run: Optional[str], reason: str, inputs: Optional[Mapping[str, Any]],
        policy: Optional[Mapping[str, Any]],
    ) -> Flow[str]:
        if not isinstance(plan, Mapping):
            path = Path(plan)
            run = run or path.stem
            if path.suffix == ".json":
                plan = cast("Mapping[str, Any]", json.loads(path.read_text()))
            elif self._folder is not None and not inputs and policy is None:
                # The program reads plan files of every form.
                words = ["plan", "propose", str(path), "--run", run, *(["--reason", reason] if reason else [])]
                folder = self._folder
                lines = yield Blocking(lambda: _place.run_program(self._program, folder, words))
                return _proposed_run(lines[-1], run)
            else:
                raise Rejected(f"{path} is no JSON: propose it with `ledger plan propose`, or pass the plan itself")
        if run is None:
            raise ValueError("a plan that is no file needs the name of its run")
        request = {
            "act": "propose", "run": run, "plan": dict(plan), "reason": reason, "inputs": dict(inputs or {}),
            **({} if policy is None else {"policy": dict(policy)}),
        }
        try:
            answer = yield from self._requesting(request)
        except Rejected as error:
            return _proposed_run(error.line, run)
        return _proposed_run(answer.lines[0], run)

    # Claims.

    def _claim(
        self, run: Optional[str], step: Optional[str], worker: Optional[str], owners: Sequence[str],
        tags: Sequence[str], lease: Optional[float], wait: Optional[float],
    ) -> Claim:
        seconds = None if lease is None else max(1, round(lease))
        return Claim(
            run=run, step=step, worker=worker or default_worker(), owners=owners, tags=tags, lease=seconds,
            wait=wait, patience=self._patience,
        )

    def _taking(self, claim: Claim, *, is_loop: bool) -> Flow[TaskT]:
        """Claims a step. Raises `NothingToDo`."""
        try:
            line = yield from claiming(claim)
        except GeneratorExit:
            raise
        except BaseException:
            if claim.is_open:
                yield from abandoning(claim)
            raise
        if line.get("type") != "task":
            raise NothingToDo(str(line.get("message", "there is no step")), line)
        return self._new_task(line, claim, is_loop)

    # What is recorded, and what is read.

    def _setting(self, name: str, value: Any, run: Optional[str], by: Optional[str]) -> Flow[Answer]:
        return self._requesting({"act": "set", "run": run, "name": name, "value": value, "by": by or default_worker()})

    def _noting(self, text: str, run: Optional[str], step: Optional[str], by: Optional[str]) -> Flow[Answer]:
        return self._requesting({"act": "note", "run": run, "step": step, "text": text, "by": by or default_worker()})

    def _reading(self, path: Sequence[str], words: Sequence[str]) -> Flow[list[dict[str, Any]]]:
        """A view: by its path over HTTP, or by the command that prints it. It needs no server."""
        if self._http is not None:
            http = self._http
            try:
                answer: Answer = yield Blocking(lambda: http.view(*path))
            except (Lost, NoServer) as error:
                raise Unavailable(str(error)) from error
            return answer.lines
        assert self._folder is not None
        folder = self._folder
        lines: list[dict[str, Any]] = yield Blocking(lambda: _place.run_program(self._program, folder, words))
        if lines[-1].get("type") == "error":
            raise error_of(lines[-1])
        return lines

    def _reading_variable(self, name: str, run: str) -> Flow[Any]:
        lines = yield from self._reading(("runs", run, "variables", name), ("get", name, "--run", run))
        value = next((line for line in lines if "value" in line), None)
        if value is None:
            raise LedgerError(f"the variable {name} of run {run} is not in the answer")
        return value["value"]

    def _reading_steps(self, run: str) -> Flow[dict[str, str]]:
        lines = yield from self._reading(("runs", run, "graph"), ("inspect", "graph", run))
        return {line["id"]: line["status"] for line in lines if line.get("type") == "node" and "status" in line}


class Loop(Generic[TaskT]):
    """The tasks of `work`, one after the other."""

    def __init__(self, ledger: LedgerBase[TaskT], claim: Callable[[], Claim]) -> None:
        self._ledger = ledger
        self._claim = claim
        self._task: Optional[TaskT] = None

    def advancing(self) -> Flow[Optional[TaskT]]:
        """The next task; None if there is no more work."""
        task = self._task
        if task is not None:
            if not task._is_over:
                # A body without `with` that came to its end.
                yield from task._finishing()
            self._task = cast("Optional[TaskT]", task._following)
        if self._task is None:
            try:
                self._task = yield from self._ledger._taking(self._claim(), is_loop=True)
            except NothingToDo as nothing:
                log.info("no more work: %s", nothing)
        return self._task

    def ending(self) -> Flow[None]:
        """Releases what the loop still has."""
        if self._task is not None:
            yield from self._task._giving_up("the loop ended")
            if self._task._following is not None:
                yield from self._task._following._giving_up("the loop ended", has_begun=False)


def _proposed_run(line: Mapping[str, Any], run: str) -> str:
    """The run of a proposed plan. A plan that is active already needs no proposal."""
    if line.get("type") == "error" and line.get("rejection") != "same_plan":
        raise error_of(line)
    return str(line.get("run", run))
