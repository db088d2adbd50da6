"""Real Codex with a scripted model: one plan through hooks and tools, to its end."""

import os
import subprocess

from marks import capture_marks, check_marks
from model import SHELL, ScriptedModel, token_in

LEDGER, CODEX, TRANSCRIPTS = os.environ["LEDGER"], os.environ["CODEX"], os.environ["TRANSCRIPTS"]


def ledger(*words):
    return subprocess.run([LEDGER, *words], check=True, capture_output=True, text=True).stdout


def report(request):
    return "ledger_report", {"token": token_in(request), "outcome": "succeeded", "output": "done"}


ledger("setup", "codex", "--user")
settings = os.path.join(os.environ["CODEX_HOME"], "config.toml")
hooks = os.path.join(os.environ["CODEX_HOME"], "hooks.json")
capture = capture_marks(hooks, settings)
transcript = open(f"{TRANSCRIPTS}/codex-model.jsonl", "w")
model = ScriptedModel(
    [
        (SHELL, {"command": capture}),
        ("ledger_claim", {"worker": "codex"}),
        "I am done.",  # It is not: nothing was reported.
        report,
        ("ledger_claim", {"worker": "codex"}),
        report,
        ("ledger_claim", {"worker": "codex"}),
        report,
        "I can do no more.",  # A person must look at it.
    ],
    transcript,
)
settings = {
    "model": '"scripted"',
    "model_provider": '"scripted"',
    "model_providers.scripted.name": '"scripted"',
    "model_providers.scripted.base_url": f'"http://127.0.0.1:{model.port}/v1"',
    "model_providers.scripted.wire_api": '"responses"',
    "analytics.enabled": "false",
    "otel.exporter": '"none"',
    "check_for_update_on_startup": "false",
    "mcp_servers.ledger.default_tools_approval_mode": '"approve"',
}
words = [CODEX, "exec", "--json", "--skip-git-repo-check"]
words += ["--dangerously-bypass-approvals-and-sandbox", "--dangerously-bypass-hook-trust"]
for name, value in settings.items():
    words += ["-c", f"{name}={value}"]
host = model.run(
    [*words, "Work on the plan until it is done."], stdin=subprocess.DEVNULL,
    stdout=open(f"{TRANSCRIPTS}/codex.jsonl", "w"),
    stderr=open(f"{TRANSCRIPTS}/codex-errors.txt", "w"),
)
assert host.returncode == 0, host.returncode
last = ledger("prime")
print(last)
assert model.saw("plan-ledger: run release"), "no prime reached the model"
assert model.saw("is claimed by this session and not reported"), "the host did not hold the session"
assert "2 of 3" in last and "waits for a verdict" in last, last
assert not model.actions, model.actions
check_marks("codex")
print(f"it ended by itself: {len(model.requests)} requests to the model")
