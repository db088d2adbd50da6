"""Connections that block: the socket of a ledger, or HTTP."""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
import threading
import time
from pathlib import Path
from typing import Any, Optional, Protocol, Sequence
from urllib.parse import quote, urlsplit

from ._flow import PATIENCE, RETRIED, Answer, Exchange, Lost, NoServer, decode, error_of
from ._place import SocketAddress
from .errors import Rejected


class Transport(Protocol):
    """Sends requests. It may be used by several threads at once."""

    def exchange(self, exchange: Exchange) -> Answer:
        """Sends a request and reads its answer; raises `Lost` or `NoServer`."""
        ...

    def close(self) -> None:
        """Closes all connections."""


class SocketTransport:
    """Connections to the socket in a ledger's folder; idle ones are kept."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._idle: list[socket.socket] = []
        self._lock = threading.Lock()
        self._owner = os.getpid()

    def _take(self, timeout: float) -> socket.socket:
        with self._lock:
            if self._owner != os.getpid():
                # The connections belong to the parent process.
                self._idle, self._owner = [], os.getpid()
            connection = self._idle.pop() if self._idle else None
        if connection is None:
            connection = self._connect()
        connection.settimeout(timeout)
        return connection

    def _connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            address = SocketAddress(self._folder)
            try:
                connection.settimeout(10)
                connection.connect(address.path)
            finally:
                address.close()
        except OSError as error:
            connection.close()
            raise NoServer(f"no server at {self._folder}: {error}") from error
        return connection

    def exchange(self, exchange: Exchange) -> Answer:
        connection = self._take(exchange.timeout)
        try:
            connection.sendall(exchange.message + b"\n")
            answer = decode(_read_line(connection))
        except OSError as error:
            connection.close()
            raise Lost(f"the connection ended: {error}") from error
        except BaseException:
            connection.close()
            raise
        with self._lock:
            self._idle.append(connection)
        return answer

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


def _read_line(connection: socket.socket) -> bytes:
    """One message. The server sends nothing after it."""
    parts: list[bytes] = []
    while True:
        part = connection.recv(1 << 16)
        if not part:
            raise Lost("the connection ended before the answer")
        parts.append(part)
        if part.endswith(b"\n"):
            return b"".join(parts)


class Moved(Exception):
    """Another server holds the ledger: its address, which is empty if the answer names none."""


def _origin(url: str) -> Optional[tuple[str, str, int]]:
    """Scheme, host and port of an address; None if it is none of HTTP."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if parts.hostname is None or parts.scheme not in ("http", "https"):
        return None
    return parts.scheme, parts.hostname.lower(), port or (443 if parts.scheme == "https" else 80)


class _Server:
    """Connections to one server over HTTP; idle ones are kept."""

    def __init__(self, url: str, token: Optional[str], context: Optional[ssl.SSLContext]) -> None:
        parts = urlsplit(url)
        origin = _origin(url)
        if origin is None or parts.hostname is None:
            raise ValueError(f"not the address of a server: {url}")
        self.url, self.origin = url, origin
        self._host, self._port = parts.hostname, parts.port
        self._prefix = parts.path.rstrip("/")
        self._context = (context or ssl.create_default_context()) if parts.scheme == "https" else None
        self._token = token
        self._idle: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()
        self._owner = os.getpid()

    def _take(self, timeout: float, connect_wait: float) -> http.client.HTTPConnection:
        with self._lock:
            if self._owner != os.getpid():
                self._idle, self._owner = [], os.getpid()
            connection = self._idle.pop() if self._idle else None
        if connection is None:
            wait = min(timeout, connect_wait)
            if self._context is not None:
                connection = http.client.HTTPSConnection(self._host, self._port, timeout=wait, context=self._context)
            else:
                connection = http.client.HTTPConnection(self._host, self._port, timeout=wait)
            try:
                connection.connect()
            except OSError as error:
                connection.close()
                raise NoServer(f"no server at {self._host}:{connection.port}: {error}") from error
        if connection.sock is not None:
            connection.sock.settimeout(timeout)
        return connection

    def ask(self, method: str, path: str, body: Optional[bytes], timeout: float, connect_wait: float) -> Answer:
        """Sends a request and reads its answer; raises `Lost`, `NoServer` or `Moved`."""
        connection = self._take(timeout, connect_wait)
        headers = {"Accept": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        if body is not None:
            headers["Content-Type"] = "application/json"
        try:
            connection.request(method, self._prefix + path, body, headers)
            response = connection.getresponse()
            status, content, location = response.status, response.read(), response.getheader("Location")
            # A head that was cut off parses as a complete one without this header, which the server always sends.
            if response.getheader("Content-Length") != str(len(content)):
                raise Lost("the connection ended inside the answer")
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise Lost(f"the connection ended: {error!r}") from error
        except BaseException:
            connection.close()
            raise
        if response.will_close:
            connection.close()
        else:
            with self._lock:
                self._idle.append(connection)
        if 300 <= status < 400:
            raise Moved(location or "")
        return read_response(status, content)

    def close(self) -> None:
        """Closes all connections."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


class HttpTransport:
    """Servers over HTTP, one of which holds the ledger. The token and the requests go to these addresses alone."""

    def __init__(self, urls: Sequence[str], token: Optional[str], context: Optional[ssl.SSLContext]) -> None:
        self._servers = [_Server(url, token, context) for url in urls]
        if not self._servers:
            raise ValueError("there is no address of a server")
        # The server that is asked next.
        self._next = 0

    def _ask(self, method: str, path: str, body: Optional[bytes], timeout: float) -> Answer:
        """Asks the next server, and the one that it names. After a failure another one is next."""
        several = len(self._servers) > 1
        # A machine that is gone answers nothing: another one may hold the ledger by then.
        wait, connect_wait = (min(timeout, 10.0), 2.0) if several else (timeout, timeout)
        reason = "none of the servers holds the ledger"
        for _ in range(len(self._servers) + 1):
            number = self._next
            server = self._servers[number]
            others = (number + 1) % len(self._servers)
            try:
                answer = server.ask(method, path, body, wait, connect_wait)
            except Moved as moved:
                origin = _origin(str(moved))
                found = next((at for at, each in enumerate(self._servers) if each.origin == origin), None)
                if found is None:
                    self._next = others
                    raise Lost(
                        f"{server.url} says that {moved} holds the ledger, which is not in the list of addresses, so it "
                        "gets neither the token nor the request"
                    ) from None
                self._next = found
                continue
            except (Lost, NoServer):
                self._next = others
                raise
            error = answer.line("error")
            if error is not None and error.get("kind") in RETRIED:
                self._next = others
            return answer
        raise Lost(reason)

    def exchange(self, exchange: Exchange) -> Answer:
        # The key is a member of the request already.
        return self._ask("POST", "/v1/requests", exchange.message, exchange.timeout)

    def view(self, *path: str) -> Answer:
        """A view by its path, such as `runs`, `night`, `state`; it may be asked for again."""
        several = len(self._servers) > 1
        deadline = time.monotonic() + (PATIENCE if several else 0.0)
        asked = 0
        while True:
            asked += 1
            may_repeat = asked < 3 or time.monotonic() < deadline
            try:
                answer = self._ask("GET", "/v1/" + "/".join(quote(part, safe="") for part in path), None, 60)
            except Lost:
                if not may_repeat:
                    raise
            except NoServer:
                if not several or not may_repeat:
                    raise
            else:
                error = answer.line("error")
                if error is None:
                    return answer
                if not several or not may_repeat or error.get("kind") not in RETRIED:
                    raise error_of(error)
            if asked >= 3:
                time.sleep(0.2)

    def close(self) -> None:
        for server in self._servers:
            server.close()


def read_response(status: int, content: bytes) -> Answer:
    """The answer in a response; a problem becomes an `error` line, as on the socket."""
    if status in (200, 201):
        return decode(content)
    try:
        problem: Any = json.loads(content)
        line = {
            "type": "error", "kind": problem["kind"], "rejection": problem.get("rejection"),
            "message": problem.get("detail") or problem.get("title") or "", "hint": problem.get("hint"),
            "exit_code": 7 if problem.get("exit_code") is None else problem["exit_code"],
        }
    except (ValueError, KeyError, TypeError) as error:
        if status >= 500 or status in (408, 429):
            raise Lost(f"HTTP status {status}") from error
        raise Rejected(f"HTTP status {status}: {content[:500].decode(errors='replace')}") from error
    return Answer(int(line["exit_code"] or 0), [line], [str(line["message"])])
