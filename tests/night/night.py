"""Nights with the real Claude Code and the real Codex, whose model is a script on loopback.

A run works through a plan in a git checkout. The agents meet what agents meet in a night: a usage limit, a hang, a
lie, a kill, a compaction, `git clean`, a full disk and a clock that jumps. The demands: in the morning every step is
accepted, none that was accepted was begun again, and the person typed one command in the evening and one in the
morning. In the last night `git clean -fdx` deletes the ledger: the person is told so, and no step is begun again.

A time limit that passes fails the test. Transcripts are in TRANSCRIPTS.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from datetime import datetime

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests", "interfaces"))

from model import SHELL, Full, Refusal, ScriptedModel  # noqa: E402

LEDGER, TRANSCRIPTS = os.environ["LEDGER"], os.environ["TRANSCRIPTS"]
HOSTS = {name: os.environ.get(name.upper(), "") for name in ("claude", "codex")}
CLOCK = os.environ.get("CLOCK", "")
EIGHT_HOURS = 8 * 60 * 60
# How long the disk is full, and how long a hanging agent may take.
FULL_SECONDS = int(os.environ.get("NIGHT_FULL_SECONDS", "60"))
HANG_SECONDS = 20
NIGHT_SECONDS_MAX = 600


def work(step):
    """The command with which an agent does a step and commits it."""
    return f"mkdir -p done && echo {step} >done/{step}.txt && git add done && git commit -qm {step}"


class Night(ScriptedModel):
    """The model, which knows for which attempt it is asked by the path of the request."""

    def __init__(self, place, transcript):
        super().__init__([], transcript)
        self.place = place
        # By attempt: how often the agent asked. By host: until when its account is limited.
        self.asked, self.limited = {}, {}
        # The steps at which something went wrong.
        self.happened = []
        self.has_met_jump = self.has_met_disk = False
        self.server.handle_error = lambda *_: None  # A host was killed.

    def happens(self, step, text):
        self.happened.append(step)
        print(f"  {datetime.now():%H:%M:%S} {step}: {text}", flush=True)

    def answer(self, path, request):
        step, attempt = path.split("/")[1:3]
        messages = request.get("messages") or request.get("input") or []
        last = json.dumps(messages[-1:])
        if "detailed summary" in last or "CHECKPOINT COMPACTION" in last:
            self.happens(step, "the host compacts the context")
            answer = "<summary>The step is not done yet.</summary>"
        elif not request.get("tools"):
            answer = "A step of the night"
        else:
            with self.lock:
                count = self.asked[path] = self.asked.get(path, 0) + 1
            answer = self.limit(step) or self.act(step, int(attempt), count)
        with self.lock:
            self.transcript.write(json.dumps({"path": path, "last": messages[-1:], "answer": str(answer)}) + "\n")
            self.transcript.flush()
        return answer

    def act(self, step, attempt, count):
        event, host = step.rsplit("-", 1)
        if (attempt, count) == (1, 1):
            answer = getattr(self, f"meet_{event}")(step, host)
            if answer:
                return answer
        if (event, attempt) == ("compact", 1) and step not in self.happened and count < 12:
            # Claude Code compacts nothing in its first rounds.
            return Full((SHELL, {"command": f"head -c 20000 /dev/zero | tr '\\0' x; echo {count}"}))
        if self.place.is_done(step):
            return "Done."
        return (SHELL, {"command": work(step)}) if count < 4 else "I could not do it."

    # What goes wrong. A method returns what the agent does at its first request, or nothing.

    def limit(self, step):
        """A usage limit of an account refuses every request of its host until it ends."""
        event, host = step.rsplit("-", 1)
        if (event, host) == ("limit", host) and host not in self.limited:
            # Hosts name the minute in which it ends.
            self.limited[host] = ended = (int(time.time() + 10) // 60 + 1) * 60
            self.happens(step, f"a usage limit until {datetime.fromtimestamp(ended):%H:%M:%S}")
        ended, left = self.limited.get(host, 0), self.limited.get(host, 0) - time.time()
        if left <= 0 or self.place.has_jumped():
            return None
        if host == "claude":
            return Refusal(429, {"type": "error", "error": {"type": "rate_limit_error", "message": "limit"}}, {
                "anthropic-ratelimit-unified-status": "rejected",
                "anthropic-ratelimit-unified-reset": str(ended),
                "anthropic-ratelimit-unified-representative-claim": "five_hour",
                "retry-after": str(int(left)),
                "x-should-retry": "false",
            })
        return Refusal(429, {"error": {
            "type": "usage_limit_reached", "message": "The usage limit has been reached", "plan_type": "plus",
            "resets_at": ended, "resets_in_seconds": int(left),
        }})

    def meet_plain(self, step, host):
        pass

    def meet_limit(self, step, host):
        pass

    def meet_hang(self, step, host):
        self.happens(step, "the agent hangs")
        if host == "codex":
            # It looks after a command every ten seconds, so its model hangs.
            time.sleep(HANG_SECONDS + 10)
        return SHELL, {"command": "sleep 600"}

    def meet_lie(self, step, host):
        self.happens(step, "the agent lies")
        return "All done, and all tests pass."

    def meet_killed(self, step, host):
        if self.place.kill_host(step, HOSTS[host]):
            self.happens(step, "the host is killed")
        return "No agent reads this."

    def meet_compact(self, step, host):
        return SHELL, {"command": "ls"}

    def meet_disk(self, step, host):
        # A minute once is enough.
        seconds = FULL_SECONDS if not self.has_met_disk else 5
        self.has_met_disk = True
        self.place.fill_disk(seconds)
        self.happens(step, f"the disk is full for {seconds} s")

    def meet_clean(self, step, host):
        self.happens(step, "git clean -fd")
        return SHELL, {"command": "touch stray; git clean -fd"}

    def meet_wipe(self, step, host):
        self.happens(step, "git clean -fdx")
        return SHELL, {"command": "git clean -fdx"}

    def meet_jump(self, step, host):
        """A limit of eight hours for one host, and then the clock is eight hours ahead."""
        if self.has_met_jump:
            return None
        self.has_met_jump = True
        self.happens(step, "a usage limit of eight hours, and the clock jumps by eight hours")
        self.limited[host] = int(time.time()) + EIGHT_HOURS - 120
        threading.Timer(5, self.place.jump).start()
        return self.limit(step)


class Place:
    """A checkout on a disk of its own, and what the person types there."""

    def __init__(self, name, folder, events, ledger=None):
        self.name, self.folder = name, os.path.join(folder, name)
        self.typed = []
        os.makedirs(self.path())
        # Only root may mount one.
        self.has_disk = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=200m", "tmpfs", self.path()], check=False,
            capture_output=True).returncode == 0
        for part in ("bin", "shop"):
            os.makedirs(self.path(part))
        os.makedirs(f"{self.folder}.home")
        for host, program in HOSTS.items():
            if program:
                os.symlink(program, self.path("bin", host))
        hosts = [host for host, program in HOSTS.items() if program]
        for event, is_possible in (("disk", self.has_disk), ("jump", CLOCK)):
            if event in events and not is_possible:
                print(f"skipped: {event}: this user cannot mount a file system, or there is no C compiler")
                events = [other for other in events if other != event]
        self.steps = [f"{event}-{host}" for event in events for host in hosts]
        self.environment = {
            **{name: value for name, value in os.environ.items() if not re.match(
                "CLAUDE|AI_AGENT|CODEX|LEDGER|GEMINI|OPENCODE|ANTHROPIC|OPENAI", name)},
            "HOME": f"{self.folder}.home", "XDG_STATE_HOME": f"{self.folder}.state",
            "CODEX_HOME": f"{self.folder}.home/.codex",
            "PATH": f"{self.path('bin')}:{os.environ['PATH']}",
            "CLOCK_AHEAD": f"{self.folder}.clock", "TZ": "UTC",
            # Claude Code with the account of a person, not with an API key: only that has usage limits with a time.
            "CLAUDE_CODE_OAUTH_TOKEN": "scripted",
            "CLAUDE_CODE_AUTO_COMPACT_WINDOW": "100000",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_TELEMETRY": "1",
            "DISABLE_ERROR_REPORTING": "1", "DISABLE_AUTOUPDATER": "1",
            "CODEX_SETTINGS": " ".join(f"-c {name}={value}" for name, value in {
                "model": '"scripted"', "model_provider": '"scripted"',
                "model_providers.scripted.name": '"scripted"',
                "model_providers.scripted.wire_api": '"responses"',
                "model_auto_compact_token_limit": "100000",
                "analytics.enabled": "false", "otel.exporter": '"none"',
                "check_for_update_on_startup": "false",
            }.items()) + " --dangerously-bypass-approvals-and-sandbox --dangerously-bypass-hook-trust",
        }
        if CLOCK:
            self.environment["LD_PRELOAD"] = CLOCK
        if ledger:
            self.environment["LEDGER_DIR"] = ledger
        os.makedirs(self.environment["CODEX_HOME"])
        shop = self.path("shop")
        shutil.copytree(os.path.join(ROOT, "examples", "recipes"), f"{shop}/recipes")
        shutil.copy(os.path.join(HERE, "agent.sh"), shop)
        with open(f"{shop}/night.yaml", "w", encoding="utf-8") as plan:
            plan.write("title: A night with agents\ndefaults:\n  retry: {max_attempts: 4}\n")
            plan.write(f"  timeout_seconds: {HANG_SECONDS}\nsteps:\n")
            before = {}
            for step in self.steps:
                owner = step.rsplit("-", 1)[1]
                plan.write(f"  - {{id: {step}, owner: {owner}, goal: Write done/{step}.txt and commit it, ")
                plan.write(f"tools: [Bash], after: [{before.get(owner, '')}], ")
                plan.write(f"acceptance: [command: grep -q {step} done/{step}.txt]}}\n")
                before[owner] = step
        subprocess.run(["git", "init", "-q"], cwd=shop, check=True, env=self.environment)
        for host in ("claude-code", "codex"):
            ended = self.ledger("setup", host)
            assert ended.returncode == 0, ended.stdout
        for words in (["config", "user.name", "Ana"], ["config", "user.email", "a@example.org"],
                      ["add", "-A"], ["commit", "-qm", "the plan"]):
            subprocess.run(["git", *words], cwd=shop, check=True, env=self.environment)

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def end(self):
        subprocess.run(["umount", "-l", self.path()], check=False, capture_output=True)

    def type(self, *words, seconds=NIGHT_SECONDS_MAX):
        """A command that the person types, with all that it prints."""
        self.typed.append(words)
        return self.ledger(*words, seconds=seconds, is_read=True)

    def ledger(self, *words, seconds=60, is_read=False):
        out = f"{TRANSCRIPTS}/night-{self.name}.txt"
        ended = subprocess.run(
            [LEDGER, *words], cwd=self.path("shop"), env=self.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds, check=False)
        if is_read:
            with open(out, "a", encoding="utf-8") as file:
                file.write(f"$ ledger {' '.join(words)}\n{ended.stdout}(exit code {ended.returncode})\n\n")
            print(f"$ ledger {' '.join(words)}\n{ended.stdout}(exit code {ended.returncode})\n", flush=True)
        return ended

    def kill_host(self, step, program):
        killed = 0
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    environment = file.read().split(b"\0")
                is_host = os.path.realpath(f"/proc/{pid}/exe") == os.path.realpath(program)
            except OSError:
                continue
            if is_host and f"LEDGER_STEP={step}".encode() in environment:
                os.kill(int(pid), signal.SIGKILL)
                killed += 1
        return killed

    def fill_disk(self, seconds):
        filler = self.path("filler")
        with open(filler, "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(65536))
            except OSError:
                pass
        threading.Timer(seconds, os.remove, [filler]).start()

    def jump(self):
        with open(self.environment["CLOCK_AHEAD"], "w", encoding="utf-8") as file:
            file.write(str(EIGHT_HOURS))

    def is_done(self, step):
        try:
            with open(self.path("shop", "done", f"{step}.txt"), encoding="utf-8") as file:
                return file.read().strip() == step
        except FileNotFoundError:
            return False

    def has_jumped(self):
        return os.path.exists(self.environment["CLOCK_AHEAD"])

    def expect_done(self, model):
        """The demands of the morning."""
        view = json.loads(self.ledger("status", "--json").stdout.splitlines()[0])
        assert not view["needs"], view["needs"]
        accepted, attempts = set(), dict.fromkeys(self.steps, 0)
        for line in self.ledger("inspect", "records", "--json").stdout.splitlines():
            record = json.loads(line)
            kind, number = record.get("kind"), record.get("event", {}).get("step")
            if kind in ("dispatched", "accepted"):
                step = self.steps[number - 1]
                assert step not in accepted, f"{step} was accepted, and then {kind} again"
                attempts[step] += kind == "dispatched"
                accepted |= {step} if kind == "accepted" else set()
        assert accepted == set(self.steps), set(self.steps) - accepted
        # What goes wrong once is done by the second attempt.
        more = {step: count for step, count in attempts.items() if count > 2}
        assert not more, more
        expected = {step for step in self.steps if step.split("-")[0] not in ("plain", "jump")}
        assert expected <= set(model.happened), expected - set(model.happened)
        log = subprocess.run(["git", "log", "--format=%s"], cwd=self.path("shop"), env=self.environment,
                             check=True, capture_output=True, text=True).stdout.split("\n")
        assert all(log.count(step) == 1 for step in self.steps), log
        assert len(self.typed) <= 2, self.typed
        ended = self.ledger("verify", "--level", "replay")
        assert ended.returncode == 0, ended.stdout


def night(folder, name, events, ledger=None):
    """A night, to the morning. Returns the place, the model, and how the run of the evening ended."""
    print(f"\n== {name}", flush=True)
    place = Place(name, folder, events, ledger)
    model = Night(place, open(f"{TRANSCRIPTS}/night-{name}-model.jsonl", "w", encoding="utf-8"))
    place.environment["MODEL_PORT"] = str(model.port)
    run = place.type("run", "night.yaml", "--worker", "./agent.sh", "--min-free", "8")
    return place, model, run


def whole(name, folder, events, *ledger):
    """A night in which the run ends by itself."""
    place, model, run = night(folder, name, events, *ledger)
    try:
        place.type("status", "--since", "9h")
        assert run.returncode == 0, run.returncode
        place.expect_done(model)
    finally:
        place.end()


def all_events(folder):
    """The ledger is in the checkout."""
    events = "plain limit hang lie killed compact clean disk jump"
    whole("all", folder, os.environ.get("NIGHT_EVENTS", events).split())


def wiped_around(folder):
    """The checkout is wiped, and the ledger is outside of it."""
    whole("around", folder, ["plain", "wipe", "lie"], f"{folder}/ledger")


def wiped(folder):
    """The checkout is wiped with the ledger in it: the person is told so, and no step is begun again."""
    place, model, run = night(folder, "wiped", ["plain", "wipe", "lie"])
    try:
        ends = [run, place.type("status"), place.type("resume"),
                place.type("run", "night.yaml", "--worker", "./agent.sh")]
        for ended in ends:
            assert ended.returncode != 0, ended.stdout
            assert re.search(r"a ledger with at least \d+ records was here until .*; it is gone", ended.stdout), ended.stdout
        asked = {path.split("/")[1] for path in model.asked}
        assert not any(step.startswith("lie") for step in asked), asked
    finally:
        place.end()


def main():
    missing = [host for host, program in HOSTS.items() if not program]
    for host in missing:
        print(f"skipped: the steps of {host}, which cannot be had here")
    if len(missing) == len(HOSTS):
        return
    folder = sys.argv[1]
    for part in sys.argv[2:] or ["all_events", "wiped_around", "wiped"]:
        {"all_events": all_events, "wiped_around": wiped_around, "wiped": wiped}[part](folder)
    print("\nin the morning every step was accepted, and none that was accepted was begun again")


main()
