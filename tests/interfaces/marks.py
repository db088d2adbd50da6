"""The marks that a host puts into the environment of its model's shell, its hooks and its MCP servers.

A program in the place of `ledger` keeps the environment with which the host starts it. Then the real one
says what it takes each environment for: the shell of an agent session, or not.
"""

import json
import os
import subprocess

LEDGER, TRANSCRIPTS = os.environ["LEDGER"], os.environ["TRANSCRIPTS"]

# What has the marks of the model's shell. `ledger mcp` and `ledger hook` do not look at them.
MARKED = {"claude-code": ["shell"], "codex": ["shell"], "gemini": ["shell", "mcp"]}

WRAPPER = """#!/bin/sh
case "$1" in mcp | hook) kind=$1 ;; *) kind=shell ;; esac
[ -e "{folder}/$kind" ] || cat "/proc/$$/environ" >"{folder}/$kind"
exec "{ledger}" "$@"
"""


def capture_marks(*settings):
    """Puts the program into the settings of a host, and returns the command for the model's shell."""
    folder = os.path.abspath("../marks")
    os.makedirs(folder)
    wrapper = os.path.join(folder, "ledger")
    with open(wrapper, "w") as file:
        file.write(WRAPPER.format(folder=folder, ledger=LEDGER))
    os.chmod(wrapper, 0o755)
    for path in settings:
        with open(path) as file:
            text = file.read()
        assert LEDGER in text, (path, text)
        with open(path, "w") as file:
            file.write(text.replace(LEDGER, wrapper))
    return f"{wrapper} note 'from the shell'"


def author_in(environment):
    """Under which name a note is recorded with this environment, and the exit code of a decision."""

    def run(*words):
        return subprocess.run([LEDGER, *words], env=environment, capture_output=True, text=True)

    noted = run("note", "which marks")
    assert noted.returncode == 0, noted
    decided = run("accept", "release", "publish", "--evidence", "none")
    records = subprocess.run(
        [LEDGER, "inspect", "records", "--kind", "note", "--json"], capture_output=True, text=True,
    )
    lines = [json.loads(line) for line in records.stdout.splitlines()]
    notes = [line for line in lines if line.get("type") == "record"]
    return json.dumps(notes[-1]), decided


def check_marks(host):
    """Compares what the host marked with the table of the program."""
    # The decision of a person comes last: it accepts the step.
    for kind in ["shell", "mcp", "hook"]:
        with open(f"../marks/{kind}", "rb") as file:
            variables = [part for part in file.read().split(b"\0") if b"=" in part]
        environment = dict(part.split(b"=", 1) for part in variables)
        names = sorted(name.decode() for name in environment)
        with open(f"{TRANSCRIPTS}/{host}-{kind}-environment.txt", "w") as file:
            file.write("\n".join(names) + "\n")
        note, decided = author_in(environment)
        is_marked = kind in MARKED[host]
        assert (f"agent:{host}" in note) == is_marked, (host, kind, note, names)
        assert ("agent session" in decided.stderr) == is_marked, (host, kind, decided, names)
        print(f"{host}, {kind}: {'an agent session' if is_marked else 'no agent session'}")
