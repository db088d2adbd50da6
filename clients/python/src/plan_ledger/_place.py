"""Where a ledger is, and the program that serves it.

A client that finds no server starts `ledger serve`. The server has a pipe to the client as its standard
input and ends with it, so a client that is killed leaves no process behind.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from pathlib import Path
from typing import IO, Any, Optional, Sequence, Union

from .errors import LedgerError, Unavailable

SOCKET_NAME = "serve.sock"
# The program has a second name, because another tool is also called `ledger`.
_NAMES = ("plan-ledger", "ledger")
# `sun_path` has 108 bytes on Linux and 104 on macOS.
_ADDRESS_MAX = 90


def default_place() -> Path:
    """`LEDGER_DIR`, or else the nearest `.ledger`, here or in a folder above, that belongs to this user."""
    named = os.environ.get("LEDGER_DIR")
    if named:
        return Path(named)
    here = Path.cwd()
    for folder in (here, *here.parents):
        found = folder / ".ledger"
        if found.is_dir() and (folder == here or found.stat().st_uid == os.getuid()):
            return found
    return here / ".ledger"


def servers_or_folder(place: Union[str, os.PathLike[str], Sequence[str], None]) -> tuple[list[str], Optional[Path]]:
    """The addresses of servers, or else a folder."""
    if place is None:
        place = os.environ.get("LEDGER_SERVER") or None
    if place is None:
        return [], default_place()
    if isinstance(place, (str, os.PathLike)):
        text = os.fspath(place)
        if not text.startswith(("http://", "https://")):
            return [], Path(text)
        place = text.split(",")
    return [url.strip() for url in place if url.strip()], None


def find_program(named: Optional[str]) -> list[str]:
    """The command that starts the program: as named, beside this Python, or in `PATH`."""
    named = named or os.environ.get("PLAN_LEDGER_PROGRAM")
    if named:
        return [named]
    scripts = [sysconfig.get_path("scripts"), str(Path(sys.executable).parent)]
    for name in _NAMES:
        for folder in scripts:
            path = Path(folder) / name
            if path.is_file() and os.access(path, os.X_OK):
                return [str(path)]
    for name in _NAMES:
        found = shutil.which(name)
        if found and (name != "ledger" or _is_ours(found)):
            return [found]
    raise Unavailable("the program `plan-ledger` is not installed: start `ledger serve`, or name the program")


def _is_ours(program: str) -> bool:
    """Whether a program called `ledger` is this one."""
    ended = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    return ended.stdout.startswith("plan-ledger ")


class SocketAddress:
    """The address of a ledger's socket. A long path is reached through the open folder."""

    def __init__(self, folder: Path) -> None:
        path = str(folder / SOCKET_NAME)
        self._open: Optional[int] = None
        if len(os.fsencode(path)) > _ADDRESS_MAX and Path("/proc/self/fd").is_dir():
            self._open = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            path = f"/proc/self/fd/{self._open}/{SOCKET_NAME}"
        self.path = path

    def close(self) -> None:
        """Closes the folder; the connection stays."""
        if self._open is not None:
            os.close(self._open)


class Launcher:
    """Starts a server of a ledger, again if it ended, and stops it."""

    def __init__(self, folder: Path, program: Optional[str]) -> None:
        self._folder = folder
        self._program = program
        self._process: Optional[subprocess.Popen[bytes]] = None
        self._messages: Optional[IO[bytes]] = None
        self._started = 0.0
        self._owner = os.getpid()
        self._lock = threading.Lock()

    def launch(self) -> None:
        """Starts a server unless one is starting. Raises `LedgerError` if there is nothing to serve."""
        with self._lock:
            if self._process is not None and self._owner == os.getpid():
                if self._process.poll() is None:
                    return
                self._expect_useful_end(self._process)
                # Another server may have the lock: leave it some time.
                if time.monotonic() - self._started < 0.2:
                    return
            self._start()

    def _start(self) -> None:
        self._discard()
        self._messages = tempfile.TemporaryFile()
        command = [*find_program(self._program), "serve", "--ledger", str(self._folder), "--until-eof"]
        # In a session of its own: Ctrl-C is for the worker, which still has to release its step.
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=self._messages,
            start_new_session=True,
        )
        self._started = time.monotonic()
        self._owner = os.getpid()

    def _expect_useful_end(self, process: subprocess.Popen[bytes]) -> None:
        """A server ends with 5 if another process has the lock, and is killed by a signal: both are no
        reason to give up."""
        code = process.returncode
        if code in (0, 5) or code < 0:
            return
        message = ""
        if self._messages is not None:
            self._messages.seek(0)
            message = self._messages.read().decode(errors="replace").strip()
        raise LedgerError(f"the server of {self._folder} ended with exit code {code}: {message}")

    def _discard(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
        if self._messages is not None:
            self._messages.close()

    def stop(self) -> None:
        """Ends the server, if this process started it."""
        with self._lock:
            process, self._process = self._process, None
            if process is None or self._owner != os.getpid():
                return
            if process.stdin is not None:
                process.stdin.close()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.terminate()
                process.wait()
            if self._messages is not None:
                self._messages.close()


def run_program(program: Optional[str], folder: Path, words: Sequence[str]) -> list[Any]:
    """Runs one command of the program, and returns its JSON lines."""
    import json

    command = [*find_program(program), *words, "--ledger", str(folder), "--json"]
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    lines = [json.loads(line) for line in ended.stdout.splitlines() if line.strip()]
    if not lines:
        raise LedgerError(f"`{' '.join(words)}` ended with exit code {ended.returncode}: {ended.stderr.strip()}")
    return lines
