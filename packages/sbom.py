"""Writes an SBOM (CycloneDX 1.5) of what `cargo metadata` on standard input resolves: `sbom.py VERSION [OPTION...]`.

It lists exactly the crates that `cargo tree` with these options names for the program: features that only tests
use add crates to the metadata. It fails if a crate is unknown to the metadata, or states no license.
"""

import json
import subprocess
import sys

data = json.load(sys.stdin)
packages = {package["id"]: package for package in data["packages"]}
nodes = {node["id"]: node for node in data["resolve"]["nodes"]}
root = next(id for id, package in packages.items() if package["name"] == "plan-ledger-cli")
# What the program contains: no development dependencies.
found: dict[str, list[str]] = {}
open_ids = [root]
tree = subprocess.run(
    ["cargo", "tree", "--locked", "--package", "plan-ledger-cli", "--edges", "normal,build",
     "--prefix", "none", "--no-dedupe", *sys.argv[2:]], capture_output=True, text=True, check=True,
    cwd=packages[root]["manifest_path"].rpartition("/")[0]).stdout
contained = {(name, version.removeprefix("v")) for name, version, *_ in map(str.split, tree.splitlines())}


def name_of(id: str) -> tuple[str, str]:
    return packages[id]["name"], packages[id]["version"]


while open_ids:
    id = open_ids.pop()
    if id in found:
        continue
    found[id] = sorted({
        dependency["pkg"] for dependency in nodes[id]["deps"]
        if any(kind["kind"] != "dev" for kind in dependency["dep_kinds"]) and name_of(dependency["pkg"]) in contained
    })
    open_ids += found[id]
unknown = contained - {name_of(id) for id in found}
if unknown:
    sys.exit(f"the program contains crates that the metadata does not resolve: {sorted(unknown)}")
unlicensed = [packages[id]["name"] for id in found if not packages[id]["license"]]
if unlicensed:
    sys.exit(f"crates without a license: {unlicensed}")


def purl(id: str) -> str:
    return f"pkg:cargo/{packages[id]['name']}@{packages[id]['version']}"


def component(id: str) -> dict[str, object]:
    package = packages[id]
    licenses = [{"expression": package["license"].replace("/", " OR ")}]
    return {"type": "library", "bom-ref": purl(id), "name": package["name"], "version": package["version"],
            "purl": purl(id), "licenses": licenses}


print(json.dumps({
    "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
    "metadata": {"component": {**component(root), "type": "application", "name": "plan-ledger", "version": sys.argv[1]}},
    "components": [component(id) for id in sorted(found, key=purl) if id != root],
    "dependencies": [{"ref": purl(id), "dependsOn": [purl(each) for each in found[id]]} for id in sorted(found, key=purl)],
}, indent=1))
