"""64 workers claim over MCP, HTTP, the socket and the command line at once, while the server is killed.

Every step must have exactly one winner, and no claim may be lost: `race.py CLAIMS WORKERS`.
"""

import collections
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time

LEDGER = os.environ["LEDGER"]
claims, workers = int(sys.argv[1]), int(sys.argv[2])
won = collections.defaultdict(list)
uncertain = collections.Counter()
lock = threading.Lock()
is_over = threading.Event()


def win(step, worker, interface):
    with lock:
        won[step].append((worker, interface))


def over_mcp(worker):
    server = subprocess.Popen(
        [LEDGER, "mcp", "--worker", worker], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )

    def ask(message):
        server.stdin.write(json.dumps(message) + "\n")
        server.stdin.flush()
        return json.loads(server.stdout.readline()) if "id" in message else None

    ask({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "race", "version": "0"}}})
    ask({"jsonrpc": "2.0", "method": "notifications/initialized"})
    number = 0
    while not is_over.is_set():
        number += 1
        # The same key again after a failure: the answer of the first call counts.
        call = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {
            "name": "ledger_claim", "arguments": {"key": f"{worker}/{number}"}}}
        result = ask(call)["result"]
        while result.get("isError") and "locked" in result["content"][0]["text"]:
            result = ask(call)["result"]
        assert not result.get("isError"), result
        task = result["structuredContent"]
        if not task["got"]:
            break
        win(task["number"], worker, "mcp")
    server.stdin.close()
    server.wait()


def over_socket(worker):
    number, stream = 0, None
    while not is_over.is_set():
        number += 1
        request = {"act": "claim", "worker": worker, "secret": f"{number:032x}", "once": f"{worker}/{number}"}
        line = None
        while line is None and not is_over.is_set():
            try:
                if stream is None:
                    connection = socket.socket(socket.AF_UNIX)
                    connection.settimeout(10)
                    connection.connect(".ledger/serve.sock")
                    stream = connection.makefile("rw")
                stream.write(json.dumps(request) + "\n")
                stream.flush()
                text = stream.readline()
                answer = json.loads(text) if text.endswith("\n") else None
                line = answer["lines"][0] if answer else None
                if line and line.get("kind") in ("busy", "locked"):
                    line = None
                if line is None:
                    stream = None
            except (OSError, ValueError):
                stream = None
                time.sleep(0.05)
        if line is None or line["type"] != "task":
            return
        win(line["number"], worker, "socket")


def over_http(worker):
    number, connection, token = 0, None, None
    while not is_over.is_set():
        number += 1
        status, line = None, None
        while status is None and not is_over.is_set():
            try:
                if connection is None:
                    # Each server has its own address and tokens.
                    with open(".ledger/http.json") as info:
                        info = json.load(info)
                    address = info["address"].removeprefix("http://")
                    token = info["tokens"]["worker"]
                    connection = http.client.HTTPConnection(address, timeout=20)
                claim = {"worker": worker, "secret": f"{number:032x}"}
                headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": f"{worker}/{number}"}
                connection.request("POST", "/v1/claims", json.dumps(claim), headers)
                response = connection.getresponse()
                body = response.read()
                if response.status in (201, 200):
                    status, line = response.status, json.loads(body)["lines"][0]
                elif response.status == 204:
                    return
                else:
                    # A server that is gone, or one that cannot reach the ledger yet.
                    assert response.status in (401, 423, 429, 500, 503), (response.status, body)
                    connection = None
            except (OSError, ValueError, http.client.HTTPException):
                connection = None
                time.sleep(0.05)
        if line is None or line["type"] != "task":
            return
        win(line["number"], worker, "http")


def by_command(worker):
    number = 0
    while not is_over.is_set():
        ended = subprocess.run(
            [LEDGER, "claim", "--worker", worker, "--json"], capture_output=True, text=True
        )
        line = json.loads(ended.stdout.splitlines()[-1])
        if line["type"] == "task":
            number += 1
            win(line["number"], worker, "command")
        elif line["type"] == "nothing":
            return
        elif line.get("kind") == "locked":
            # A server that was killed may have carried out the claim. Another command cannot ask again
            # under the same key, so its worker does not know.
            uncertain[worker] += 1
        else:
            raise AssertionError(line)


def hold_the_lock():
    while not is_over.is_set():
        server = subprocess.Popen([LEDGER, "serve", "--http"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        is_over.wait(random.uniform(1, 4))
        server.send_signal(signal.SIGKILL)
        server.wait()
        kills[0] += 1


kills = [0]
with open("race.json", "w") as plan:
    steps = [{"id": f"s{number}"} for number in range(claims)]
    json.dump({"defaults": {"lease_seconds": 36000}, "steps": steps}, plan)
subprocess.run([LEDGER, "init"], check=True, stdout=subprocess.DEVNULL)
subprocess.run([LEDGER, "plan", "propose", "race.json"], check=True, stdout=subprocess.DEVNULL)
started = time.monotonic()
holder = threading.Thread(target=hold_the_lock)
holder.start()
kinds = [over_mcp, over_http, over_socket, by_command]
threads = [
    threading.Thread(target=kinds[number % len(kinds)], args=(f"w{number}",)) for number in range(workers)
]
for thread in threads:
    thread.start()
# Workers on the socket and over HTTP need a server for their last answer, the others do not.
for thread in threads:
    thread.join()
seconds = time.monotonic() - started
is_over.set()
holder.join()
state = subprocess.run(
    [LEDGER, "prime", "--json"], check=True, capture_output=True, text=True
).stdout
recorded = json.loads(state)
by_interface = collections.Counter(winner[1] for winners in won.values() for winner in winners)
twice = {step: winners for step, winners in won.items() if len(winners) > 1}
print(json.dumps({
    "claims": claims, "workers": workers, "won": len(won), "twice": len(twice),
    "in_flight": recorded["claimed_count"], "ready": recorded["ready_count"],
    "by_interface": by_interface, "kills": kills[0], "seconds": round(seconds, 1),
}))
assert not twice, twice
assert recorded["claimed_count"] == claims and recorded["ready_count"] == 0, recorded
# Every step belongs to the worker that won it; the others belong to workers that do not know it.
lines = subprocess.run(
    [LEDGER, "inspect", ".ledger", "records", "--kind", "dispatched", "--json"],
    check=True, capture_output=True, text=True,
).stdout.splitlines()
events = [json.loads(line).get("event") for line in lines]
owners = {event["step"]: event["worker"] for event in events if event}
assert len(owners) == claims, len(owners)
for step, winners in won.items():
    assert owners[step] == winners[0][0], (step, winners, owners[step])
unknown = collections.Counter(owners[step] for step in owners if step not in won)
assert all(count <= uncertain[worker] for worker, count in unknown.items()), (unknown, uncertain)
print(f"claims that their worker does not know: {sum(unknown.values())}")
verified = subprocess.run([LEDGER, "verify", ".ledger"], capture_output=True, text=True)
assert verified.returncode == 0, verified.stdout
