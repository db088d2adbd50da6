/**
 * Where a ledger is, and the program that serves it.
 *
 * A client that finds no server starts `ledger serve`. The server has a pipe to the client as its standard
 * input and ends with it, so a client that is killed leaves no process behind.
 */

import { spawn, spawnSync } from "node:child_process";
import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  fstatSync,
  mkdtempSync,
  openSync,
  readSync,
  rmSync,
  statSync,
} from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { delimiter, dirname, join, resolve } from "node:path";

import { LedgerError, Unavailable } from "./errors.js";

/** @import {ChildProcess} from "node:child_process" */

const SOCKET_NAME = "serve.sock";
/** `sun_path` has 108 bytes on Linux and 104 on macOS. */
const ADDRESS_MAX = 90;

/** `LEDGER_DIR`, or else the nearest `.ledger`, here or in a folder above, that belongs to this user. */
function defaultPlace() {
  if (process.env.LEDGER_DIR) return resolve(process.env.LEDGER_DIR);
  const here = process.cwd();
  for (let folder = here; ; folder = dirname(folder)) {
    const found = join(folder, ".ledger");
    const about = statSync(found, { throwIfNoEntry: false });
    if (about?.isDirectory() && (folder === here || about.uid === process.getuid?.())) return found;
    if (dirname(folder) === folder) return join(here, ".ledger");
  }
}

/**
 * The addresses of servers, or else a folder.
 * @param {string | string[] | undefined} place
 * @returns {{servers: string[], folder: string | undefined}}
 */
export function serversOrFolder(place) {
  const named = place ?? (process.env.LEDGER_SERVER || undefined);
  if (named === undefined) return { servers: [], folder: defaultPlace() };
  if (typeof named === "string" && !/^https?:/.test(named)) return { servers: [], folder: resolve(named) };
  const urls = typeof named === "string" ? named.split(",") : named;
  return { servers: urls.map((url) => url.trim()).filter(Boolean), folder: undefined };
}

/**
 * The program: as named, from the package of this platform, or in `PATH`.
 * @param {string | undefined} named
 * @returns {string}
 */
export function findProgram(named) {
  const wanted = named ?? process.env.PLAN_LEDGER_PROGRAM;
  if (wanted) return wanted;
  try {
    return createRequire(import.meta.url).resolve(`@plan-ledger/${process.platform}-${process.arch}/bin/plan-ledger`);
  } catch {
    // The package of the platform is optional.
  }
  // The program has a second name, because another tool is also called `ledger`.
  const folders = (process.env.PATH ?? "").split(delimiter).filter(Boolean);
  for (const name of ["plan-ledger", "ledger"]) {
    const found = folders.map((folder) => join(folder, name)).find(isExecutable);
    if (found && (name !== "ledger" || isOurs(found))) return found;
  }
  throw new Unavailable("the program `plan-ledger` is not installed: start `ledger serve`, or name the program");
}

/** @param {string} path */
function isExecutable(path) {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

/**
 * Whether a program called `ledger` is this one.
 * @param {string} program
 */
function isOurs(program) {
  return (spawnSync(program, ["--version"], { encoding: "utf8" }).stdout ?? "").startsWith("plan-ledger ");
}

/**
 * The address of a ledger's socket. A long path is reached through the open folder.
 * @param {string} folder
 * @returns {{path: string, close: () => void}}
 */
export function socketAddress(folder) {
  const path = join(folder, SOCKET_NAME);
  if (Buffer.byteLength(path) <= ADDRESS_MAX || !existsSync("/proc/self/fd")) return { path, close: () => {} };
  const open = openSync(folder, constants.O_RDONLY | constants.O_DIRECTORY);
  return { path: `/proc/self/fd/${open}/${SOCKET_NAME}`, close: () => closeSync(open) };
}

/** Starts a server of a ledger, again if it ended, and stops it. */
export class Launcher {
  /** @type {ChildProcess | undefined} */
  #process;
  /** A file without a name: a client that is killed leaves nothing behind. @type {number | undefined} */
  #messages;
  #started = 0;
  #folder;
  #program;

  /**
   * @param {string} folder
   * @param {string | undefined} program
   */
  constructor(folder, program) {
    this.#folder = folder;
    this.#program = program;
  }

  /** Starts a server unless one is starting. Throws `LedgerError` if there is nothing to serve. */
  launch() {
    if (this.#process) {
      if (this.#process.exitCode === null && this.#process.signalCode === null) return;
      this.#expectUsefulEnd(this.#process);
      // Another server may have the lock: leave it some time.
      if (Date.now() - this.#started < 200) return;
    }
    this.#start();
  }

  #start() {
    this.#discard();
    const program = findProgram(this.#program);
    const folder = mkdtempSync(join(tmpdir(), "plan-ledger-"));
    const messages = (this.#messages = openSync(join(folder, "stderr"), "wx+", 0o600));
    rmSync(folder, { recursive: true });
    // In a session of its own: Ctrl-C is for the worker, which still has to release its step.
    const started = spawn(program, ["serve", "--ledger", this.#folder, "--until-eof"], {
      stdio: ["pipe", "ignore", messages],
      detached: true,
    });
    started.on("error", () => {});
    // Neither the process nor the pipe keeps this process alive.
    started.unref();
    /** @type {any} */ (started.stdin)?.unref?.();
    started.stdin?.on("error", () => {});
    this.#process = started;
    this.#started = Date.now();
  }

  /**
   * A server ends with 5 if another process has the lock, and is killed by a signal: both are no reason to give up.
   * @param {ChildProcess} ended
   */
  #expectUsefulEnd(ended) {
    if (ended.signalCode !== null || ended.exitCode === 0 || ended.exitCode === 5) return;
    const message = this.#message();
    throw new LedgerError(`the server of ${this.#folder} ended with exit code ${ended.exitCode}: ${message}`);
  }

  /** What the server wrote on standard error. */
  #message() {
    if (this.#messages === undefined) return "";
    const bytes = Buffer.alloc(Math.min(fstatSync(this.#messages).size, 1 << 16));
    return bytes.toString("utf8", 0, readSync(this.#messages, bytes, 0, bytes.length, 0)).trim();
  }

  #discard() {
    this.#process?.stdin?.destroy();
    if (this.#messages !== undefined) closeSync(this.#messages);
    this.#messages = undefined;
  }

  /** Ends the server, if this object started it. */
  async stop() {
    const ending = this.#process;
    if (ending && ending.exitCode === null && ending.signalCode === null) {
      const ended = new Promise((done) => ending.once("exit", done));
      ending.ref();
      ending.stdin?.destroy();
      const timer = setTimeout(() => ending.kill("SIGTERM"), 10_000);
      await ended;
      clearTimeout(timer);
    }
    this.#discard();
    this.#process = undefined;
  }
}

/**
 * Runs one command of the program, and returns its JSON lines.
 * @param {string | undefined} program
 * @param {string} folder
 * @param {string[]} words
 * @returns {Promise<Record<string, any>[]>}
 */
export function runProgram(program, folder, words) {
  return new Promise((done, failed) => {
    const command = spawn(findProgram(program), [...words, "--ledger", folder, "--json"], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    let out = "";
    let messages = "";
    command.stdout.setEncoding("utf8").on("data", (text) => (out += text));
    command.stderr.setEncoding("utf8").on("data", (text) => (messages += text));
    command.on("error", (error) => failed(new Unavailable(`the program cannot be started: ${error.message}`)));
    command.on("close", (code) => {
      const lines = out.split("\n").filter((line) => line.trim());
      if (lines.length > 0) done(lines.map((line) => JSON.parse(line)));
      else failed(new LedgerError(`\`${words.join(" ")}\` ended with exit code ${code}: ${messages.trim()}`));
    });
  });
}
