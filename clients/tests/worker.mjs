// A worker of the fault test: loops at once, which write one line for each step that the ledger confirmed,
// or that was lost.

import { randomBytes } from "node:crypto";
import { appendFileSync } from "node:fs";

import { Ledger } from "../typescript/src/index.js";

const { PLACE, RUN, WORKER, RESULTS, TOKEN, CONCURRENCY } = process.env;
const ledger = new Ledger(PLACE, { token: TOKEN, start: false, patience: 600 });

function write(task, value) {
  const status = task.isLost ? "lost" : task.result.status;
  const line = { run: task.run, step: task.id, token: Number(task.token.split("-")[0]), value, status };
  appendFileSync(RESULTS, `${JSON.stringify(line)}\n`);
}

async function work(number) {
  for await (const task of ledger.work(RUN, { worker: `${WORKER}/${number}` })) {
    const value = randomBytes(8).toString("hex");
    await task.do(async () => {
      if (task.number % 4 === 0) await task.effect(`effect of ${task.id}`, () => {});
      return { value };
    });
    if (task.isLost || task.result) write(task, value);
  }
}

await Promise.all(Array.from({ length: Number(CONCURRENCY) }, (_, number) => work(number)));
await ledger.close();
