"""The arguments that the measurements of claims.py and pairs.py have in common."""

import argparse
import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent


def numbers(text):
    """Numbers between commas."""
    return [int(each) for each in text.split(",")]


def common(about):
    """A parser with the rounds, the folder, the measured programs, and the file for the figures. The first
    paragraph of a text describes it."""
    target = os.environ.get("CARGO_TARGET_DIR")

    def program(name, usual):
        return pathlib.Path(target or usual) / "release" / name

    words = argparse.ArgumentParser(description=about.split("\n\n")[0])
    words.add_argument("--rounds", type=int, default=3)
    words.add_argument("--folder", type=pathlib.Path, default=ROOT / "target" / "bench")
    words.add_argument("--program", type=pathlib.Path, default=program("ledger", ROOT / "target"))
    words.add_argument("--peers", type=pathlib.Path, default=program("plan-ledger-peers", ROOT / "benches" / "peers" / "target"))
    words.add_argument("--json", type=pathlib.Path)
    return words
