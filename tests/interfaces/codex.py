"""Real Codex with a scripted model: one plan through hooks and tools."""

import os
import subprocess

from model import ScriptedModel, token_in

LEDGER, CODEX, TRANSCRIPTS = os.environ["LEDGER"], os.environ["CODEX"], os.environ["TRANSCRIPTS"]


def ledger(*words):
    return subprocess.run([LEDGER, *words], check=True, capture_output=True, text=True).stdout


def report(request):
    return "ledger_report", {"token": token_in(request), "outcome": "succeeded", "output": "done"}


ledger("setup", "codex", "--user")
transcript = open(f"{TRANSCRIPTS}/codex-model.jsonl", "w")
model = ScriptedModel(
    [
        ("ledger_claim", {"worker": "codex"}),
        "I am done.",
        report,
        ("ledger_claim", {"worker": "codex"}),
        report,
        ("ledger_claim", {"worker": "codex"}),
        report,
        "Everything is done.",
        "I can do no more.",
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
try:
    ended = subprocess.run(
        [*words, "Work on the plan until it is done."], capture_output=True, text=True, timeout=180,
        stdin=subprocess.DEVNULL,
    )
    out, err = ended.stdout, ended.stderr
except subprocess.TimeoutExpired as late:
    out, err = (late.stdout or b"").decode(), (late.stderr or b"").decode()
open(f"{TRANSCRIPTS}/codex.jsonl", "w").write(out)
open(f"{TRANSCRIPTS}/codex-errors.txt", "w").write(err)
last = ledger("prime")
print(last)
assert model.saw("plan-ledger: run release"), "no prime reached the model"
assert model.saw("is claimed by this session and not reported"), "the host did not hold the session"
assert "2 of 3" in last and "waits for a verdict" in last, last
