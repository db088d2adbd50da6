"""Writes the manifests of the npm packages.

    manifest.py client FOLDER VERSION             the client, whose manifest is in FOLDER already
    manifest.py platform FOLDER VERSION TARGET    the program for a target
"""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PLATFORMS = {"x86_64": "linux-x64", "aarch64": "linux-arm64"}

which, folder, version = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
path = folder / "package.json"
client = json.loads((ROOT / "clients/typescript/package.json").read_text())
assert client["version"] == version, f"clients/typescript has version {client['version']}, the program {version}"
if which == "client":
    # The registry of the Model Context Protocol looks for this name in the package.
    client["mcpName"] = json.loads((ROOT / "packages/server.json").read_text())["name"]
    client["bin"] = {"plan-ledger": "bin/plan-ledger.js"}
    client["files"] = [*client["files"], "bin"]
    client["optionalDependencies"] = {f"@plan-ledger/{each}": version for each in PLATFORMS.values()}
    manifest = client
else:
    target = sys.argv[4]
    platform = PLATFORMS[target.split("-")[0]]
    system, cpu = platform.split("-")
    manifest = {
        "name": f"@plan-ledger/{platform}", "version": version, "license": client["license"],
        "description": f"The program of plan-ledger for {platform}", "os": [system], "cpu": [cpu],
        # A static program runs with every C library.
        **({} if target.endswith("-musl") else {"libc": ["glibc"]}),
        "files": ["bin"], "preferUnplugged": True,
    }
path.write_text(json.dumps(manifest, indent=2) + "\n")
