// A program of a user with types that `openapi-typescript` generates from `format/http.openapi.json`, for `openapi-fetch`.
// It starts a run, answers a question, works on the step, and reads typed states. `clients/run generated` checks its types
// and runs it.
//
//     generated.mjs ADDRESS TOKEN

import assert from "node:assert";
import createClient from "openapi-fetch";
import type { components, paths } from "./generated-client.js";

type Status = components["schemas"]["StepStatus"];

const [baseUrl, token] = process.argv.slice(2);
const run = "generated-typescript";
const client = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${token}` } });

/** The status of a step. */
async function status(step: string): Promise<Status | undefined> {
  const { data, error } = await client.GET("/v1/runs/{run}/state", { params: { path: { run } } });
  assert(data, error?.detail);
  for (const line of data.lines) if (line.type === "step_state" && line.id === step) return line.status;
  return undefined;
}

const steps = [{ id: "publish", gate: { question: "Publish now?" } }];
const started = await client.POST("/v1/runs", { body: { run, plan: { title: "Release", steps } } });
assert(started.data, started.error?.detail);
const before: Status | undefined = await status("publish");

const questions = await client.GET("/v1/runs/{run}/questions", { params: { path: { run } } });
const items = questions.data?.lines.flatMap((line) => (line.type === "next" && line.item ? [line.item] : [])) ?? [];
const question = items.flatMap((item) => (item.kind === "question" ? [item.question] : []))[0];
assert(question);
const answer = { answer: "yes", by: "ana" };
const missing = await client.POST("/v1/questions/{question}/answer", { params: { path: { question: 99 } }, body: answer });
assert(missing.error?.status === 404 && missing.error.hint);
const answered = await client.POST("/v1/questions/{question}/answer", { params: { path: { question } }, body: answer });
assert(answered.data, answered.error?.detail);

const claimed = await client.POST("/v1/claims", { body: { run, worker: "generated" } });
const task = claimed.data?.lines.find((line) => line.type === "task");
assert(task?.type === "task", claimed.error?.detail);
const reported = await client.POST("/v1/claims/{token}/receipt", {
  params: { path: { token: task.token } },
  body: { receipt: { outcome: "succeeded", output: { rows: 3 } } },
});
assert(reported.data, reported.error?.detail);
const after: Status | undefined = await status("publish");
assert.deepStrictEqual([before, after], ["gated", "accepted"]);
// @ts-expect-error not a status
assert(after !== "finished");
console.log(`typescript: ${run}: ${before}, then ${after}`);
