// Measures how long Chromium takes to open the report of a long run: until the page is loaded and painted, until
// its first paint, and the time of the processor for it; and how long the slider takes to move. After each move,
// all steps must get the statuses that the summary of the run counts. PAGE_RECORDS: about how many records the run
// has.
import { execFileSync } from "node:child_process";
import { statSync, writeFileSync } from "node:fs";
import { loadavg } from "node:os";
import puppeteer from "puppeteer-core";

const LEDGER = process.env.LEDGER, ROUNDS = 5, OF_A_STEP = 4.3;
const wanted = Number(process.env.PAGE_RECORDS || 100_000);
const file = process.argv[2] || "report.html";
if (!process.argv[2]) {
  const steps = Array.from({ length: Math.ceil(wanted / OF_A_STEP) }, (_, number) => ({
    id: `task-${number}`, title: `Migrate table number ${number}`,
    goal: `Copy the rows of table ${number} to the new store, and compare the counts.`,
    outputs: [`rows_${number % 40}`], ...(number > 20 && { after: [`task-${number - 1 - number % 20}`] }),
    ...(number % 3 === 0 && { acceptance: ["the counts are the same"] }),
  }));
  writeFileSync("plan.json", JSON.stringify({ title: "A long run", steps }));
  const ledger = (...words) => execFileSync(LEDGER, words, { stdio: ["ignore", "ignore", "inherit"] });
  ledger("init");
  ledger("run", "plan.json", "--stub", "--quiet", "--max-parallel", "64");
  ledger("report", "--html", file);
}
const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM || "/usr/bin/chromium", args: ["--no-sandbox"], protocolTimeout: 600_000,
});
/** Whether the steps have the statuses that the summary counts. */
const agree = () => {
  const counted = {};
  for (const mark of document.querySelectorAll(".step:not([hidden]) .mark")) counted[mark.dataset.s] = (counted[mark.dataset.s] || 0) + 1;
  const words = { "in flight": "dispatched", "waiting for verdicts": "reported" }, told = {};
  for (const [, count, word] of document.querySelector("[data-k=progress]").textContent.matchAll(/([\d,]+)(?:\/[\d,]+)? ([a-z ]+)/g)) {
    if (count !== "0") told[words[word] || word] = Number(count.replaceAll(",", ""));
  }
  return JSON.stringify(Object.entries(counted).sort()) === JSON.stringify(Object.entries(told).sort());
};
const rounds = [];
for (let round = 0; round < ROUNDS; round++) {
  const page = await browser.newPage();
  await page.setViewport({ width: 1280, height: 900 });
  const session = await page.createCDPSession();
  await session.send("Performance.enable", { timeDomain: "threadTicks" });
  const begun = performance.now();
  await page.goto(new URL(file, `file://${process.cwd()}/`).href, { timeout: 600_000 });
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => setTimeout(done))));
  const opened = performance.now() - begun;
  const measured = async (name) => (await session.send("Performance.getMetrics")).metrics.find((metric) => metric.name === name).value;
  const [processor, nodes] = [await measured("TaskDuration") * 1000, await measured("Nodes")];
  const [paint, shown] = await page.evaluate(() => [performance.getEntriesByName("first-contentful-paint")[0].startTime,
    `${document.querySelectorAll(".step").length} steps, record ${document.getElementById("seq").textContent}`]);
  // The time until the page is painted, and the steps in view with it.
  const moved = {};
  for (const [name, change] of Object.entries({
    first: () => page.keyboard.press("Home"),
    middle: () => page.$eval("#at", (node) => { node.value = node.max >> 1; node.dispatchEvent(new Event("input", { bubbles: true })); }),
    back: () => page.keyboard.press("ArrowLeft"),
    newest: () => page.keyboard.press("End"),
  })) {
    await page.focus("#at");
    const before = await page.$eval("#seq", (node) => node.textContent);
    const used = await measured("TaskDuration"), begun = performance.now();
    await change();
    await page.waitForFunction((before) => document.getElementById("seq").textContent !== before, { polling: "raf" }, before);
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => setTimeout(done))));
    moved[name] = performance.now() - begun;
    moved[`${name} processor`] = (await measured("TaskDuration") - used) * 1000;
    if (round === 0 && name !== "first") await page.waitForFunction(agree, { timeout: 600_000, polling: 200 });
  }
  rounds.push({ opened, paint, processor, nodes, shown, ...moved });
  await page.close();
}
await browser.close();
const best = (name) => Math.round(Math.min(...rounds.map((round) => round[name])));
console.log(`${(statSync(file).size / 1e6).toFixed(1)} MB, ${rounds[0].shown}, ${rounds[0].nodes} nodes; the best of ${ROUNDS}:`);
console.log(`opened in ${best("opened")} ms (first paint ${best("paint")} ms, processor ${best("processor")} ms)`);
const move = (name) => `${name} in ${best(name)} ms (processor ${best(`${name} processor`)} ms)`;
console.log(`the slider moved to the ${["first", "middle", "back", "newest"].map(move).join(", ")}`);
console.log(`load of the computer: ${loadavg().map((it) => it.toFixed(1)).join(" ")}`);
