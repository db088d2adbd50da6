#!/usr/bin/env node
// Starts the program of the package for this platform, and ends as it ends.
import { spawn } from "node:child_process";
import { createRequire } from "node:module";

const name = `@plan-ledger/${process.platform}-${process.arch}`;
let program;
try {
  program = createRequire(import.meta.url).resolve(`${name}/bin/plan-ledger`);
} catch {
  console.error(`error: the package ${name} is not installed\nhint: reinstall plan-ledger with optional dependencies`);
  process.exit(7);
}
const started = spawn(program, process.argv.slice(2), { stdio: "inherit" });
started.on("error", (error) => {
  console.error(`error: ${program} cannot be started: ${error.message}`);
  process.exit(7);
});
// A terminal sends Ctrl-C to both, and the program decides when it ends. Other signals reach only this process.
process.on("SIGINT", () => {});
for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => started.kill(signal));
started.on("exit", (code, signal) => {
  if (signal === null) process.exit(code);
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
});
