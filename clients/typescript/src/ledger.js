/** The ledger: runs, claims, and the loop of a worker. */

import { readFile } from "node:fs/promises";
import { hostname } from "node:os";
import { basename, extname, join } from "node:path";

import { LedgerError, NothingToDo, Rejected, Unavailable } from "./errors.js";
import { Caller, newKey } from "./flow.js";
import { Launcher, runProgram, serversOrFolder } from "./place.js";
import { Task } from "./task.js";
import { HttpTransport, Lost, NoServer, PATIENCE, SocketTransport, errorOf } from "./transport.js";

/** @import {Json, Plan, Request, RunPolicy} from "./types.d.ts" */
/** @import {Claim} from "./flow.js" */
/** @import {Home} from "./task.js" */
/** @import {Answer} from "./transport.js" */

/**
 * @typedef {object} LedgerOptions
 * @property {string} [token] the bearer token for a URL; by default `LEDGER_HTTP_TOKEN`
 * @property {string} [program] the program `ledger`, if a server is to be started and the program is not in `PATH`
 * @property {boolean} [start] whether a server is started if none runs
 * @property {number} [patience] how long a request is repeated while no server answers, in seconds
 * @property {string} [files] the folder for outputs that are too long for a message; by default in the ledger's folder
 * @property {boolean} [signals] whether SIGINT and SIGTERM release the steps of this process before it ends
 * @property {(message: string, error?: unknown) => void} [warn] takes warnings; by default they go to standard error
 */

/**
 * @typedef {object} ClaimOptions
 * @property {string} [step] only this step, by id or number
 * @property {string} [worker] the name of the worker; by default machine and process
 * @property {string[]} [owners] only steps of these owners or without an owner
 * @property {string[]} [tags] only steps with one of these tags
 * @property {number} [lease] how long the claim holds without a renewal, in seconds; by default as planned
 * @property {number} [wait] how long to wait for a step, in seconds; `Infinity`: until there is one or the run has ended
 * @property {AbortSignal} [signal] ends the wait, and releases the step
 */

/** A name that tells machine and process. */
function defaultWorker() {
  return `${hostname()}/${process.pid}`;
}

/**
 * A ledger.
 *
 *     for await (const task of new Ledger().work("night")) {
 *       await task.do(async () => ({ rows: await count(task.inputs.url) }));
 *     }
 */
export class Ledger {
  /** @type {string | undefined} */
  #folder;
  /** @type {HttpTransport | undefined} */
  #http;
  /** @type {string | undefined} */
  #program;
  /** @type {Home} */
  #home;
  /** @type {(() => void) | undefined} */
  #forgetSignals;

  /**
   * Names a ledger, without connecting to it.
   * @param {string | string[]} [place] its folder, or the URL of `ledger serve --http`, or a list of them (also as text, with
   *   commas): owner and standbys, of which the one that holds the ledger is found. By default `LEDGER_SERVER`, `LEDGER_DIR`
   *   or the nearest `.ledger`. The token is sent to these addresses alone.
   * @param {LedgerOptions} [options]
   */
  constructor(place, options = {}) {
    const { start = true, patience = PATIENCE / 1000, signals = true } = options;
    this.#program = options.program;
    let transport;
    let launcher;
    const { servers, folder } = serversOrFolder(place);
    if (folder === undefined) {
      transport = this.#http = new HttpTransport(servers, options.token ?? process.env.LEDGER_HTTP_TOKEN);
    } else {
      this.#folder = folder;
      transport = new SocketTransport(this.#folder);
      if (start) launcher = new Launcher(this.#folder, options.program);
    }
    const own = this.#folder === undefined ? undefined : join(this.#folder, "work", "outputs");
    this.#home = {
      caller: new Caller(transport, launcher, patience * 1000),
      folder: this.#folder,
      files: options.files ?? own,
      held: new Set(),
      warn: options.warn ?? ((message, error) => console.error(`plan-ledger: ${message}:`, error)),
    };
    if (signals) this.#forgetSignals = releaseOnSignals(this.#home.held);
  }

  /** Closes the connections, and ends the server if this object started it. */
  async close() {
    this.#forgetSignals?.();
    this.#home.caller.transport.close();
    await this.#home.caller.launcher?.stop();
  }

  async [Symbol.asyncDispose]() {
    await this.close();
  }

  /**
   * Makes any request (`format/socket.md`), under a key of its own or the given one.
   * @param {Request} request
   * @param {string} [key]
   * @returns {Promise<Answer>}
   */
  request(request, key) {
    return this.#home.caller.call(request, key === undefined ? {} : { key });
  }

  /**
   * Starts a run of a plan, or proposes the next version of a run's plan; returns the run's name. A plan that
   * is active already is not proposed again.
   * @param {Plan | string} plan the plan, or a file
   * @param {object} [options]
   * @param {string} [options.run] by default the file's name without its extension
   * @param {string} [options.reason]
   * @param {Record<string, Json>} [options.inputs]
   * @param {RunPolicy} [options.policy]
   * @returns {Promise<string>}
   */
  async propose(plan, { run, reason = "", inputs = {}, policy } = {}) {
    if (typeof plan === "string") {
      const path = plan;
      run ??= basename(path, extname(path));
      if (extname(path) === ".json") {
        plan = /** @type {Plan} */ (JSON.parse(await readFile(path, "utf8")));
      } else if (this.#folder !== undefined && policy === undefined && Object.keys(inputs).length === 0) {
        // The program reads plan files of every form.
        const words = ["plan", "propose", path, "--run", run, ...(reason ? ["--reason", reason] : [])];
        const lines = await runProgram(this.#program, this.#folder, words);
        return proposedRun(lines.at(-1) ?? {}, run);
      } else {
        throw new Rejected(`${path} is no JSON: propose it with \`ledger plan propose\`, or pass the plan itself`);
      }
    }
    if (run === undefined) throw new TypeError("a plan that is no file needs the name of its run");
    try {
      const request = { act: /** @type {const} */ ("propose"), run, plan, reason, inputs, ...(policy ? { policy } : {}) };
      const answer = await this.request(request);
      return proposedRun(answer.lines[0] ?? {}, run);
    } catch (error) {
      if (error instanceof Rejected) return proposedRun(error.line, run);
      throw error;
    }
  }

  /**
   * Claims a step: of a run, or without one of any run. Throws `NothingToDo`.
   * @param {string} [run]
   * @param {ClaimOptions} [options]
   * @returns {Promise<Task>}
   */
  claim(run, options = {}) {
    return this.#claimed(makeClaim(run, { wait: 0, ...options }), false);
  }

  /**
   * @param {Claim} claim
   * @param {boolean} isLoop
   */
  async #claimed(claim, isLoop) {
    const line = await this.#home.caller.claim(claim);
    if (line.type !== "task") throw new NothingToDo(line.message ?? "there is no step", line);
    return new Task(this.#home, line, claim, isLoop);
  }

  /**
   * The steps of a run, or of all runs, one after the other, until the run has ended. Do each with
   * `task.do(...)`: a receipt and the next claim are one commit, and an error becomes a failed receipt, is
   * logged, and the loop continues with the next step.
   * @param {string} [run]
   * @param {Omit<ClaimOptions, "step">} [options]
   * @returns {AsyncGenerator<Task, void, undefined>}
   */
  async *work(run, options = {}) {
    /** @type {Task | undefined} */
    let task;
    try {
      for (;;) {
        const following = task?.following;
        task = undefined;
        try {
          task = following ?? (await this.#claimed(makeClaim(run, { wait: Infinity, ...options }), true));
        } catch (error) {
          if (error instanceof NothingToDo || options.signal?.aborted) return;
          throw error;
        }
        yield task;
        // A body that came to its end without `do`.
        if (!task.isOver) await task.finishInLoop();
      }
    } finally {
      await task?.giveUp("the loop ended");
      await task?.following?.giveUp("the loop ended", false);
    }
  }

  /**
   * @param {string[]} path
   * @param {string[]} words
   */
  async #read(path, words) {
    if (this.#http) {
      try {
        return (await this.#http.view(path)).lines;
      } catch (error) {
        if (error instanceof Lost || error instanceof NoServer) throw new Unavailable(error.message);
        throw error;
      }
    }
    const lines = await runProgram(this.#program, this.#folder ?? "", words);
    const last = lines.at(-1);
    if (last?.type === "error") throw errorOf(last);
    return lines;
  }

  /**
   * The value of a variable.
   * @param {string} name
   * @param {string} run
   * @returns {Promise<any>}
   */
  async get(name, run) {
    const lines = await this.#read(["runs", run, "variables", name], ["get", name, "--run", run]);
    const line = lines.find((each) => "value" in each);
    if (!line) throw new LedgerError(`the variable ${name} of run ${run} is not in the answer`);
    return line.value;
  }

  /**
   * Sets a variable.
   * @param {string} name
   * @param {Json} value
   * @param {{run?: string, by?: string}} [options]
   */
  async set(name, value, { run, by = defaultWorker() } = {}) {
    await this.request({ act: "set", run: run ?? null, name, value, by });
  }

  /**
   * Records a note about the ledger, a run or a step.
   * @param {string} text
   * @param {{run?: string, step?: string, by?: string}} [options]
   */
  async note(text, { run, step, by = defaultWorker() } = {}) {
    await this.request({ act: "note", run: run ?? null, step: step ?? null, text, by });
  }

  /**
   * The status of each step of the active plan.
   * @param {string} run
   * @returns {Promise<Record<string, string>>}
   */
  async steps(run) {
    const lines = await this.#read(["runs", run, "graph"], ["inspect", "graph", run]);
    const nodes = lines.filter((line) => line.type === "node" && line.status !== undefined);
    return Object.fromEntries(nodes.map((line) => [line.id, line.status]));
  }
}

/**
 * The run of a proposed plan. A plan that is active already needs no proposal.
 * @param {Record<string, any>} line
 * @param {string} run
 */
function proposedRun(line, run) {
  if (line.type === "error" && line.rejection !== "same_plan") throw errorOf(line);
  return String(line.run ?? run);
}

/**
 * @param {string | undefined} run
 * @param {ClaimOptions} options
 * @returns {Claim}
 */
function makeClaim(run, { step, worker = defaultWorker(), owners = [], tags = [], lease, wait = 0, signal }) {
  return {
    run: run ?? null,
    step: step ?? null,
    worker,
    owners,
    tags,
    lease: lease === undefined ? null : Math.max(1, Math.round(lease)),
    wait: wait * 1000,
    signal,
    key: newKey(),
    secret: newKey(),
    isOpen: false,
  };
}

/** The held tasks of each ledger whose steps are released when this process is asked to end. @type {Set<Set<Task>>} */
const releasable = new Set();

/**
 * Releases the steps of this process and ends it, unless the program handles the signal itself.
 * @param {NodeJS.Signals} signal
 */
async function end(signal) {
  if (process.listenerCount(signal) > 1) return;
  const tasks = [...releasable].flatMap((held) => [...held]);
  await Promise.allSettled(tasks.map((task) => task.giveUp(signal)));
  process.off("SIGINT", end).off("SIGTERM", end);
  process.kill(process.pid, signal);
}

/**
 * @param {Set<Task>} held
 * @returns {() => void} leaves the signals alone again
 */
function releaseOnSignals(held) {
  if (releasable.size === 0) process.on("SIGINT", end).on("SIGTERM", end);
  releasable.add(held);
  return () => {
    releasable.delete(held);
    if (releasable.size === 0) process.off("SIGINT", end).off("SIGTERM", end);
  };
}
