"""Real Claude Code with a scripted model: one plan through hooks and tools.

The model claims a step and says that it is done without a report: the host holds it. The session is
compacted, and the next prompt brings the plan back. A step whose criterion a person must judge stays
unaccepted, whatever the model says, and holds nothing.
"""

import json
import os
import subprocess
import sys
import threading

from marks import capture_marks, check_marks
from model import SHELL, ScriptedModel, token_in

LEDGER, CLAUDE, TRANSCRIPTS = os.environ["LEDGER"], os.environ["CLAUDE"], os.environ["TRANSCRIPTS"]


def ledger(*words):
    return subprocess.run([LEDGER, *words], check=True, capture_output=True, text=True).stdout


def report(request):
    return "ledger_report", {"token": token_in(request), "outcome": "succeeded", "output": "done"}


ledger("setup", "claude-code")
capture = capture_marks(".claude/settings.json", ".mcp.json")
transcript = open(f"{TRANSCRIPTS}/claude-code-model.jsonl", "w")
model = ScriptedModel(
    [
        (SHELL, {"command": capture}),
        ("ledger_claim", {"worker": "claude"}),
        "I am done.",  # It is not: nothing was reported.
        report,
        ("ledger_claim", {"worker": "claude"}),
        report,
        "Two steps are done.",
        # After the compaction:
        ("ledger_claim", {"worker": "claude"}),
        report,
        "Everything is done.",  # It is not: a person must look at it.
    ],
    transcript,
)
environment = {
    **os.environ,
    "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{model.port}",
    "ANTHROPIC_API_KEY": "scripted",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_AUTOUPDATER": "1",
    "ENABLE_TOOL_SEARCH": "false",
}
words = [
    CLAUDE, "--print", "--verbose", "--input-format", "stream-json", "--output-format", "stream-json",
    "--mcp-config", ".mcp.json", "--strict-mcp-config", "--allowedTools", "mcp__ledger", "Bash",
    "--include-hook-events",
]
host = subprocess.Popen(
    words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    stderr=open(f"{TRANSCRIPTS}/claude-code-errors.txt", "w"), text=True,
)
output = open(f"{TRANSCRIPTS}/claude-code.jsonl", "w")
# A host that loops, or does not end, is killed: then its output ends, and the test fails.
watch = threading.Thread(target=model.end, args=[host], daemon=True)
watch.start()


def prompt(text):
    message = {"type": "user", "message": {"role": "user", "content": text}}
    host.stdin.write(json.dumps(message) + "\n")
    host.stdin.flush()
    for line in host.stdout:
        output.write(line)
        if json.loads(line).get("type") == "result":
            return json.loads(line)
    sys.exit("the host ended")


prompt("Work on the plan until it is done.")
first = ledger("prime")
assert model.saw("is claimed by this session and not reported"), "the host did not hold the session"
assert "2 of 3" in first, first
prompt("/compact")
prompt("Continue.")
host.stdin.close()
watch.join()
assert host.returncode == 0, host.returncode
assert not model.actions, model.actions
last = ledger("prime")
assert "2 of 3" in last and "waits for a verdict" in last, last
primes = [
    request for request in model.requests
    if "plan-ledger: run release" in json.dumps(request.get("messages", [])[-1:])
]
assert primes, "no prime reached the model after the compaction"
print(last)
check_marks("claude-code")
print("the session was held, primed again after the compaction, and the last step stayed unaccepted")
print(f"it ended by itself: {len(model.requests)} requests to the model")
