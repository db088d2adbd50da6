// Runs a plan with the official TypeScript client of the stateless protocol, which falls back to the
// older one: the server must answer `server/discover`.
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { fillForm, runPlan } from "./plan.mjs";

const transport = new StdioClientTransport({
  command: process.env.LEDGER,
  args: ["mcp", "--role", "operator"],
  cwd: process.cwd(),
  env: process.env,
});
const capabilities = { elicitation: { form: {} } };
const client = new Client({ name: "stateless-client", version: "1.0.0" }, { capabilities });
client.setRequestHandler("elicitation/create", fillForm);
await client.connect(transport);
await runPlan(client);
await client.close();
