"""A `SessionStore` of the Claude Agent SDK as files: transcripts that survive the machine of a worker.

    ClaudeAgentOptions(session_store=FileSessionStore("sessions"), ...)

Each transcript is a file of JSON Lines. An append is durable when it returns, entries with a known `uuid` are not
added twice, and a line that a crash left incomplete is cut off before the next append.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote


def _name(text: str) -> str:
    """A name for a file: no part of a key can leave its folder."""
    return quote(text, safe="").replace(".", "%2E")


class FileSessionStore:
    """Transcripts below a folder: PROJECT/SESSION/main.jsonl, and SUBPATH.jsonl in `sub` beside it."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder)

    def _path(self, key: Any) -> Path:
        session = self._folder / _name(key["project_key"]) / _name(key["session_id"])
        subpath = key.get("subpath")
        return session / "sub" / f"{_name(subpath)}.jsonl" if subpath else session / "main.jsonl"

    async def append(self, key: Any, entries: list[Any]) -> None:
        if entries:
            await asyncio.to_thread(self._append, self._path(key), entries)

    def _append(self, path: Path, entries: list[Any]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "ab+") as file:
            # One writer at a time, also of other processes.
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            known = file.read()
            whole = known.rfind(b"\n") + 1
            file.truncate(whole)
            seen = {entry.get("uuid") for entry in map(json.loads, known[:whole].splitlines())}
            for entry in entries:
                uuid = entry.get("uuid")
                if uuid is None or uuid not in seen:
                    seen.add(uuid)
                    file.write(json.dumps(entry).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        # The names of new files and folders are durable, too.
        for folder in (path.parent, path.parent.parent, path.parent.parent.parent):
            descriptor = os.open(folder, os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)

    async def load(self, key: Any) -> list[Any] | None:
        return await asyncio.to_thread(self._load, self._path(key))

    @staticmethod
    def _load(path: Path) -> list[Any] | None:
        try:
            text = path.read_bytes()
        except FileNotFoundError:
            return None
        return [json.loads(line) for line in text[: text.rfind(b"\n") + 1].splitlines()]

    async def list_sessions(self, project_key: str) -> list[Any]:
        files = (self._folder / _name(project_key)).glob("*/main.jsonl")
        return [
            {"session_id": unquote(path.parent.name), "mtime": path.stat().st_mtime_ns // 1_000_000} for path in files
        ]

    async def list_subkeys(self, key: Any) -> list[str]:
        files = (self._path({**key, "subpath": None}).parent / "sub").glob("*.jsonl")
        return sorted(unquote(path.name.removesuffix(".jsonl")) for path in files)

    async def delete(self, key: Any) -> None:
        path = self._path(key)
        if key.get("subpath"):
            path.unlink(missing_ok=True)
        else:
            await asyncio.to_thread(shutil.rmtree, path.parent, True)
