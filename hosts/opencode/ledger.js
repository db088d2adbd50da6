// plan-ledger: connects the events of OpenCode to `ledger hook opencode`.
import { spawn } from "node:child_process";

const PROGRAM = "ledger";

// Calls the hook of an event, and returns its answer; without a ledger there is none.
function hook(event, input) {
  return new Promise((resolve) => {
    const child = spawn(PROGRAM, ["hook", "opencode", event], { stdio: ["pipe", "pipe", "ignore"] });
    let text = "";
    child.on("error", () => resolve({}));
    child.stdin.on("error", () => {});
    child.stdout.on("data", (bytes) => (text += bytes));
    child.on("close", () => {
      try {
        resolve(text ? JSON.parse(text) : {});
      } catch {
        resolve({});
      }
    });
    child.stdin.end(JSON.stringify(input));
  });
}

export const PlanLedger = async ({ client, directory }) => {
  const primed = new Set();
  return {
    "chat.message": async ({ sessionID }, output) => {
      const event = primed.has(sessionID) ? "chat.message" : "session.created";
      primed.add(sessionID);
      const { context } = await hook(event, { sessionID, directory });
      const last = output.parts.find((part) => part.type === "text");
      if (context && last) last.text = `${last.text}\n\n${context}`;
    },
    "tool.execute.after": async ({ tool, sessionID }, output) => {
      const answer = { tool, output: output.output };
      const { context } = await hook("tool.execute.after", { sessionID, directory, answer });
      if (context) output.output = `${output.output}\n\n${context}`;
    },
    event: async ({ event }) => {
      const sessionID = event.properties?.sessionID;
      if (event.type === "session.compacted") {
        await hook("session.compacted", { sessionID, directory });
      }
      if (event.type === "session.idle") {
        // The hook counts: it holds a session at most twice.
        const { hold } = await hook("session.idle", { sessionID, directory });
        if (hold) {
          const parts = [{ type: "text", text: hold }];
          await client.session.prompt({ path: { id: sessionID }, body: { parts } });
        }
      }
    },
  };
};
