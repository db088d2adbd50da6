#!/usr/bin/env node
// Starts the program of the package for this platform.
import { spawnSync } from "node:child_process";
import { createRequire } from "node:module";

const name = `@plan-ledger/${process.platform}-${process.arch}`;
let program;
try {
  program = createRequire(import.meta.url).resolve(`${name}/bin/plan-ledger`);
} catch {
  console.error(`error: the package ${name} is not installed\nhint: reinstall plan-ledger with optional dependencies`);
  process.exit(7);
}
const ended = spawnSync(program, process.argv.slice(2), { stdio: "inherit" });
if (ended.signal) process.kill(process.pid, ended.signal);
process.exit(ended.status ?? 7);
