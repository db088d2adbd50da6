// One plan over the tools: what a client of any era does.
function expect(condition, what, found) {
  if (!condition) throw new Error(`${what}: ${JSON.stringify(found)}`);
}

// The user: looks at what the agent proposes, and agrees.
let forms = 0;
export async function fillForm({ params }) {
  console.log(`form: ${params.message}`);
  expect(params.message.includes("The agent proposes, for ana: pass"), "the proposal", params);
  forms += 1;
  return { action: "accept", content: { answer: "pass", note: "looked at" } };
}

export async function runPlan(client) {
  const call = async (name, args) => {
    const result = await client.callTool({ name, arguments: args });
    console.log(`${name} ${JSON.stringify(args)}\n  ${result.content[0].text.slice(0, 400)}`);
    return result;
  };
  const { tools } = await client.listTools();
  expect(tools.length === 9, "nine tools", tools.map((tool) => tool.name));
  const { resources } = await client.listResources();
  expect(resources.length === 1, "one resource", resources);
  const { prompts } = await client.listPrompts();
  expect(prompts.length === 3, "three prompts", prompts);
  const runs = await client.readResource({ uri: "ledger://runs" });
  expect(runs.contents[0].text.includes("release"), "the run", runs);
  for (const step of ["build", "test", "publish"]) {
    const claimed = (await call("ledger_claim", { wait_seconds: 5 })).structuredContent;
    expect(claimed.got && claimed.step.id === step, `step ${step}`, claimed);
    await call("ledger_heartbeat", { token: claimed.token });
    const report = { token: claimed.token, outcome: "succeeded", output: `{"did": "${step}"}` };
    const reported = (await call("ledger_report", report)).structuredContent;
    // The token of a claim is the number of its record and a secret.
    const again = (await call("ledger_report", report)).structuredContent;
    expect(claimed.token.startsWith(`${again.token}-`), "the same receipt", again);
    if (step === "publish") {
      expect(reported.status === "reported", "not accepted yet", reported);
      await call("ledger_answer", { step, answer: "pass", by: "ana", note: "seen" });
      expect(forms === 1, "the user was asked once", forms);
    } else {
      expect(reported.status === "accepted", "accepted", reported);
    }
  }
  const over = (await call("ledger_claim", {})).structuredContent;
  expect(over.got === false && over.status === "done", "the run is done", over);
  const refused = await call("ledger_report", { token: 1, outcome: "succeeded" });
  expect(refused.isError && refused.content[0].text.startsWith("rejection: "), "refused", refused);
}
