"""Records of claims: which process has a claimed step (`format/hand-off.md`, section "Records of claims").

With a record, the step of a worker that was killed is free within seconds. Without one, its lease decides.
"""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path
from typing import Any, Mapping, Optional


@functools.lru_cache(maxsize=1)
def _identity(process: int) -> Optional[tuple[int, str]]:
    """When this process started, in clock ticks after the boot, and on which machine; None without `/proc`."""
    try:
        # The name is in parentheses, and may itself contain some.
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return int(fields[19]), f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except (OSError, ValueError, IndexError):
        return None


def keep_claim(ledger: Optional[Path], task: Mapping[str, Any]) -> Optional[Path]:
    """Records that this process has a step, and returns the record; None if that is not possible."""
    process = os.getpid()
    identity = _identity(process)
    if ledger is None or identity is None:
        return None
    folder = ledger / "work" / "claims"
    number = str(task["token"]).split("-")[0]
    path, draft = folder / f"{number}.claim", folder / f"{number}.{process}.part"
    record = {
        "process": process, "process_start": identity[0], "machine": identity[1], "files": None, "task": task,
    }
    try:
        for each in (folder.parent, folder):
            each.mkdir(mode=0o700, exist_ok=True)
            if each.is_symlink():
                return None
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with open(descriptor, "wb") as file:
            file.write(json.dumps(record).encode())
        draft.replace(path)
    except OSError:
        return None
    return path


def forget_claim(record: Optional[Path]) -> None:
    """Removes a record: the attempt is over."""
    if record is not None:
        try:
            record.unlink(missing_ok=True)
        except OSError:
            pass
