// What the TypeScript client promises, with a real program: `LEDGER` names it.
//
//     LEDGER=target/debug/ledger node --test clients/tests/typescript.test.mjs

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer as createHttpServer } from "node:http";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { Deterministic, LeaseLost, Ledger, LedgerError, NothingToDo, Rejected, Replan, Transient, Unavailable } from "../typescript/src/index.js";

const PROGRAM = (process.env.PLAN_LEDGER_PROGRAM ??= process.env.LEDGER ?? "ledger");
const INDEX = new URL("../typescript/src/index.js", import.meta.url).href;
for (const name of ["LEDGER_DIR", "LEDGER_RUN", "LEDGER_SERVER", "LEDGER_WORKER", "LEDGER_TOKEN"]) delete process.env[name];

const plan = (...steps) => ({ title: "Test", defaults: { lease_seconds: 60 }, steps });
const withLease = (seconds, ...steps) => ({ ...plan(...steps), defaults: { lease_seconds: seconds } });

/** A test with a ledger of its own. */
function place(name, body) {
  test(name, { timeout: 120_000 }, async () => {
    const base = mkdtempSync(join(tmpdir(), "client-"));
    const folder = join(base, "l");
    execFileSync(PROGRAM, ["init", "--ledger", folder]);
    const warnings = [];
    const ledger = new Ledger(folder, { warn: (message, error) => warnings.push(`${message}: ${error}`) });
    const records = (kind) =>
      execFileSync(PROGRAM, ["inspect", folder, "records", "--kind", kind, "--json"], { encoding: "utf8", maxBuffer: 1 << 28 })
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line))
        .filter((line) => line.type === "record")
        .map((line) => line.event);
    const receipt = () => records("receipt_recorded").at(-1).receipt;
    try {
      await body({ base, folder, ledger, records, receipt, warnings });
    } finally {
      await ledger.close();
      rmSync(base, { recursive: true, force: true });
    }
  });
}

/** The servers of a ledger. */
function servers(folder) {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter((name) => {
      try {
        const words = readFileSync(`/proc/${name}/cmdline`, "utf8").split("\0");
        return words.includes("serve") && words.includes(folder);
      } catch {
        return false;
      }
    })
    .map(Number);
}

async function until(what, holds) {
  for (let left = 1200; !holds(); left -= 1) {
    assert.ok(left > 0, what);
    await sleep(50);
  }
}

/** A process that runs a module with `Ledger` and `folder`, until it has printed a line. */
async function started(folder, code) {
  // Temporary files are beside the ledger.
  const env = { ...process.env, TMPDIR: dirname(folder) };
  const text = `import { Ledger } from ${JSON.stringify(INDEX)};\nconst folder = ${JSON.stringify(folder)};\n${code}`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", text], { env, stdio: ["ignore", "pipe", "inherit"] });
  await new Promise((printed) => child.stdout.once("data", printed));
  return { child, ended: new Promise((done) => child.once("exit", (code, signal) => done({ code, signal }))) };
}

place("loop does every step in order and ends with the run", async ({ ledger, receipt }) => {
  const run = await ledger.propose(plan({ id: "a", outputs: ["x"] }, { id: "b", after: ["a"], inputs: ["x"] }), { run: "r" });
  const seen = [];
  for await (const task of ledger.work(run)) {
    await task.do(() => {
      seen.push([task.id, task.inputs]);
      task.done(task.id === "a" ? { x: 12 } : null, { tokens: 7, money: 0.25 });
    });
    assert.equal(task.result?.status, "accepted");
  }
  assert.deepEqual(seen, [["a", {}], ["b", { x: 12 }]]);
  assert.deepEqual(await ledger.steps("r"), { a: "accepted", b: "accepted" });
  assert.equal(await ledger.get("x", "r"), 12);
  assert.deepEqual(receipt().cost, { money_micros: 250_000, tokens: 7 });
});

place("break releases the step that was claimed with the receipt", async ({ ledger }) => {
  await ledger.propose(plan({ id: "a" }, { id: "b" }), { run: "r" });
  for await (const task of ledger.work("r")) {
    await task.do(() => {});
    break;
  }
  assert.deepEqual(await ledger.steps("r"), { a: "accepted", b: "ready" });
});

place("no step rejects with the reason", async ({ ledger }) => {
  await ledger.propose(plan({ id: "a" }), { run: "r" });
  const task = await ledger.claim("r");
  await assert.rejects(ledger.claim("r"), (error) => error instanceof NothingToDo && !error.isOver);
  await task.do(() => {});
  await assert.rejects(ledger.claim("r", { wait: 5 }), (error) => error instanceof NothingToDo && error.isOver);
});

place("same plan is proposed once and a file of any form is read", async ({ base, ledger, records }) => {
  const path = join(base, "night.yaml");
  writeFileSync(path, "steps:\n  - {id: a, goal: one}\n");
  assert.deepEqual([await ledger.propose(path), await ledger.propose(path)], ["night", "night"]);
  assert.equal(records("plan_proposed").length, 1);
  await assert.rejects(ledger.propose({ steps: [{ id: "a" }, { id: "a" }] }, { run: "bad" }), Rejected);
});

place("error becomes a failed receipt with its class", async ({ ledger, receipt }) => {
  const system = () => readFileSync("/no/such/file");
  const cases = [
    [system, "transient"],
    [() => Promise.reject(new DOMException("slow", "TimeoutError")), "transient"],
    [() => null.x, "deterministic"],
    [() => JSON.parse("{"), "deterministic"],
    [() => assert.equal(1, 2), "deterministic"],
    [() => Promise.reject(new Error("?")), "unknown"],
    [() => Promise.reject(new Transient("later")), "transient"],
    [() => Promise.reject(new Deterministic("never")), "deterministic"],
  ];
  await ledger.propose(plan(...cases.map((_, number) => ({ id: `s${number}` }))), { run: "r" });
  for (const [number, [body, word]] of cases.entries()) {
    const task = await ledger.claim("r", { step: `s${number}` });
    await assert.rejects(task.do(body));
    assert.deepEqual([receipt().outcome.is, receipt().outcome.class], ["failed", word], `case ${number}`);
  }
  await assert.rejects((await ledger.propose(plan({ id: "a" }), { run: "q" }), await ledger.claim("q")).do(() => { throw new Replan("another way"); }), Replan);
  assert.equal(receipt().outcome.is, "replan_requested");
});

place("text that no message can contain is reported all the same", async ({ ledger, records }) => {
  const long = "\u{1F600}".repeat(300_000);
  const halved = new Error("x");
  halved.stack = `${long}.`;
  const cases = [new RangeError("no file \uDCE9"), new Transient(long, { retryAfter: 0.2 }), new Replan("\uDCE9"), halved];
  await ledger.propose(plan(...cases.map((_, number) => ({ id: `s${number}` }))), { run: "r" });
  for (const [number, error] of cases.entries()) {
    const task = await ledger.claim("r", { step: `s${number}` });
    await assert.rejects(task.do(() => Promise.reject(error)), (thrown) => thrown === error);
  }
  const outcomes = records("receipt_recorded").map((event) => event.receipt.outcome);
  assert.deepEqual(outcomes.map((each) => each.class), ["deterministic", "transient", undefined, "unknown"]);
  assert.equal(outcomes[0].message, "RangeError: no file \uFFFD");
  assert.deepEqual([outcomes[1].message, outcomes[1].payload.retry_after_seconds], [long, 1]);
  assert.equal(outcomes[2].reason, "\uFFFD");
});

place("failed step of a loop is tried again, and effects happen once", async ({ ledger, warnings, records }) => {
  await ledger.propose(plan({ id: "a", retry: { max_attempts: 2 } }), { run: "r" });
  const sent = [];
  for await (const task of ledger.work("r")) {
    await task.do(async () => {
      await task.effect("mail", () => sent.push(task.attempt));
      if (task.attempt === 1) throw new Transient("after the mail");
      assert.match(task.lastFailure, /after the mail/);
    });
  }
  assert.deepEqual(sent, [1]);
  assert.equal(records("effect_committed").length, 1);
  assert.match(warnings[0], /failed/);
});

place("SIGINT of a real process releases the step", async ({ folder, ledger }) => {
  await ledger.propose(withLease(600, { id: "a" }), { run: "r" });
  const { child, ended } = await started(
    folder,
    "for await (const task of new Ledger(folder).work('r')) await task.do(() => { console.log('begun'); return new Promise((done) => setTimeout(done, 60000)); });",
  );
  child.kill("SIGINT");
  assert.equal((await ended).signal, "SIGINT");
  assert.deepEqual(await ledger.steps("r"), { a: "ready" });
});

place("aborted loop releases its step", async ({ ledger }) => {
  await ledger.propose(plan({ id: "a" }), { run: "r" });
  const aborting = new AbortController();
  for await (const task of ledger.work("r", { signal: aborting.signal })) {
    await task.do(async () => {
      aborting.abort();
      aborting.signal.throwIfAborted();
    });
  }
  assert.deepEqual(await ledger.steps("r"), { a: "ready" });
});

place("receipt that the ledger rejects becomes a failure", async ({ ledger, receipt }) => {
  await ledger.propose(plan({ id: "a" }), { run: "r" });
  await (await ledger.claim("r")).do((task) => task.done(1, { variables: { "": 2 } }));
  assert.equal(receipt().outcome.class, "deterministic");
  assert.match(receipt().outcome.message, /the receipt was rejected/);
});

place("lease is renewed while the body works", async ({ ledger, records }) => {
  await ledger.propose(withLease(3, { id: "a" }), { run: "r" });
  const task = await ledger.claim("r");
  await task.do(() => sleep(6000));
  assert.ok(!task.isLost);
  assert.equal(records("dispatched").length, 1);
  assert.ok(records("lease_renewed").length >= 3);
});

place("step of a killed worker is free long before its lease expires", async ({ folder, ledger, records }) => {
  await ledger.propose(withLease(36_000, { id: "a" }, { id: "b" }), { run: "r" });
  await ledger.close();
  const { child, ended } = await started(
    folder,
    "for await (const task of new Ledger(folder).work('r')) await task.do(() => { if (task.id === 'b') { console.log('begun'); return new Promise((done) => setTimeout(done, 60000)); } });",
  );
  child.kill("SIGKILL");
  assert.equal((await ended).signal, "SIGKILL");
  const begun = performance.now();
  const task = await ledger.claim("r", { wait: 600 });
  assert.deepEqual([task.id, task.attempt], ["b", 2]);
  assert.ok(performance.now() - begun < 300_000);
  await task.do(() => {});
  assert.equal(records("attempt_lost").at(-1).cause, "runner_died");
});

place("lost lease is thrown, aborts the signal, and does not end a loop", async ({ ledger, records, warnings }) => {
  await ledger.propose(withLease(3, { id: "a" }), { run: "r" });
  const release = { act: "release_step", run: "r", step: "a", by: "a person" };
  const task = await ledger.claim("r");
  await ledger.request(release);
  await assert.rejects(
    task.do(() => sleep(60_000, undefined, { signal: task.signal })),
    (error) => error.name === "AbortError" && task.isLost,
  );
  await assert.rejects(task.effect("e", () => assert.fail()), LeaseLost);
  assert.equal(records("receipt_recorded").length, 0);
  const lost = [];
  for await (const each of ledger.work("r")) {
    await each.do(async () => {
      if (lost.length === 0) await ledger.request(release);
    });
    lost.push(each.isLost);
  }
  assert.deepEqual(lost, [true, false]);
  assert.match(warnings.join(), /is lost/);
});

place("large output goes by file", async ({ ledger, receipt }) => {
  await ledger.propose(plan({ id: "a" }, { id: "b", outputs: ["rows", "count"] }), { run: "r" });
  await (await ledger.claim("r", { step: "a" })).do(() => "x".repeat(9 << 20));
  const { output, artifacts } = receipt();
  assert.deepEqual(artifacts.map((each) => each.path), [output.artifact]);
  assert.equal(JSON.parse(readFileSync(output.artifact, "utf8")).length, 9 << 20);
  await (await ledger.claim("r", { step: "b" })).do(() => ({ rows: Array(9000).fill("y".repeat(1000)), count: 9000 }));
  assert.equal(await ledger.get("count", "r"), 9000);
  const rows = await ledger.get("rows", "r");
  assert.equal(JSON.parse(readFileSync(rows.artifact, "utf8")).length, 9000);
});

place("server is started and ends with the client, also if that is killed", async ({ base, folder, ledger }) => {
  assert.deepEqual(servers(folder), []);
  await ledger.note("x");
  assert.equal(servers(folder).length, 1);
  await ledger.close();
  assert.deepEqual(servers(folder), []);
  const { child, ended } = await started(
    folder,
    "await new Ledger(folder).note('x'); console.log('noted'); setTimeout(() => {}, 60000);",
  );
  assert.equal(servers(folder).length, 1);
  child.kill("SIGKILL");
  await ended;
  await until("the server ends", () => servers(folder).length === 0);
  assert.deepEqual(readdirSync(base), ["l"], "a killed client leaves nothing behind");
});

place("client keeps no process alive", async ({ folder }) => {
  const { ended } = await started(folder, "await new Ledger(folder).note('x'); console.log('noted');");
  assert.equal((await ended).code, 0);
});

place("killed server is replaced and no request is lost", async ({ folder, ledger, records }) => {
  await ledger.propose(plan(...Array.from({ length: 30 }, (_, number) => ({ id: `s${number}` }))), { run: "r" });
  let number = 0;
  for await (const task of ledger.work("r")) {
    await task.do(() => {
      number += 1;
      if (number % 7 === 3) for (const server of servers(folder)) process.kill(server, "SIGKILL");
    });
  }
  assert.equal(records("accepted").length, 30);
  assert.equal(records("receipt_recorded").length, 30);
});

place("what cannot be reached is reported", async ({ base, folder }) => {
  const none = new Ledger(join(base, "none"));
  await assert.rejects(none.note("x"), (error) => error instanceof LedgerError && /no ledger at/.test(error.message));
  await none.close();
  await assert.rejects(new Ledger(folder, { start: false, patience: 0.3 }).note("x"), Unavailable);
});

place("long path is reached", async ({ base }) => {
  const folder = join(base, "d".repeat(100), "l");
  mkdirSync(join(folder, ".."));
  execFileSync(PROGRAM, ["init", "--ledger", folder]);
  const ledger = new Ledger(folder);
  await ledger.note("far");
  await ledger.note("away");
  await ledger.close();
});

place("answer that was lost is the same under its key", async ({ ledger }) => {
  await ledger.propose(plan({ id: "a" }, { id: "b" }), { run: "r" });
  const request = { act: "claim", run: "r", worker: "w", secret: "ab".repeat(16) };
  const [first, again] = [await ledger.request(request, "the-key"), await ledger.request(request, "the-key")];
  assert.equal(first.lines[0].token, again.lines[0].token);
  await assert.rejects(ledger.request({ ...request, worker: "v" }, "the-key"), { kind: "key_reused" });
});

place("work over HTTP with roles", async ({ base, folder }) => {
  const tokens = join(base, "tokens");
  writeFileSync(tokens, "operator operator-token-1\nworker worker-token-1234\nviewer viewer-token-1234\n");
  const port = await new Promise((found) => {
    const one = createServer().listen(0, "127.0.0.1", () => {
      const { port } = one.address();
      one.close(() => found(port));
    });
  });
  const server = spawn(PROGRAM, ["serve", "--ledger", folder, "--http", `127.0.0.1:${port}`, "--token-file", tokens]);
  await new Promise((ready) => server.stdout.once("data", ready));
  const over = (token) => new Ledger(`http://127.0.0.1:${port}`, { token });
  await over("operator-token-1").propose(plan({ id: "a", outputs: ["x"] }, { id: "b" }), { run: "r" });
  const worker = over("worker-token-1234");
  for await (const task of worker.work("r")) await task.do(() => ({ x: 1 }));
  assert.equal(await worker.get("x", "r"), 1);
  assert.deepEqual(await worker.steps("r"), { a: "accepted", b: "accepted" });
  await assert.rejects(over("viewer-token-1234").claim("r"), { kind: "wrong_role" });
  await assert.rejects(over("unknown-token-123").claim("r"), { kind: "no_access" });

  // Owner and standbys: the one that holds the ledger is found, and no other machine gets anything.
  const url = `http://127.0.0.1:${port}`;
  const waiting = await standby(503, "no_owner");
  const moved = await standby(307, "not_owner", url);
  for (const list of [[waiting.url, moved.url, url], `${waiting.url}, ${moved.url},${url}`]) {
    const before = moved.seen.length;
    const ledger = new Ledger(list, { token: "operator-token-1" });
    await ledger.note("to the owner");
    assert.deepEqual(moved.seen[before], waiting.seen[before]);
    assert.match(moved.seen[before], /"once"/);
    assert.equal(await ledger.get("x", "r"), 1);
    assert.equal(moved.seen.length, before + 1);
    await ledger.close();
  }
  const foreign = await standby(503, "no_owner");
  const away = await standby(307, "not_owner", foreign.url);
  const lost = new Ledger([away.url], { token: "operator-token-1", patience: 0.5 });
  await assert.rejects(lost.note("for the owner alone"), /not in the list/);
  assert.ok(away.seen.length > 1);
  assert.deepEqual(foreign.seen, []);
  await assert.rejects(new Ledger([url, foreign.url], { token: "unknown-token-123" }).note("a"), { kind: "no_access" });
  assert.deepEqual(foreign.seen, []);
  for (const each of [waiting, moved, foreign, away]) each.close();
  server.kill();
  await new Promise((ended) => server.once("exit", ended));
});

/** A server that executes nothing, and keeps what it was sent. */
async function standby(status, kind, location) {
  const seen = [];
  const server = createHttpServer((request, response) => {
    const parts = [];
    request.on("data", (part) => parts.push(part));
    request.on("end", () => {
      seen.push(`${request.url} ${request.headers.authorization} ${Buffer.concat(parts)}`);
      const headers = location === undefined ? {} : { Location: location + request.url };
      response.writeHead(status, headers);
      response.end(JSON.stringify({ kind, rejection: null, detail: "why", exit_code: 5 }));
    });
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  return { url: `http://127.0.0.1:${server.address().port}`, seen, close };
}

test("answer that is cut off is no rejection", { timeout: 120_000 }, async () => {
  const body = '{"kind":"rejected","rejection":"effect_known","detail":"known","exit_code":6}';
  const whole = `HTTP/1.1 409 Conflict\r\ncontent-type: application/problem+json\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
  const good = '{"code":0,"lines":[{"type":"noted"}],"said":[]}';
  let number = 0;
  const server = createServer((connection) => {
    const cut = Math.floor(number / 2);
    const isCut = number % 2 === 0;
    number += 1;
    connection.on("error", () => {});
    connection.once("data", () =>
      connection.end(isCut ? whole.slice(0, cut) : `HTTP/1.1 200 OK\r\ncontent-length: ${good.length}\r\n\r\n${good}`),
    );
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  for (let length = 0; length < whole.length; length += 1) {
    const ledger = new Ledger(`http://127.0.0.1:${server.address().port}`, { token: "t".repeat(16) });
    assert.equal((await ledger.request({ act: "tick" })).code, 0, `cut off after ${length} bytes`);
    await ledger.close();
  }
  server.close();
});

place("many loops at once do each step once", async ({ ledger, records }) => {
  await ledger.propose(plan(...Array.from({ length: 20 }, (_, number) => ({ id: `s${number}` }))), { run: "r" });
  const done = [];
  const loop = async () => {
    for await (const task of ledger.work("r")) {
      await task.do(async () => {
        await sleep(10);
        done.push(task.id);
      });
    }
  };
  await Promise.all([loop(), loop(), loop(), loop(), loop()]);
  assert.equal(new Set(done).size, 20);
  assert.equal(records("receipt_recorded").length, 20);
});
