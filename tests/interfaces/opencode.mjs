// Calls the plugin of OpenCode as OpenCode does, for the test of the hooks (`tests/cli/hooks.rs`).
//
//   node opencode.mjs PLUGIN DIRECTORY
//
// Each line of standard input is a call: {"hook", "input", "output"}, or {"event"}. The answer is one line:
// the output as the hook left it, and the prompts that the plugin sent to the session meanwhile.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [plugin, directory] = process.argv.slice(2);
let prompts = [];
const client = {
  session: {
    prompt: async (request) => {
      prompts.push(request);
      return { data: {} };
    },
  },
};
// OpenCode calls every function that a plugin exports.
const module = await import(pathToFileURL(plugin));
const hooks = [];
for (const start of Object.values(module)) {
  hooks.push(await start({ client, project: { id: "test" }, directory, worktree: directory, $: undefined }));
}

for await (const line of createInterface({ input: process.stdin })) {
  const call = JSON.parse(line);
  prompts = [];
  for (const each of hooks) {
    if (call.event) await each.event?.({ event: call.event });
    else await each[call.hook]?.(call.input, call.output);
  }
  console.log(JSON.stringify({ output: call.output ?? null, prompts }));
}
