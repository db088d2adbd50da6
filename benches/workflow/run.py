"""Measures durable steps a second of this engine and of workflow tools, one step after the other: see
README.md. `../claims.py` measures the same tools with many clients at once.

Prints one table; with --json it also writes all figures. Needs Python 3.9 or newer, and the requirements
of the tools.
"""

import argparse
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PYTHON_PACKAGES = ["langgraph", "langgraph-checkpoint-sqlite", "dbos"]
NODE_PACKAGES = ["@restatedev/restate-server", "@restatedev/restate-sdk"]


def note(text):
    print(text, file=sys.stderr, flush=True)


def call(words, **more):
    """Run a command. Returns its output; if it fails, the exception has its last lines."""
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)
    if done.returncode != 0:
        raise RuntimeError(f"{words[0]} ended with {done.returncode}: {done.stderr[-400:].strip()}")
    return done.stdout


def fresh(work):
    return tempfile.TemporaryDirectory(dir=work)


class Ours:
    name = "plan-ledger"

    def __init__(self, program):
        self.program = program

    def seconds(self, folder, steps):
        return float(call([str(self.program), "steps", str(folder / "steps.ledger"), str(steps)]))

    def version(self):
        return call(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]).strip()

    def close(self):
        pass


class InPython:
    """A script in the virtual environment that both Python tools share."""

    def __init__(self, work):
        venv = work / "venv"
        self.python = venv / "bin" / "python"
        if not self.python.exists():
            call([sys.executable, "-m", "venv", str(venv)])
        call([str(self.python), "-m", "pip", "install", "--quiet", *PYTHON_PACKAGES])

    def seconds(self, folder, steps, clients=1):
        """The seconds in which each client executes so many steps."""
        words = [str(self.python), str(HERE / self.script), str(folder / "steps.sqlite")]
        return float(call([*words, str(steps), str(clients)]).split()[-1])

    def version(self):
        code = "import sys, importlib.metadata as m; print(m.version(sys.argv[1]))"
        return call([str(self.python), "-c", code, self.package]).strip()

    def close(self):
        pass


class LangGraph(InPython):
    name, script, package = "LangGraph + SQLite", "langgraph_steps.py", "langgraph"


class Dbos(InPython):
    name, script, package = "DBOS + SQLite", "dbos_steps.py", "dbos"


class Restate:
    name = "Restate"

    def __init__(self, work):
        if shutil.which("npm") is None or shutil.which("node") is None:
            raise RuntimeError("node and npm are not installed")
        self.modules = work / "node"
        self.modules.mkdir(exist_ok=True)
        if not (self.modules / "node_modules").exists():
            (self.modules / "package.json").write_text('{"private": true}\n')
            call(["npm", "install", "--silent", *NODE_PACKAGES], cwd=self.modules)
        # In the folder of the packages, so that its import is found.
        shutil.copy(HERE / "restate_steps.mjs", self.modules)
        self.server = self.modules / "node_modules" / ".bin" / "restate-server"

    def seconds(self, folder, steps, clients=1):
        ingress, admin, node, service = ports(4)
        settings = {
            "RESTATE_BASE_DIR": str(folder / "restate"),
            "RESTATE_INGRESS__BIND_ADDRESS": f"127.0.0.1:{ingress}",
            "RESTATE_ADMIN__BIND_ADDRESS": f"127.0.0.1:{admin}",
            "RESTATE_BIND_ADDRESS": f"127.0.0.1:{node}",
            "RESTATE_ADVERTISED_ADDRESS": f"http://127.0.0.1:{node}",
            "DO_NOT_TRACK": "1",
        }
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        started = []
        try:
            for words, env in [
                ([str(self.server)], {**os.environ, **settings}),
                (["node", "restate_steps.mjs", str(service)], {**os.environ, "NODE_ENV": "production"}),
            ]:
                started.append(
                    subprocess.Popen(words, cwd=self.modules, env=env, start_new_session=True, **quiet)
                )
            deployment = {"uri": f"http://127.0.0.1:{service}"}
            post(f"http://127.0.0.1:{admin}/deployments", deployment, patience=60)
            url = f"http://127.0.0.1:{ingress}/steps/work"
            if clients == 1:
                return float(post(url, steps, patience=60))
            # One invocation before, so that the service is known to all parts of the server.
            post(url, 1, patience=60)
            with ThreadPoolExecutor(clients) as pool:
                begun = time.perf_counter()
                list(pool.map(lambda _: post(url, steps, patience=120), range(clients)))
                return time.perf_counter() - begun
        finally:
            for process in started:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def version(self):
        return call([str(self.server), "--version"]).split()[-1]

    def close(self):
        pass


def ports(count):
    """Free ports."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    found = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return found


def post(url, value, patience):
    """Repeat a request until the server responds. Returns the response as JSON."""
    body = json.dumps(value).encode()
    until = time.monotonic() + patience
    while True:
        request = urllib.request.Request(url, body, {"content-type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=patience) as answer:
                return json.load(answer)
        except (urllib.error.URLError, ConnectionError) as error:
            if time.monotonic() > until:
                raise RuntimeError(f"{url}: {error}") from error
            time.sleep(0.3)


def installed(kinds, work):
    """The tools that can be installed, and why the others cannot."""
    tools, skipped = [], {}
    for kind in kinds:
        try:
            tools.append(kind(work))
        except (RuntimeError, OSError) as error:
            note(f"{kind.name} is skipped: {error}")
            skipped[kind.name] = str(error)
    return tools, skipped


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--work", type=Path, default=ROOT / "target" / "workflow")
    parser.add_argument("--peers", type=Path, required=True, help="the built program `plan-ledger-peers`")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    work = options.work.resolve()
    tools, skipped = installed([LangGraph, Dbos, Restate], work)
    tools.insert(0, Ours(options.peers))
    rates = {tool.name: [] for tool in tools}
    for number in range(options.rounds):
        for tool in tools:
            with fresh(work) as folder:
                try:
                    rate = options.steps / tool.seconds(Path(folder), options.steps)
                    rates[tool.name].append(rate)
                    note(f"round {number + 1}: {tool.name}: {rate:.0f} steps/s")
                except (RuntimeError, OSError, ValueError) as error:
                    note(f"round {number + 1}: {tool.name}: {error}")
    versions = {tool.name: tool.version() for tool in tools}
    ours = statistics.median(rates[Ours.name]) if rates.get(Ours.name) else float("nan")
    print("| tool | version | durable steps/s | plan-ledger / tool |")
    print("|---|---|---|---|")
    for name, all_of_it in rates.items():
        if all_of_it:
            rate = statistics.median(all_of_it)
            print(f"| {name} | {versions[name]} | {rate:.0f} | {ours / rate:.1f} |")
    for name, why in skipped.items():
        print(f"| {name} | not measured: {why} | | |")
    if options.json:
        report = {"steps": options.steps, "rates": rates, "versions": versions, "skipped": skipped}
        options.json.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
