"""What the Python client promises, with a real program: `LEDGER` names it.

    LEDGER=target/debug/ledger python3 clients/tests/test_python.py
"""

from __future__ import annotations

import asyncio
import http.server
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent / "python/src"
sys.path.insert(0, str(SOURCE))
LEDGER = os.environ.setdefault("PLAN_LEDGER_PROGRAM", os.environ.get("LEDGER", "ledger"))
for name in ("LEDGER_DIR", "LEDGER_RUN", "LEDGER_SERVER", "LEDGER_WORKER", "LEDGER_TOKEN"):
    os.environ.pop(name, None)

from plan_ledger import (  # noqa: E402
    AsyncLedger, Deterministic, LeaseLost, Ledger, LedgerError, NothingToDo, Rejected, Replan, Transient, Unavailable,
)


def plan(*steps, lease=60):
    return {"title": "Test", "defaults": {"lease_seconds": lease}, "steps": list(steps)}


class Case(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory(prefix="client-")
        self.addCleanup(self._folder.cleanup)
        self.folder = Path(self._folder.name) / "l"
        subprocess.run([LEDGER, "init", "--ledger", str(self.folder)], check=True, stdout=subprocess.DEVNULL)
        self.ledger = Ledger(self.folder)
        self.addCleanup(self.ledger.close)

    def records(self, kind):
        words = [LEDGER, "inspect", str(self.folder), "records", "--kind", kind, "--json"]
        lines = subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()
        return [line["event"] for line in map(json.loads, lines) if line["type"] == "record"]

    def receipt(self):
        return self.records("receipt_recorded")[-1]["receipt"]

    def servers(self):
        """The servers of this test's ledger."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                command = (process / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"serve" in command and os.fsencode(self.folder) in command:
                found.append(int(process.name))
        return found


class Work(Case):
    def test_loop_does_every_step_in_order_and_ends_with_the_run(self):
        run = self.ledger.propose(plan({"id": "a", "outputs": ["x"]}, {"id": "b", "after": ["a"], "inputs": ["x"]}), "r")
        seen = []
        for task in self.ledger.work(run):
            with task:
                seen.append((task.id, dict(task.inputs)))
                task.done({"x": 12} if task.id == "a" else None, tokens=7, money=0.25)
            self.assertEqual(task.result["status"], "accepted")
        self.assertEqual(seen, [("a", {}), ("b", {"x": 12})])
        self.assertEqual(self.ledger.steps("r"), {"a": "accepted", "b": "accepted"})
        self.assertEqual(self.ledger.get("x", "r"), 12)
        self.assertEqual(self.receipt()["cost"], {"money_micros": 250_000, "tokens": 7})

    def test_loop_without_with_reports_at_the_end_of_its_body(self):
        self.ledger.propose(plan({"id": "a"}, {"id": "b"}), "r")
        for task in self.ledger.work("r"):
            task.done(task.id)
        self.assertEqual(set(self.ledger.steps("r").values()), {"accepted"})

    def test_break_releases_the_step_that_was_claimed_with_the_receipt(self):
        self.ledger.propose(plan({"id": "a"}, {"id": "b"}), "r")
        for task in self.ledger.work("r"):
            with task:
                break
        self.assertEqual(self.ledger.steps("r"), {"a": "accepted", "b": "ready"})

    def test_no_step_raises_with_the_reason(self):
        self.ledger.propose(plan({"id": "a"}), "r")
        with self.ledger.claim("r"):
            with self.assertRaises(NothingToDo) as caught:
                self.ledger.claim("r")
            self.assertFalse(caught.exception.is_over)
        with self.assertRaises(NothingToDo) as caught:
            self.ledger.claim("r", wait=5)
        self.assertTrue(caught.exception.is_over)

    def test_same_plan_is_proposed_once_and_a_file_of_any_form_is_read(self):
        path = Path(self._folder.name) / "night.yaml"
        path.write_text("steps:\n  - {id: a, goal: one}\n")
        self.assertEqual([self.ledger.propose(path) for _ in range(2)], ["night", "night"])
        self.assertEqual(len(self.records("plan_proposed")), 1)
        with self.assertRaises(Rejected):
            self.ledger.propose({"steps": [{"id": "a"}, {"id": "a"}]}, "bad")

    def test_replan_is_requested(self):
        self.ledger.propose(plan({"id": "a"}), "r")
        task = self.ledger.claim("r")
        with self.assertRaises(Replan), task:
            raise Replan("another way", kind="new_evidence")
        self.assertEqual(self.receipt()["outcome"]["is"], "replan_requested")


class Failures(Case):
    def test_exception_becomes_a_failed_receipt_with_its_class(self):
        cases = [
            (TimeoutError("slow"), "transient"), (ConnectionResetError("gone"), "transient"),
            (ValueError("bad"), "deterministic"), (KeyError("x"), "deterministic"), (RuntimeError("?"), "unknown"),
            (Transient("later"), "transient"), (Deterministic("never"), "deterministic"),
        ]
        self.ledger.propose(plan(*({"id": f"s{number}"} for number in range(len(cases)))), "r")
        for number, (error, word) in enumerate(cases):
            with self.assertRaises(type(error)), self.ledger.claim("r", step=f"s{number}"):
                raise error
            outcome, receipt = self.receipt()["outcome"], self.receipt()
            self.assertEqual((outcome["is"], outcome["class"]), ("failed", word), error)
            self.assertIn(type(error).__name__, receipt["log_tail"])

    def test_failed_step_of_a_loop_is_tried_again(self):
        self.ledger.propose(plan({"id": "a", "retry": {"max_attempts": 2}}), "r")
        attempts = []
        with self.assertLogs("plan_ledger", "WARNING") as logs:
            for task in self.ledger.work("r"):
                with task:
                    attempts.append(task.last_failure)
                    if task.attempt == 1:
                        raise Transient("not yet")
        self.assertEqual(attempts[0], None)
        self.assertIn("not yet", attempts[1])
        self.assertIn("failed", logs.output[0])

    def test_keyboard_interrupt_releases_the_step(self):
        self.ledger.propose(plan({"id": "a"}), "r")
        with self.assertRaises(KeyboardInterrupt):
            for task in self.ledger.work("r"):
                with task:
                    raise KeyboardInterrupt
        self.assertEqual(self.ledger.steps("r"), {"a": "ready"})
        # Its work had begun, so the ledger treats it as that of a worker that died.
        self.assertEqual(self.records("attempt_lost")[-1]["cause"], "runner_died")
        self.assertEqual(self.records("receipt_recorded"), [])

    def test_ctrl_c_of_a_real_process_releases_the_step(self):
        self.ledger.propose(plan({"id": "a"}, lease=600), "r")
        code = "import sys, time\nfrom plan_ledger import Ledger\nfor task in Ledger(sys.argv[1]).work('r'):\n" \
               " with task:\n  print('begun', flush=True)\n  time.sleep(60)\n"
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(self.folder)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
            # In the background of a script, Ctrl-C is ignored.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        self.assertEqual(process.stdout.readline(), b"begun\n")
        process.send_signal(signal.SIGINT)
        self.assertNotEqual(process.wait(60), 0)
        process.stdout.close()
        self.assertEqual(self.ledger.steps("r"), {"a": "ready"})

    def test_text_that_no_message_can_contain_is_reported_all_the_same(self):
        """The name of a file may be no valid text. The receipt of a failure must not fail itself."""
        long = "\N{GRINNING FACE}" * 300_000
        cases = [ValueError("no file \udce9"), Transient(long, retry_after=0.2), Replan("\udce9"), OSError("\udce9" * 5000)]
        self.ledger.propose(plan(*({"id": f"s{number}"} for number in range(len(cases)))), "r")
        for number, error in enumerate(cases):
            with self.assertRaises(type(error)), self.ledger.claim("r", step=f"s{number}"):
                raise error
        outcomes = [event["receipt"]["outcome"] for event in self.records("receipt_recorded")]
        self.assertEqual([outcome.get("class") for outcome in outcomes], ["deterministic", "transient", None, "transient"])
        self.assertEqual(outcomes[0]["message"], "ValueError: no file \\udce9")
        self.assertEqual((outcomes[1]["message"], outcomes[1]["payload"]["retry_after_seconds"]), (long, 1))
        self.assertEqual(outcomes[2]["reason"], "\\udce9")

    def test_receipt_that_the_ledger_rejects_becomes_a_failure(self):
        self.ledger.propose(plan({"id": "a"}), "r")
        with self.ledger.claim("r") as task:
            task.done(1, variables={"": 2})
        outcome = self.receipt()["outcome"]
        self.assertEqual((outcome["is"], outcome["class"]), ("failed", "deterministic"))
        self.assertIn("the receipt was rejected", outcome["message"])

    def test_output_that_is_no_json_is_an_error_of_the_body(self):
        self.ledger.propose(plan({"id": "a"}), "r")
        for value in ({1, 2}, float("nan")):
            with self.assertRaises((TypeError, ValueError)), self.ledger.claim("r", step="a", wait=20) as task:
                task.done(value)
            self.assertEqual(self.receipt()["outcome"]["class"], "deterministic")
            self.ledger.request({"act": "retry", "run": "r", "step": "a", "by": "test"})


class Leases(Case):
    def test_lease_is_renewed_while_the_body_works(self):
        self.ledger.propose(plan({"id": "a"}, lease=3), "r")
        with self.ledger.claim("r") as task:
            time.sleep(6)
        self.assertFalse(task.is_lost)
        self.assertEqual(len(self.records("dispatched")), 1)
        self.assertGreaterEqual(len(self.records("lease_renewed")), 3)

    def test_lost_lease_is_raised_and_nothing_is_recorded(self):
        self.ledger.propose(plan({"id": "a"}, lease=3), "r")
        task = self.ledger.claim("r")
        self.ledger.request({"act": "release_step", "run": "r", "step": "a", "by": "a person"})
        deadline = time.monotonic() + 60
        while not task.is_lost and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertTrue(task.is_lost, "the renewal in the background finds it")
        with self.assertRaises(LeaseLost) as caught, task:
            with task.effect("e"):
                self.fail("an effect of a lost attempt")
        self.assertEqual(caught.exception.rejection, "stale_token")
        self.assertEqual(self.records("receipt_recorded"), [])

    def test_lost_lease_does_not_end_the_loop(self):
        self.ledger.propose(plan({"id": "a"}, lease=3), "r")
        attempts = []
        with self.assertLogs("plan_ledger", "WARNING") as logs:
            for task in self.ledger.work("r"):
                with task:
                    attempts.append(task)
                    if task.attempt == 1:
                        self.ledger.request({"act": "release_step", "run": "r", "step": "a", "by": "a person"})
        self.assertEqual([task.is_lost for task in attempts], [True, False])
        self.assertIn("is lost", "".join(logs.output))

    def test_abandoned_task_is_not_renewed(self):
        self.ledger.propose(plan({"id": "a"}, lease=3), "r")
        task = self.ledger.claim("r")
        del task
        with self.ledger.claim("r", wait=60) as again:
            self.assertEqual(again.attempt, 2)

    def test_step_of_a_killed_worker_is_free_long_before_its_lease_expires(self):
        self.ledger.propose(plan({"id": "a"}, {"id": "b"}, lease=36_000), "r")
        code = "import os, signal, sys\nfrom plan_ledger import Ledger\nfor task in Ledger(sys.argv[1]).work('r'):\n" \
               " with task:\n  if task.id == 'b':\n   os.kill(os.getpid(), signal.SIGKILL)\n"
        # The server of the killed worker ends with it, and that of this test does not.
        for is_served in (False, True):
            if is_served:
                self.ledger.note("served")
            else:
                self.ledger.close()
            process = subprocess.run(
                [sys.executable, "-c", code, str(self.folder)], env={**os.environ, "PYTHONPATH": str(SOURCE)}, check=False,
            )
            self.assertEqual(process.returncode, -signal.SIGKILL)
            started = time.monotonic()
            task = self.ledger.claim("r", wait=600)
            self.assertEqual(task.id, "b")
            self.assertGreater(task.attempt, 1)
            self.assertLess(time.monotonic() - started, 300)
            if not is_served:
                self.ledger._drive(task._giving_up("the next worker is killed, too", has_begun=False))
        task.done()
        task.finish()
        self.assertEqual([event["cause"] for event in self.records("attempt_lost")].count("runner_died"), 2)

    def test_lease_of_its_own_is_used_in_a_loop(self):
        self.ledger.propose(plan({"id": "a"}, {"id": "b"}, lease=3), "r")
        for task in self.ledger.work("r", lease=30):
            with task:
                self.assertGreater(task._lease_end - time.time(), 20)


class Effects(Case):
    def test_effect_happens_once_even_if_the_attempt_fails_after_it(self):
        self.ledger.propose(plan({"id": "a", "retry": {"max_attempts": 3}}), "r")
        sent = []
        for task in self.ledger.work("r"):
            with task:
                with task.effect("mail") as effect:
                    if not effect.is_done:
                        sent.append(task.attempt)
                if task.attempt == 1:
                    raise Transient("after the mail")
        self.assertEqual(sent, [1])
        self.assertEqual(len(self.records("effect_committed")), 1)

    def test_effect_whose_block_failed_may_be_performed_again(self):
        self.ledger.propose(plan({"id": "a"}), "r")
        with self.ledger.claim("r") as task:
            with self.assertRaises(OSError), task.effect("mail"):
                raise OSError("no network")
            with task.effect("mail") as effect:
                self.assertFalse(effect.is_done)
        self.assertEqual(len(self.records("effect_committed")), 1)


class Outputs(Case):
    def test_large_output_goes_by_file(self):
        self.ledger.propose(plan({"id": "a"}, {"id": "b", "outputs": ["rows", "count"]}), "r")
        with self.ledger.claim("r", step="a") as task:
            task.done("x" * (9 << 20))
        receipt = self.receipt()
        output = receipt["output"]
        self.assertEqual([artifact["path"] for artifact in receipt["artifacts"]], [output["artifact"]])
        self.assertEqual(json.loads(Path(output["artifact"]).read_text()), "x" * (9 << 20))
        with self.ledger.claim("r", step="b") as task:
            task.done({"rows": ["y" * 1000] * 9000, "count": 9000})
        self.assertEqual(self.ledger.get("count", "r"), 9000)
        rows = self.ledger.get("rows", "r")
        self.assertEqual(len(json.loads(Path(rows["artifact"]).read_text())), 9000)
        subprocess.run([LEDGER, "verify", "--ledger", str(self.folder)], check=True, stdout=subprocess.DEVNULL)


class Servers(Case):
    def test_server_is_started_and_ends_with_the_client(self):
        self.assertEqual(self.servers(), [])
        self.ledger.propose(plan({"id": "a"}), "r")
        self.assertEqual(len(self.servers()), 1)
        self.ledger.close()
        self.assertEqual(self.servers(), [])

    def test_server_ends_when_its_client_is_killed(self):
        code = "import sys, time\nfrom plan_ledger import Ledger\nledger = Ledger(sys.argv[1])\nledger.note('x')\n" \
               "print('noted', flush=True)\ntime.sleep(60)\n"
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(self.folder)], stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
        )
        self.assertEqual(process.stdout.readline(), b"noted\n")
        self.assertEqual(len(self.servers()), 1)
        process.kill()
        process.wait()
        process.stdout.close()
        deadline = time.monotonic() + 60
        while self.servers() and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(self.servers(), [])

    def test_killed_server_is_replaced_and_no_request_is_lost(self):
        self.ledger.propose(plan(*({"id": f"s{number}"} for number in range(30))), "r")
        for number, task in enumerate(self.ledger.work("r")):
            with task:
                if number % 7 == 3:
                    for process in self.servers():
                        os.kill(process, signal.SIGKILL)
        self.assertEqual(len(self.records("accepted")), 30)
        self.assertEqual(len(self.records("receipt_recorded")), 30)

    def test_two_clients_share_one_server(self):
        other = Ledger(self.folder)
        self.addCleanup(other.close)
        threads = [threading.Thread(target=ledger.note, args=("x",)) for ledger in (self.ledger, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(self.records("note")), 2)
        self.ledger.close()
        other.note("still served")

    def test_folder_without_a_ledger_is_reported(self):
        ledger = Ledger(Path(self._folder.name) / "none")
        with self.assertRaises(LedgerError) as caught:
            ledger.note("x")
        self.assertIn("no ledger at", str(caught.exception))

    def test_no_server_is_reported_after_the_patience(self):
        ledger = Ledger(self.folder, start=False, patience=0.3)
        with self.assertRaises(Unavailable):
            ledger.note("x")

    def test_long_path_is_reached(self):
        folder = Path(self._folder.name) / ("d" * 100) / "l"
        folder.parent.mkdir()
        subprocess.run([LEDGER, "init", "--ledger", str(folder)], check=True, stdout=subprocess.DEVNULL)
        with Ledger(folder) as ledger:
            ledger.note("far")
            ledger.note("away")

    def test_answer_that_was_lost_is_the_same_under_its_key(self):
        self.ledger.propose(plan({"id": "a"}, {"id": "b"}), "r")
        request = {"act": "claim", "run": "r", "worker": "w", "secret": "ab" * 16}
        first, again = (self.ledger.request(request, "the-key").line("task") for _ in range(2))
        self.assertEqual(first["token"], again["token"])
        with self.assertRaises(Rejected) as caught:
            self.ledger.request({**request, "worker": "v"}, "the-key")
        self.assertEqual(caught.exception.kind, "key_reused")


class Http(Case):
    def setUp(self):
        super().setUp()
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            self.port = one.getsockname()[1]
        tokens = Path(self._folder.name) / "tokens"
        tokens.write_text("operator operator-token-1\nworker worker-token-1234\nviewer viewer-token-1234\n")
        self.server = subprocess.Popen(
            [LEDGER, "serve", "--ledger", str(self.folder), "--http", f"127.0.0.1:{self.port}", "--token-file",
             str(tokens)], stdout=subprocess.PIPE,
        )
        self.server.stdout.readline()
        self.addCleanup(self.stop)
        self.url = f"http://127.0.0.1:{self.port}"

    def over_http(self, role):
        tokens = {"operator": "operator-token-1", "worker": "worker-token-1234", "viewer": "viewer-token-1234"}
        ledger = Ledger(self.url, token=tokens.get(role, "unknown-token-123"))
        self.addCleanup(ledger.close)
        return ledger

    def stop(self):
        self.server.terminate()
        self.server.wait()
        self.server.stdout.close()

    def test_work_over_http_with_roles(self):
        self.over_http("operator").propose(plan({"id": "a", "outputs": ["x"]}, {"id": "b"}), "r")
        worker = self.over_http("worker")
        for task in worker.work("r"):
            with task:
                with task.effect(task.id):
                    pass
                task.done({"x": 1})
        self.assertEqual(worker.get("x", "r"), 1)
        self.assertEqual(worker.steps("r"), {"a": "accepted", "b": "accepted"})
        with self.assertRaises(Rejected) as caught:
            self.over_http("viewer").claim("r")
        self.assertEqual(caught.exception.kind, "wrong_role")
        with self.assertRaises(Rejected) as caught:
            self.over_http("none").claim("r")
        self.assertEqual(caught.exception.kind, "no_access")

    def test_asyncio_over_http(self):
        async def work():
            ledger = AsyncLedger(self.url, token="operator-token-1")
            await ledger.propose(plan({"id": "a"}), "r")
            async for task in ledger.work("r"):
                async with task:
                    task.done(1)
            steps = await ledger.steps("r")
            await ledger.close()
            return steps

        self.assertEqual(asyncio.run(work()), {"a": "accepted"})


    def standby(self, status, location=None, kind="no_owner"):
        """A server that executes nothing, and keeps what it was sent."""
        seen = []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                length = int(self.headers.get("Content-Length", 0))
                seen.append((self.path, self.headers.get("Authorization"), self.rfile.read(length)))
                body = json.dumps({"kind": kind, "rejection": None, "detail": "why", "exit_code": 5}).encode()
                self.send_response(status)
                if location is not None:
                    self.send_header("Location", location + self.path)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = answer

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return f"http://127.0.0.1:{server.server_address[1]}", seen

    def test_owner_is_found_in_a_list_of_addresses(self):
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            gone = f"http://127.0.0.1:{one.getsockname()[1]}"
        moved, moved_seen = self.standby(307, self.url, "not_owner")
        waiting, waiting_seen = self.standby(503)
        for place in ([gone, waiting, moved, self.url], f"{gone},{waiting}, {moved},{self.url}"):
            ledger = Ledger(place, token="operator-token-1")
            self.addCleanup(ledger.close)
            run = f"r{len(moved_seen)}"
            ledger.propose(plan({"id": "a", "outputs": ["x"]}, {"id": "b"}), run)
            for task in ledger.work(run):
                with task:
                    task.done({"x": 1})
            self.assertEqual(ledger.steps(run), {"a": "accepted", "b": "accepted"})
        # Every server got the same message, with its key.
        self.assertEqual(moved_seen[0], waiting_seen[0])
        self.assertEqual((len(moved_seen), len(waiting_seen)), (2, 2))
        # A view is found in the same way.
        ledger = Ledger([moved, self.url], token="viewer-token-1234")
        self.addCleanup(ledger.close)
        self.assertEqual(ledger.get("x", "r0"), 1)

    def test_address_outside_of_the_list_gets_neither_token_nor_request(self):
        foreign, foreign_seen = self.standby(503)
        moved, moved_seen = self.standby(307, foreign, "not_owner")
        ledger = Ledger([moved], token="operator-token-1", patience=0.5)
        self.addCleanup(ledger.close)
        with self.assertRaisesRegex(Unavailable, "not in the list"):
            ledger.note("for the owner alone")
        self.assertGreater(len(moved_seen), 1)
        self.assertEqual(foreign_seen, [])

    def test_wrong_token_is_refused_at_once(self):
        other, other_seen = self.standby(503)
        ledger = Ledger([self.url, other], token="unknown-token-123")
        self.addCleanup(ledger.close)
        with self.assertRaises(Rejected) as caught:
            ledger.note("a")
        self.assertEqual(caught.exception.kind, "no_access")
        self.assertEqual(other_seen, [])


class CutAnswers(unittest.TestCase):
    """A server that cuts its first answer off at every byte, and then answers in full."""

    HEAD = b"HTTP/1.1 409 Conflict\r\ncontent-type: application/problem+json\r\ncontent-length: %d\r\n\r\n"
    BODY = b'{"kind":"rejected","rejection":"effect_known","detail":"known","exit_code":6}'

    def test_answer_that_is_cut_off_is_no_rejection(self):
        whole = self.HEAD % len(self.BODY) + self.BODY
        good = b'{"code":0,"lines":[{"type":"noted"}],"said":[]}'
        good = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(good) + good
        with socket.create_server(("127.0.0.1", 0)) as listening:

            def serve():
                for length in range(len(whole)):
                    for answer in (whole[:length], good):
                        connection, _ = listening.accept()
                        with connection:
                            connection.recv(1 << 16)
                            connection.sendall(answer)

            serving = threading.Thread(target=serve, daemon=True)
            serving.start()
            for length in range(len(whole)):
                ledger = Ledger(f"http://127.0.0.1:{listening.getsockname()[1]}", token="t" * 16)
                self.assertEqual(ledger.request({"act": "tick"}).code, 0, f"cut off after {length} bytes")
                ledger.close()
            serving.join()


class Async(Case):
    def run_async(self, body):
        async def run():
            async with AsyncLedger(self.folder) as ledger:
                return await body(ledger)

        return asyncio.run(run())

    def test_many_loops_at_once_do_each_step_once(self):
        self.ledger.propose(plan(*({"id": f"s{number}"} for number in range(20))), "r")
        done = []

        async def loop(ledger):
            async for task in ledger.work("r"):
                async with task:
                    await asyncio.sleep(0.01)
                    async with task.effect(task.id) as effect:
                        self.assertFalse(effect.is_done)
                    done.append(task.id)

        async def body(ledger):
            await asyncio.gather(*(loop(ledger) for _ in range(5)))

        self.run_async(body)
        self.assertEqual(sorted(done), sorted(f"s{number}" for number in range(20)))

    def test_lease_is_renewed_by_a_task(self):
        self.ledger.propose(plan({"id": "a"}, lease=3), "r")

        async def body(ledger):
            async with ledger.claim("r") as task:
                await asyncio.sleep(6)
            self.assertFalse(task.is_lost)

        self.run_async(body)
        self.assertEqual(len(self.records("dispatched")), 1)

    def test_cancelled_worker_releases_its_step(self):
        self.ledger.propose(plan({"id": "a"}), "r")

        async def body(ledger):
            async def work():
                async for task in ledger.work("r"):
                    async with task:
                        begun.set()
                        await asyncio.sleep(60)

            begun = asyncio.Event()
            working = asyncio.ensure_future(work())
            await begun.wait()
            working.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await working

        self.run_async(body)
        self.assertEqual(self.ledger.steps("r"), {"a": "ready"})

    def test_cancelled_claim_leaves_no_step_behind(self):
        self.ledger.propose(plan({"id": "a"}), "r")

        async def body(ledger):
            for pause in (0, 0.001, 0.003, 0.01):
                claim = ledger._claim("r", None, None, (), (), None, 0.0)
                claiming = asyncio.ensure_future(ledger._drive(ledger._taking(claim, is_loop=False)))
                await asyncio.sleep(pause)
                claiming.cancel()
                try:
                    await ledger._drive((await claiming)._giving_up("test", has_begun=False))
                except asyncio.CancelledError:
                    pass

        self.run_async(body)
        self.assertEqual(self.ledger.steps("r"), {"a": "ready"})

    def test_exception_is_a_failed_receipt(self):
        self.ledger.propose(plan({"id": "a"}), "r")

        async def body(ledger):
            with self.assertRaises(ValueError):
                async with ledger.claim("r"):
                    raise ValueError("bad")

        self.run_async(body)
        self.assertEqual(self.receipt()["outcome"]["class"], "deterministic")


if __name__ == "__main__":
    unittest.main()
