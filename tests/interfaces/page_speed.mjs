// Measures how long Chromium takes to open the report of a long run: until the page is loaded and painted, until
// its first paint, and the time of the processor for it. PAGE_RECORDS: about how many records the run has.
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
  const { metrics } = await session.send("Performance.getMetrics");
  const of = (name) => metrics.find((metric) => metric.name === name).value;
  const [paint, shown] = await page.evaluate(() => [performance.getEntriesByName("first-contentful-paint")[0].startTime,
    `${document.querySelectorAll(".step").length} steps, record ${document.getElementById("seq").textContent}`]);
  const moving = performance.now();
  await page.focus("#at");
  await page.keyboard.press("Home");
  await page.waitForFunction(() => document.body.classList.contains("past"));
  rounds.push({ opened, paint, processor: of("TaskDuration") * 1000, moved: performance.now() - moving, nodes: of("Nodes"), shown });
  await page.close();
}
await browser.close();
const best = (name) => Math.round(Math.min(...rounds.map((round) => round[name])));
console.log(`${(statSync(file).size / 1e6).toFixed(1)} MB, ${rounds[0].shown}, ${rounds[0].nodes} nodes; the best of ${ROUNDS}:`);
console.log(`opened in ${best("opened")} ms (first paint ${best("paint")} ms, processor ${best("processor")} ms)`);
console.log(`the slider moved to the first record in ${best("moved")} ms; load of the computer: ${loadavg().map((it) => it.toFixed(1)).join(" ")}`);
