// Runs a plan with the official TypeScript client of the protocol with `initialize`.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { fillForm, runPlan } from "./plan.mjs";

const transport = new StdioClientTransport({
  command: process.env.LEDGER,
  args: ["mcp", "--role", "operator"],
  cwd: process.cwd(),
  env: process.env,
});
const capabilities = { elicitation: {} };
const client = new Client({ name: "session-client", version: "1.0.0" }, { capabilities });
client.setRequestHandler(ElicitRequestSchema, fillForm);
await client.connect(transport);
console.log("server:", JSON.stringify(client.getServerVersion()));
await runPlan(client);
await client.close();
