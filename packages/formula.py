"""Writes the Homebrew formula: `formula.py TEMPLATE VERSION FOLDER TARGET ...`, with the tarballs in FOLDER."""

import hashlib
import sys
from pathlib import Path

template, version, folder, *targets = sys.argv[1:]
BLOCKS = {"x86_64": "on_intel", "aarch64": "on_arm"}
platforms = []
for target in targets:
    name = f"plan-ledger-{version}-{target}.tar.gz"
    digest = hashlib.sha256((Path(folder) / name).read_bytes()).hexdigest()
    platforms.append(
        f"  {BLOCKS[target.split('-')[0]]} do\n"
        f'    url "https://github.com/OWNER/plan-ledger/releases/download/v{version}/{name}"\n'
        f'    sha256 "{digest}"\n'
        "  end\n"
    )
text = Path(template).read_text().replace("@VERSION@", version).replace("@PLATFORMS@\n", "\n".join(platforms))
(Path(folder) / "plan-ledger.rb").write_text(text)
