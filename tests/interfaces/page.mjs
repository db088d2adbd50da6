// Goal: Chromium shows the live page and the report file. What a person does there is recorded in the ledger;
// the page follows the ledger through cut connections and new servers; it runs nothing that comes from plans,
// loads nothing from elsewhere, gives a viewer no buttons, and has no violation of accessibility rules.
//
//   node page.mjs             with LEDGER, and CHROMIUM if it is not /usr/bin/chromium
//   PICTURES=DIR node page.mjs     also takes pictures
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { createRequire } from "node:module";
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import puppeteer from "puppeteer-core";

const LEDGER = process.env.LEDGER, PICTURES = process.env.PICTURES;
const CHROMIUM = process.env.CHROMIUM || "/usr/bin/chromium";
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const TOKENS = { viewer: "viewer-token-of-a-test", worker: "worker-token-of-a-test", operator: "operator-token-of-a-test" };
// The computer may be busy.
const PATIENCE = 60_000;

const PLAN = `
title: 'Release 1.2 of the storage engine'
goal: Ship the release without an interruption
budget: {money_micros: 5000000, attempts: 60}
barriers:
  - {id: checked, members: [unit-tests, fuzz, benchmarks], needs: {at_least: 2}}
steps:
  - {id: changes, title: 'Read the <img src=x onerror="window.hacked=1"> changes', goal: 'Read every change since 1.1', outputs: [changes], command: "echo 41"}
  - {id: build, title: Build the packages, after: [changes], outputs: [wheel], acceptance: [the wheel installs on a clean machine], command: "echo engine-1.2.whl"}
  - {id: unit-tests, title: Run the unit tests, after: [changes], retry: {max_attempts: 3}, command: "if test $LEDGER_ATTEMPT = 1; then echo 'left != right' >&2; exit 1; fi; echo 4312 passed"}
  - {id: fuzz, title: Fuzz the parsers for an hour, after: [changes], command: "echo no crash"}
  - {id: benchmarks, title: Run the benchmarks, after: [changes], retry: {max_attempts: 1}, command: "echo 'p99 of 14 ms, expected at most 10 ms' >&2; exit 1"}
  - {id: notes, title: Write the release notes, after: [changes], acceptance: [a person has read them], command: "echo done"}
  - {id: publish, title: Publish the packages, after: [checked], gate: {question: 'Publish release 1.2 to the package index?'}, command: "true"}
  - {id: announce, title: Announce the release, after: [publish, notes, build], owner: human}
`;

const ledger = (...words) => execFileSync(LEDGER, words, { encoding: "utf8" });
/** A command that may find something to complain about. */
const tried = (...words) => { try { return ledger(...words); } catch (error) { return error.stdout; } };
const records = () => ledger("inspect", ".ledger", "records", "--json").split("\n").filter(Boolean).map((line) => JSON.parse(line)).filter((line) => line.type === "record");
const recorded = (kind) => records().filter((record) => record.kind_name === kind || record.event?.is === kind || record.kind === kind);

const freePort = () => new Promise((resolve) => {
  const server = createServer().listen(0, "127.0.0.1", () => {
    const { port } = server.address();
    server.close(() => resolve(port));
  });
});

const serve = async (port) => {
  const child = spawn(LEDGER, ["serve", "--http", `127.0.0.1:${port}`, "--token-file", "tokens"], { stdio: "ignore" });
  for (let tries = 0; !existsSync(".ledger/http.json"); tries++) {
    assert(tries < 600 && child.exitCode === null, "the server does not start");
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  return child;
};
const ended = (child, signal) => new Promise((resolve) => {
  if (child.exitCode !== null || child.signalCode !== null) return resolve();
  child.once("exit", resolve);
  child.kill(signal);
});

let browser;
/** A page that has nothing to complain about, and reaches its own server only. */
const open = async (origin, options = {}) => {
  const context = await browser.createBrowserContext();
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE);
  page.faults = [];
  page.on("pageerror", (error) => page.faults.push(`error: ${error.message}`));
  page.on("console", (message) => {
    // A connection that was cut is what some parts are about, and a refused request another.
    if (message.type() === "error" && !/ERR_CONNECTION|ERR_INCOMPLETE|ERR_EMPTY|40[0-9]|422/.test(message.text())) page.faults.push(message.text());
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(origin) && !request.url().startsWith("data:")) page.faults.push(`request to ${request.url()}`);
  });
  const { width = 1280, height = 900, scheme = "light" } = options;
  await page.setViewport({ width, height });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
  return page;
};
const close = async (page) => {
  assert.deepEqual(page.faults, []);
  assert.equal(await page.evaluate(() => window.hacked), undefined, "text of the plan was executed");
  await page.browserContext().close();
};
const has = (page, text, selector = "body") => page.waitForFunction(
  (text, selector) => [...document.querySelectorAll(selector)].some((node) => node.checkVisibility() && node.innerText.includes(text)), {}, text, selector);
const click = async (page, selector, text) => {
  await page.waitForFunction((selector, text) => [...document.querySelectorAll(selector)].some((node) => node.innerText.includes(text)), {}, selector, text);
  await page.evaluate((selector, text) => [...document.querySelectorAll(selector)].find((node) => node.innerText.includes(text)).click(), selector, text);
};
const show = async (page, origin, role) => {
  await page.goto(`${origin}/`);
  await page.type("#token", TOKENS[role]);
  await page.keyboard.press("Enter");
  await page.waitForSelector("#main");
  await has(page, "Live, record", "#live");
};
const accessible = async (page, what) => {
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
  const found = violations.map((it) => `${it.id}: ${it.nodes.slice(0, 3).map((node) => node.html.slice(0, 200)).join(" | ")}`);
  assert.deepEqual(found, [], what);
};
const picture = async (page, name) => {
  if (!PICTURES) return;
  mkdirSync(PICTURES, { recursive: true });
  await page.screenshot({ path: `${PICTURES}/${name}.png` });
};
const statuses = (page) => page.evaluate(() => Object.fromEntries([...document.querySelectorAll(".step")].map((step) => [
  step.querySelector(".id").textContent, step.hasAttribute("hidden") ? null : step.querySelector(".mark").dataset.s])));
/** What a page shows of a record. */
const shownBy = (page) => page.evaluate(() => ({
  cells: [...document.querySelectorAll("#main [data-k]:not(rect):not(text):not(progress)")].filter((node) => !node.closest("[hidden]")).map((node) => [node.dataset.k, node.textContent]).sort(),
  questions: [...document.querySelectorAll("#questions li")].filter((node) => !node.closest("[hidden]")).map((node) => node.id),
  decisions: [...document.querySelectorAll("#decisions tbody tr")].filter((node) => !node.hidden).length,
  records: [...document.querySelectorAll(".record")].filter((node) => !node.closest("[hidden]")).length,
  versions: [...document.querySelectorAll(".version")].filter((node) => !node.hidden).map((node) => node.innerText.split("\n")[0]),
}));
const until = async (what, check) => {
  for (let tries = 0; !(await check()); tries++) {
    assert(tries < 300, what);
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
};

const parts = {
  async "no token, wrong token: nothing is shown"(origin) {
    const page = await open(origin);
    const response = await page.goto(`${origin}/`);
    assert.match(response.headers()["content-security-policy"], /default-src 'none'/);
    assert(!(await response.text()).includes("storage engine"));
    await page.type("#token", "not-a-token-of-anyone");
    await page.keyboard.press("Enter");
    await has(page, "token is unknown", "#problem");
    assert.equal(await page.$("#main"), null);
    await accessible(page, "the form for the token");
    await close(page);
  },

  async "a viewer has no buttons, and can do nothing"(origin) {
    const page = await open(origin);
    await show(page, origin, "viewer");
    assert.equal(await page.$(".act, #by"), null);
    const status = await page.evaluate(async (token) => (await fetch("/v1/runs/r/pause", {
      method: "POST", headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" }, body: JSON.stringify({ by: "eve" }),
    })).status, TOKENS.viewer);
    assert.equal(status, 403);
    await close(page);
  },

  async "a click answers a question, and the answer is in the ledger"(origin) {
    const page = await open(origin);
    await show(page, origin, "operator");
    await has(page, "Publish release 1.2 to the package index?", "#questions");
    await picture(page, "operator");
    const button = "#questions button[value=yes]";
    await click(page, button, "yes");
    await has(page, "Type in your name", "#problem");
    await page.type("#by", "ana");
    await page.type("#questions input[name=note]", "checked on the test index");
    await click(page, button, "yes");
    await page.waitForFunction(() => document.getElementById("questions").hidden);
    const answers = records().filter((record) => JSON.stringify(record).includes("checked on the test index"));
    assert.equal(answers.length, 1);
    assert.match(JSON.stringify(answers[0]), /"by":"ana"/);
    assert.match(JSON.stringify(answers[0]), /"answer":"yes"/);
    await has(page, "checked on the test index", "#decisions");
    await close(page);
  },

  async "an operator pauses, resumes, retries, judges and skips, by keyboard"(origin) {
    const page = await open(origin);
    await show(page, origin, "operator");
    await page.type("#by", "ana");
    await page.focus(".head .act input[name=reason]");
    await page.keyboard.type("lunch");
    await page.keyboard.press("Enter");
    await has(page, "paused by ana", ".pause");
    await page.focus(".head .act button");
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => document.querySelector("[data-k=run]").textContent === "running");
    // Every step is reached and opened by the keyboard.
    const of = async (id) => {
      const step = await page.evaluateHandle((id) => [...document.querySelectorAll(".step")].find((it) => it.querySelector(".id").textContent === id), id);
      await step.evaluate((it) => it.querySelector("summary").focus());
      if (!(await step.evaluate((it) => it.open))) await page.keyboard.press("Enter");
      assert(await step.evaluate((it) => it.open), `${id} is open`);
      return step;
    };
    // The page replaces a step that changes, so its element is looked for each time.
    const focus = async (id, selector) => {
      await of(id);
      await page.evaluate((id, selector) => [...document.querySelectorAll(".step")].find((it) => it.querySelector(".id").textContent === id).querySelector(selector).focus(), id, selector);
    };
    const press = async (id, selector) => {
      await focus(id, selector);
      await page.keyboard.press("Enter");
    };
    await press("benchmarks", "form[data-path$=retry] button");
    await until("benchmarks is ready", async () => (await statuses(page)).benchmarks === "ready");
    assert(await (await of("benchmarks")).evaluate((it) => it.open), "a step stays open when it changes");
    await focus("notes", "input[name=evidence]");
    await page.keyboard.type("read on paper");
    await press("notes", "button[value=pass]");
    await until("notes is accepted", async () => (await statuses(page)).notes === "accepted");
    await focus("announce", "form[data-path$=skip] input");
    await page.keyboard.type("no news this time");
    await page.keyboard.press("Enter");
    await until("announce is skipped", async () => (await statuses(page)).announce === "skipped");
    // Loads at the same time would bring the same records twice.
    await page.focus("#at");
    await page.keyboard.press("Home");
    await has(page, "Record 1 ", ".slider");
    const whole = await page.evaluate(async (token) => (await fetch("/v1/page", { headers: { Authorization: `Bearer ${token}` } })).text(), TOKENS.operator);
    assert.equal(await page.$eval("#at", (node) => node.max), /id="at"[^>]* max="(\d+)"/.exec(whole)[1]);
    const all = records().map((record) => JSON.stringify(record));
    for (const words of [["lunch"], ["read on paper"], ["no news this time"]]) {
      assert.equal(all.filter((record) => words.every((word) => record.includes(word))).length, 1, words[0]);
    }
    await close(page);
  },

  async "the page follows the ledger through a new server, and misses nothing"(origin, server) {
    const page = await open(origin);
    await show(page, origin, "viewer");
    ledger("note", "before the cut", "--by", "ben", "--run", "r");
    await has(page, "before the cut", "#decisions");
    await ended(server.child, "SIGKILL");
    await has(page, "Connection lost", "#live");
    for (let number = 0; number < 20; number++) ledger("note", `while it was gone: ${number}.`, "--by", "ben", "--run", "r");
    rmSync(".ledger/http.json", { force: true });
    server.child = await serve(server.port);
    await has(page, "while it was gone: 19.", "#decisions");
    const head = records().at(-1).seq;
    await has(page, `Live, record ${head}`, "#live");
    const rows = await page.$$eval("#decisions tbody tr", (rows) => rows.map((row) => row.innerText).filter((text) => text.includes("while it was gone")));
    assert.equal(rows.length, 20);
    assert.equal(new Set(rows).size, 20);
    await close(page);
  },

  async "the slider shows each record as a page of that record does"(origin) {
    const page = await open(origin);
    await show(page, origin, "operator");
    const shown = () => shownBy(page);
    const newest = await shown();
    await page.focus("#at");
    await page.keyboard.press("Home");
    await has(page, "Record 1 ", ".slider");
    assert.equal(await page.$eval("#questions", (node) => node.hidden), true);
    assert.equal(await page.evaluate(() => [...document.querySelectorAll(".act")].some((node) => node.checkVisibility())), false, "the past has no buttons");
    await page.keyboard.press("End");
    await page.waitForFunction(() => !document.body.classList.contains("past"));
    assert.deepEqual(await shown(), newest, "the end is the newest record");
    const fresh = await open(origin);
    const own = records().filter((record) => record.run === 1 || record.event?.run === 1).map((record) => record.seq);
    assert(own.length > 20, `${own.length} records`);
    for (const seq of own.filter((_, index) => index % 4 === 3)) {
      await page.$eval("#goto", (node, seq) => { node.value = seq; node.dispatchEvent(new Event("change", { bubbles: true })); }, seq);
      const moved = await shown();
      await fresh.goto(`${origin}/healthz`);
      const text = await fresh.evaluate(async (seq, token) => (await fetch(`/v1/page?at=${seq}`, { headers: { Authorization: `Bearer ${token}` } })).text(), seq, TOKENS.operator);
      await fresh.setContent(text.replace(/<script>[^]*?<\/script>|<meta http-equiv[^>]*>/g, ""));
      const then = await shownBy(fresh);
      assert.deepEqual(moved, then, `record ${seq}`);
    }
    fresh.faults = [];
    await close(fresh);
    await close(page);
  },

  async "a long plan is live, and its chunks follow the ledger and the slider"() {
    const COUNT = 1_300, home = process.cwd();
    mkdirSync("long");
    process.chdir("long");
    const port = await freePort(), origin = `http://127.0.0.1:${port}`;
    writeFileSync("tokens", readFileSync("../tokens"), { mode: 0o600 });
    writeFileSync("plan.json", JSON.stringify({ title: "A long plan", steps: Array.from({ length: COUNT }, (_, number) => ({ id: `task-${number}`, title: `Table <b>${number}</b> & "more"` })) }));
    ledger("init");
    ledger("plan", "propose", "plan.json", "--run", "long");
    const child = await serve(port);
    try {
      const page = await open(origin);
      await show(page, origin, "operator");
      const count = (selector) => page.$$eval(selector, (nodes) => nodes.length);
      await until("all steps are built", async () => (await count(".step")) === COUNT);
      assert.equal(await count(".step b"), 0, "a title is text");
      const marks = async (status) => count(`.step:not([hidden]) .mark[data-s=${status}]`);
      const claim = async (step) => {
        const response = await fetch(`${origin}/v1/claims`, {
          method: "POST", headers: { Authorization: `Bearer ${TOKENS.worker}`, "Content-Type": "application/json" }, body: JSON.stringify({ worker: "w", step }),
        });
        assert.equal(response.status, 201);
      };
      for (const step of ["task-3", "task-700", "task-1299"]) await claim(step);
      await until("three steps are dispatched", async () => (await marks("dispatched")) === 3);
      const steps = await statuses(page);
      assert.deepEqual([steps["task-700"], steps["task-701"]], ["dispatched", "ready"]);
      const head = records().at(-1).seq;
      const go = (seq) => page.$eval("#goto", (node, seq) => { node.value = seq; node.dispatchEvent(new Event("change", { bubbles: true })); }, seq);
      await go(1);
      await until("no step is there", async () => (await count(".step:not([hidden])")) === 0 || (await count(".chunk:not([hidden])")) === 0);
      await go(head - 1);
      await until("two steps were dispatched", async () => (await marks("dispatched")) === 2 && (await marks("ready")) === COUNT - 2);
      await claim("task-1000");
      await has(page, `Live, record ${records().at(-1).seq}`, "#live");
      await until("the past does not change", async () => (await marks("dispatched")) === 2 && (await marks("ready")) === COUNT - 2);
      await click(page, "#newest", "newest");
      await until("the newest record is shown", async () => (await marks("dispatched")) === 4);
      await page.keyboard.press("/");
      await page.keyboard.type("task-1000");
      await has(page, `1 of ${COUNT}`, "#found");
      assert.deepEqual(await page.$$eval(".step", (nodes) => nodes.filter((node) => node.checkVisibility()).map((node) => node.id)), ["step-1001"]);
      await close(page);
    } finally {
      await ended(child, "SIGTERM");
      process.chdir(home);
    }
  },

  async "the report file needs no server, and is accessible in light and dark, wide and narrow"() {
    const file = `file://${process.cwd()}/report.html`;
    ledger("report", "--html", "report.html");
    for (const [name, options] of Object.entries({
      desktop: {}, dark: { scheme: "dark" }, phone: { width: 390, height: 844 },
    })) {
      const page = await open("file://", options);
      await page.setOfflineMode(true);
      await page.goto(file);
      assert.deepEqual(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true, `${name}: nothing is wider than the window`);
      await picture(page, name);
      await page.evaluate(() => document.querySelectorAll("details").forEach((node) => { node.open = true; }));
      await accessible(page, name);
      await close(page);
    }
  },

  async "the report says what it has to say without its script"() {
    const page = await open("file://");
    await page.setJavaScriptEnabled(false);
    await page.goto(`file://${process.cwd()}/report.html`);
    const text = await page.evaluate(() => document.body.textContent);
    for (const word of ["left != right", "read on paper", "no news this time", "exit status 1", "4312 passed"]) assert(text.includes(word), word);
    assert.deepEqual(page.faults, []);
    await page.browserContext().close();
  },

  async "a damaged ledger is shown as such"() {
    const log = execFileSync("find", [".ledger/log", "-name", "*.seg*", "-size", "+1k"], { encoding: "utf8" }).split("\n").filter(Boolean).sort()[0]
      ?? execFileSync("find", [".ledger/log", "-type", "f", "-size", "+1k"], { encoding: "utf8" }).split("\n").filter(Boolean).sort()[0];
    const bytes = readFileSync(log);
    const place = bytes.indexOf(Buffer.from("while it was gone: 3."));
    assert(place > 0, "the record is in the file");
    bytes[place] ^= 0xff;
    writeFileSync(log, bytes);
    tried("report", "--html", "damaged.html");
    const page = await open("file://");
    await page.goto(`file://${process.cwd()}/damaged.html`);
    await has(page, "The log is damaged", "#damage");
    await has(page, "bytes", "#damage");
    await picture(page, "damaged");
    await accessible(page, "damaged");
    await close(page);
  },
};

writeFileSync("plan.yaml", PLAN);
writeFileSync("tokens", Object.entries(TOKENS).map((pair) => pair.join(" ")).join("\n"), { mode: 0o600 });
ledger("init");
tried("run", "plan.yaml", "--run", "r", "--yes", "--quiet", "--on-unknown", "retry", "--text", "judge");
writeFileSync("plan.yaml", `${PLAN.replace("Announce the release", "Announce the release to every customer")}  - {id: mirror, title: Update the mirrors, after: [publish], command: "true"}\n`);
tried("plan", "propose", "plan.yaml", "--run", "r", "--reason", "the mirrors were forgotten");
// A new version reopens what had failed.
tried("run", "plan.yaml", "--run", "r", "--yes", "--quiet");
const port = await freePort(), origin = `http://127.0.0.1:${port}`;
const server = { port, child: await serve(port) };
browser = await puppeteer.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"], protocolTimeout: 600_000 });
const wanted = process.argv.slice(2);
let failed = 0;
for (const [name, part] of Object.entries(parts)) {
  if (wanted.length && !wanted.some((word) => name.includes(word))) continue;
  if (/report|damaged/.test(name)) await ended(server.child, "SIGTERM");
  try {
    await part(origin, server);
    console.log(`ok: ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED: ${name}: ${error.stack}`);
  }
}
await browser.close();
await ended(server.child, "SIGTERM");
process.exit(failed ? 1 : 0);
