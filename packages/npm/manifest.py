"""Writes the manifests of the npm packages: `manifest.py FOLDER PLATFORM VERSION`."""

import json
import sys
from pathlib import Path

folder, platform, version = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
PLATFORMS = ["linux-x64", "linux-arm64"]
path = folder / "client/package.json"
client = json.loads(path.read_text())
assert client["version"] == version, f"clients/typescript has version {client['version']}, the program {version}"
client["bin"] = {"plan-ledger": "bin/plan-ledger.js"}
client["files"] = [*client["files"], "bin"]
client["optionalDependencies"] = {f"@plan-ledger/{each}": version for each in PLATFORMS}
path.write_text(json.dumps(client, indent=2) + "\n")
system, cpu = platform.split("-")
(folder / "platform/package.json").write_text(json.dumps({
    "name": f"@plan-ledger/{platform}", "version": version, "license": client["license"],
    "description": f"The program of plan-ledger for {platform}", "os": [system], "cpu": [cpu],
    "files": ["bin"], "preferUnplugged": True,
}, indent=2) + "\n")
