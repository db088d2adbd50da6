"""How long a claim and a receipt take over each interface, in turn within one run: `latency.py ROUNDS`.

The server is the same for all. The command line starts a process for each request, and MCP keeps one.
"""

import http.client
import json
import os
import socket
import subprocess
import sys
import time

LEDGER = os.environ["LEDGER"]
rounds = int(sys.argv[1])
took = {}


def timed(name, what, ask):
    begun = time.perf_counter()
    answer = ask()
    took.setdefault((name, what), []).append(time.perf_counter() - begun)
    return answer


class Socket:
    def __init__(self):
        self.stream = socket.socket(socket.AF_UNIX)
        self.stream.connect(".ledger/serve.sock")
        self.lines = self.stream.makefile("rb")

    def ask(self, **request):
        self.stream.sendall(json.dumps(request).encode() + b"\n")
        return json.loads(self.lines.readline())["lines"][0]

    def claim(self):
        return self.ask(act="claim", worker="socket", secret=os.urandom(16).hex())

    def report(self, task):
        self.ask(act="receipt", token=task["token"], receipt={"outcome": "succeeded", "output": 1})


class Http:
    def __init__(self):
        with open(".ledger/http.json") as info:
            info = json.load(info)
        self.headers = {"Authorization": "Bearer " + info["tokens"]["worker"]}
        self.connection = http.client.HTTPConnection(info["address"].removeprefix("http://"))

    def ask(self, path, body):
        self.connection.request("POST", path, json.dumps(body), self.headers)
        return json.loads(self.connection.getresponse().read())["lines"][0]

    def claim(self):
        return self.ask("/v1/claims", {"worker": "http"})

    def report(self, task):
        receipt = {"outcome": "succeeded", "output": 1}
        self.ask(f"/v1/claims/{task['token']}/receipt", {"receipt": receipt})


class Mcp:
    def __init__(self):
        self.number = 0
        self.server = subprocess.Popen(
            [LEDGER, "mcp", "--worker", "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        client = {"name": "latency", "version": "0"}
        self.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client})
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message):
        self.server.stdin.write(json.dumps(message) + "\n")
        self.server.stdin.flush()

    def ask(self, method, params):
        self.number += 1
        self.send({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params})
        return json.loads(self.server.stdout.readline())["result"]

    def tool(self, name, arguments):
        result = self.ask("tools/call", {"name": name, "arguments": arguments})
        assert not result.get("isError"), result
        return result["structuredContent"]

    def claim(self):
        return self.tool("ledger_claim", {"key": f"latency/{self.number}"})

    def report(self, task):
        self.tool("ledger_report", {"token": task["token"], "outcome": "succeeded", "output": 1})


class Command:
    def run(self, *words):
        ended = subprocess.run([LEDGER, *words, "--json"], check=True, capture_output=True, text=True)
        return json.loads(ended.stdout.splitlines()[-1])

    def claim(self):
        return self.run("claim", "--worker", "command")

    def report(self, task):
        self.run("receipt", str(task["token"]), "--output", "1")


clients = ["socket", "http", "mcp", "command"]
steps = [{"id": f"s{number}"} for number in range(rounds * len(clients))]
with open("plan.json", "w") as plan:
    json.dump({"steps": steps}, plan)
subprocess.run([LEDGER, "init"], check=True, stdout=subprocess.DEVNULL)
subprocess.run([LEDGER, "plan", "propose", "plan.json"], check=True, stdout=subprocess.DEVNULL)
server = subprocess.Popen([LEDGER, "serve", "--http"], stdout=subprocess.DEVNULL)
while not os.path.exists(".ledger/http.json"):
    time.sleep(0.05)
clients = list(zip(clients, [Socket(), Http(), Mcp(), Command()]))
for _ in range(rounds):
    for name, client in clients:
        task = timed(name, "claim", client.claim)
        timed(name, "receipt", lambda: client.report(task))
server.terminate()
assert server.wait() == 0
for (name, what), times in took.items():
    times.sort()
    p50, p99 = times[len(times) // 2], times[len(times) * 99 // 100]
    print(f"{name:8} {what:8} p50 {p50 * 1e3:7.2f} ms  p99 {p99 * 1e3:7.2f} ms")
