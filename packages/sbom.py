"""Writes an SBOM (CycloneDX 1.5) of what `cargo metadata` on standard input resolves: `sbom.py VERSION`."""

import json
import sys

data = json.load(sys.stdin)
packages = {package["id"]: package for package in data["packages"]}
nodes = {node["id"]: node for node in data["resolve"]["nodes"]}
root = next(id for id, package in packages.items() if package["name"] == "plan-ledger-cli")
# What the program contains: no development dependencies.
found: dict[str, list[str]] = {}
open_ids = [root]
while open_ids:
    id = open_ids.pop()
    if id in found:
        continue
    found[id] = sorted({
        dependency["pkg"] for dependency in nodes[id]["deps"]
        if any(kind["kind"] != "dev" for kind in dependency["dep_kinds"])
    })
    open_ids += found[id]


def purl(id: str) -> str:
    return f"pkg:cargo/{packages[id]['name']}@{packages[id]['version']}"


def component(id: str) -> dict[str, object]:
    package = packages[id]
    licenses = [{"expression": package["license"].replace("/", " OR ")}] if package["license"] else []
    return {"type": "library", "bom-ref": purl(id), "name": package["name"], "version": package["version"],
            "purl": purl(id), "licenses": licenses}


print(json.dumps({
    "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
    "metadata": {"component": {**component(root), "type": "application", "name": "plan-ledger", "version": sys.argv[1]}},
    "components": [component(id) for id in sorted(found, key=purl) if id != root],
    "dependencies": [{"ref": purl(id), "dependsOn": [purl(each) for each in found[id]]} for id in sorted(found, key=purl)],
}, indent=1))
