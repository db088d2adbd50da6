"""Connections that block: the socket of a ledger, or HTTP."""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
import threading
from pathlib import Path
from typing import Any, Optional, Protocol
from urllib.parse import quote, urlsplit

from ._flow import Answer, Exchange, Lost, NoServer, decode, error_of
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


class HttpTransport:
    """Connections over HTTP; idle ones are kept."""

    def __init__(self, url: str, token: Optional[str], context: Optional[ssl.SSLContext]) -> None:
        parts = urlsplit(url)
        if parts.hostname is None or parts.scheme not in ("http", "https"):
            raise ValueError(f"not the address of a server: {url}")
        self._host, self._port = parts.hostname, parts.port
        self._prefix = parts.path.rstrip("/")
        self._context = (context or ssl.create_default_context()) if parts.scheme == "https" else None
        self._token = token
        self._idle: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()
        self._owner = os.getpid()

    def _take(self, timeout: float) -> http.client.HTTPConnection:
        with self._lock:
            if self._owner != os.getpid():
                self._idle, self._owner = [], os.getpid()
            connection = self._idle.pop() if self._idle else None
        if connection is not None:
            if connection.sock is not None:
                connection.sock.settimeout(timeout)
            return connection
        if self._context is not None:
            connection = http.client.HTTPSConnection(self._host, self._port, timeout=timeout, context=self._context)
        else:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=timeout)
        try:
            connection.connect()
        except OSError as error:
            connection.close()
            raise NoServer(f"no server at {self._host}:{connection.port}: {error}") from error
        return connection

    def _ask(self, method: str, path: str, body: Optional[bytes], timeout: float) -> Answer:
        connection = self._take(timeout)
        headers = {"Accept": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        if body is not None:
            headers["Content-Type"] = "application/json"
        try:
            connection.request(method, self._prefix + path, body, headers)
            response = connection.getresponse()
            status, content = response.status, response.read()
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
        return read_response(status, content)

    def exchange(self, exchange: Exchange) -> Answer:
        # The key is a member of the request already.
        return self._ask("POST", "/v1/requests", exchange.message, exchange.timeout)

    def view(self, *path: str) -> Answer:
        """A view by its path, such as `runs`, `night`, `state`; it may be asked for again."""
        for last in (False, False, True):
            try:
                answer = self._ask("GET", "/v1/" + "/".join(quote(part, safe="") for part in path), None, 60)
            except Lost:
                if last:
                    raise
                continue
            error = answer.line("error")
            if error is not None:
                raise error_of(error)
            return answer
        raise AssertionError("unreachable")

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


def read_response(status: int, content: bytes) -> Answer:
    """The answer in a response; a problem becomes an `error` line, as on the socket."""
    if status in (200, 201):
        return decode(content)
    try:
        problem: Any = json.loads(content)
        line = {
            "type": "error", "kind": problem["kind"], "rejection": problem.get("rejection"),
            "message": problem.get("detail") or problem.get("title") or "", "exit_code": problem.get("exit_code", 7),
        }
    except (ValueError, KeyError, TypeError) as error:
        if status >= 500 or status in (408, 429):
            raise Lost(f"HTTP status {status}") from error
        raise Rejected(f"HTTP status {status}: {content[:500].decode(errors='replace')}") from error
    return Answer(int(line["exit_code"] or 0), [line], [str(line["message"])])
