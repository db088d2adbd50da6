"""Writes the wheel: the Python client with the program under its two names.

    packages/wheel.py PROGRAM VERSION TARGET OUT

`maturin build` in `clients/python` makes the same from source, and compiles the program again. This takes the
program of the release, so that every package has the same one, and gives the same bytes each time.
"""

import base64
import hashlib
import os
import sys
import time
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CLIENT = ROOT / "clients/python"
SECOND_NAME = b"""#!/bin/sh
exec "$(dirname "$(readlink -f "$0")")/ledger" "$@"
"""


def platform_of(target: str, program: Path) -> str:
    """The tag of the platform: a static program runs with every C library."""
    cpu = target.split("-")[0]
    if target.endswith("-musl"):
        return f"manylinux_2_17_{cpu}.manylinux2014_{cpu}.musllinux_1_1_{cpu}"
    # The newest version of glibc that the program needs.
    needed = [tuple(map(int, part.split(b"\0")[0].split(b"."))) for part in program.read_bytes().split(b"GLIBC_")[1:]
              if part[:1].isdigit() and part.split(b"\0")[0].replace(b".", b"").isdigit()]
    major, minor = max(version[:2] for version in needed)
    return f"manylinux_{major}_{minor}_{cpu}"


def main() -> None:
    program, version, target, out = Path(sys.argv[1]), sys.argv[2], sys.argv[3], Path(sys.argv[4])
    project = tomllib.loads((CLIENT / "pyproject.toml").read_text())["project"]
    tag = f"py3-none-{platform_of(target, program)}"
    info, data = f"plan_ledger-{version}.dist-info", f"plan_ledger-{version}.data"
    metadata = [
        "Metadata-Version: 2.4", "Name: plan-ledger", f"Version: {version}", f"Summary: {project['description']}",
        f"Keywords: {','.join(project['keywords'])}", *(f"Classifier: {each}" for each in project["classifiers"]),
        f"License-Expression: {project['license']}", "License-File: LICENSE-APACHE", "License-File: LICENSE-MIT",
        f"Requires-Python: {project['requires-python']}", "Description-Content-Type: text/markdown", "",
        (CLIENT / "README.md").read_text(),
    ]
    files: list[tuple[str, bytes, int]] = [
        (f"plan_ledger/{path.name}", path.read_bytes(), 0o644)
        for path in sorted((CLIENT / "src/plan_ledger").iterdir())
        if path.suffix == ".py" or path.name == "py.typed"
    ]
    files.append((f"{data}/scripts/ledger", program.read_bytes(), 0o755))
    # A wheel has no links: the second name starts the first, and takes its place.
    files.append((f"{data}/scripts/plan-ledger", SECOND_NAME, 0o755))
    files += [(f"{info}/licenses/{name}", (ROOT / name).read_bytes(), 0o644) for name in ("LICENSE-APACHE", "LICENSE-MIT")]
    tags = "".join(f"Tag: py3-none-{each}\n" for each in tag.removeprefix("py3-none-").split("."))
    files.append((f"{info}/METADATA", "\n".join(metadata).encode(), 0o644))
    files.append((f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: plan-ledger\nRoot-Is-Purelib: false\n{tags}".encode(), 0o644))
    record = "".join(
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b'=').decode()},{len(content)}\n"
        for name, content, _ in files
    )
    files.append((f"{info}/RECORD", f"{record}{info}/RECORD,,\n".encode(), 0o644))
    moment = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), 315532800))[:6]
    with zipfile.ZipFile(out / f"plan_ledger-{version}-{tag}.whl", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        for name, content, mode in files:
            entry = zipfile.ZipInfo(name, moment)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, (0o100000 | mode) << 16
            wheel.writestr(entry, content)


main()
