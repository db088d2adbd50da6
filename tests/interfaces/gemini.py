"""Real Gemini CLI with a scripted model: one plan through hooks and tools, to its end."""

import json
import os
import subprocess

from marks import capture_marks, check_marks
from model import SHELL, ScriptedModel, token_in

LEDGER, GEMINI, TRANSCRIPTS = os.environ["LEDGER"], os.environ["GEMINI"], os.environ["TRANSCRIPTS"]


def ledger(*words):
    return subprocess.run([LEDGER, *words], check=True, capture_output=True, text=True).stdout


def report(request):
    return "ledger_report", {"token": token_in(request), "outcome": "succeeded", "output": "done"}


ledger("setup", "gemini")
capture = capture_marks(".gemini/settings.json")
transcript = open(f"{TRANSCRIPTS}/gemini-model.jsonl", "w")
model = ScriptedModel(
    [
        (SHELL, {"command": capture}),
        ("ledger_claim", {"worker": "gemini"}),
        "I am done.",  # It is not: nothing was reported.
        report,
        ("ledger_claim", {"worker": "gemini"}),
        report,
        ("ledger_claim", {"worker": "gemini"}),
        report,
        "I can do no more.",  # A person must look at it.
    ],
    transcript,
)
home = os.path.join(os.environ["HOME"], ".gemini")
os.makedirs(home)
settings = {
    "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
    "privacy": {"usageStatisticsEnabled": False},
    "general": {"disableAutoUpdate": True, "disableUpdateNag": True},
}
with open(os.path.join(home, "settings.json"), "w") as file:
    json.dump(settings, file)
environment = {
    **os.environ,
    "GEMINI_API_KEY": "scripted",
    "GOOGLE_GEMINI_BASE_URL": f"http://127.0.0.1:{model.port}",
    "GEMINI_SANDBOX": "false",
    "GEMINI_CLI_TRUST_WORKSPACE": "true",
    "NO_BROWSER": "1",
}
host = model.run(
    [
        "node", GEMINI, "--model", "gemini-2.5-pro", "--approval-mode", "yolo",
        "--prompt", "Work on the plan until it is done.",
    ],
    env=environment, stdin=subprocess.DEVNULL,
    stdout=open(f"{TRANSCRIPTS}/gemini-output.txt", "w"),
    stderr=open(f"{TRANSCRIPTS}/gemini-errors.txt", "w"),
)
assert host.returncode == 0, host.returncode
last = ledger("prime")
print(last)
assert model.saw("plan-ledger: run release"), "no prime reached the model"
assert model.saw("is claimed by this session and not reported"), "the host did not hold the session"
assert "2 of 3" in last and "waits for a verdict" in last, last
assert not model.actions, model.actions
check_marks("gemini")
print(f"it ended by itself: {len(model.requests)} requests to the model")
