// A program of a user: `tsc --strict` accepts it, and rejects what is marked. `clients/run types` checks it.

import { Ledger, LeaseLost, NothingToDo, Replan, Task, Transient } from "plan-ledger";

async function perform(task: Task): Promise<{ rows: number }> {
  if (task.attempt === 1) throw new Transient("busy", { retryAfter: 2, payload: { status: 429 } });
  if (task.step.tags?.includes("never")) throw new Replan("no", { fromStep: task.id, kind: "scope_change" });
  const count: number | undefined = await task.effect("mail", () => 3, "a mail");
  return { rows: count ?? 0 };
}

await using ledger = new Ledger(".ledger", { patience: 5, warn: (message: string) => console.log(message) });
const run: string = await ledger.propose({ title: "Night", steps: [{ id: "a", goal: "go" }] }, { run: "night" });
for await (const task of ledger.work(run, { worker: "w", tags: ["x"] })) {
  await task.do(() => perform(task));
  const status: string | undefined = task.result?.status;
  console.log(status);
}
try {
  const task = await ledger.claim(run, { lease: 30 });
  await task.do(async (same) => same.fail("no", "deterministic"));
} catch (error) {
  if (error instanceof NothingToDo) console.log(error.isOver);
  else if (!(error instanceof LeaseLost)) throw error;
}
const steps: Record<string, string> = await ledger.steps(run);
const answer = await ledger.request({ act: "note", text: "x", by: "me", run: null, step: null });
console.log(steps, answer.code);
// @ts-expect-error a step needs no number
await ledger.propose({ steps: [{ id: 1 }] }, { run: "bad" });
// @ts-expect-error not a class of failures
(await ledger.claim(run)).fail("no", "sometimes");
