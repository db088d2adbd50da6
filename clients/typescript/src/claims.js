/**
 * Records of claims: which process has a claimed step (`format/hand-off.md`, section "Records of claims").
 *
 * With a record, the step of a worker that was killed is free within seconds. Without one, its lease decides.
 */

import { lstatSync, mkdirSync, readFileSync, readlinkSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** @type {{start: number, machine: string} | null | undefined} */
let identity;

/** When this process started, in clock ticks after the boot, and on which machine; null without `/proc`. */
function thisProcess() {
  if (identity !== undefined) return identity;
  try {
    // The name is in parentheses, and may itself contain some.
    const fields = readFileSync("/proc/self/stat", "utf8").split(")").at(-1)?.trim().split(" ") ?? [];
    const boot = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
    const start = Number(fields[19]);
    identity = Number.isSafeInteger(start) ? { start, machine: `${boot} ${readlinkSync("/proc/self/ns/pid")}` } : null;
  } catch {
    identity = null;
  }
  return identity;
}

/**
 * Records that this process has a step, and returns the record; undefined if that is not possible.
 * @param {string | undefined} ledger
 * @param {Record<string, any>} task
 * @returns {string | undefined}
 */
export function keepClaim(ledger, task) {
  const own = thisProcess();
  if (ledger === undefined || own === null) return undefined;
  const number = String(task.token).split("-")[0];
  const folder = join(ledger, "work", "claims");
  const path = join(folder, `${number}.claim`);
  const draft = join(folder, `${number}.${process.pid}.part`);
  const record = { process: process.pid, process_start: own.start, machine: own.machine, files: null, task };
  try {
    for (const each of [join(ledger, "work"), folder]) {
      mkdirSync(each, { recursive: true, mode: 0o700 });
      if (lstatSync(each).isSymbolicLink()) return undefined;
    }
    writeFileSync(draft, JSON.stringify(record), { mode: 0o600 });
    renameSync(draft, path);
  } catch {
    return undefined;
  }
  return path;
}

/**
 * Removes a record: the attempt is over.
 * @param {string | undefined} record
 */
export function forgetClaim(record) {
  if (record === undefined) return;
  try {
    rmSync(record, { force: true });
  } catch {
    // It is found later, and its attempt is over.
  }
}
