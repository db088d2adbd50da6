/** One attempt at a step: its hand-off, its lease, its side effects, and its receipt. */

import { closeSync, fsyncSync, mkdirSync, openSync, writeSync } from "node:fs";
import { join, resolve } from "node:path";

import { Failure, LeaseLost, LedgerError, Rejected, Replan, failureClass } from "./errors.js";
import { OUTPUT_MAX, encodable, newKey } from "./flow.js";
import { lineOf } from "./transport.js";

/** @import {Disposition, FailureClass, Json, PlanRequestKind, ReceiptLine, TaskLine} from "./types.d.ts" */
/** @import {Caller, Claim, Report} from "./flow.js" */

/** How much of a stack a receipt keeps. */
const LOG_TAIL = 4096;
/** A member of an output that goes by file has at least this length. */
const MEMBER_MIN = 64 << 10;

/**
 * What tasks need of their ledger.
 * @typedef {object} Home
 * @property {Caller} caller
 * @property {string | undefined} folder the ledger's folder; undefined over HTTP
 * @property {string | undefined} files the folder for outputs that are too long for a message
 * @property {Set<Task>} held tasks that are not over
 * @property {(message: string, error?: unknown) => void} warn
 */

/** One attempt at a step. Its lease is renewed in the background until it is reported. */
export class Task {
  /** @type {Home} */
  #home;
  /** @type {Claim} */
  #claim;
  /** @type {Record<string, any> | undefined} */
  #receipt;
  /** @type {LeaseLost | undefined} */
  #lost;
  /** @type {NodeJS.Timeout | undefined} */
  #timer;
  #started = performance.now();
  #logTail = "";
  #isReporting = false;
  #isOver = false;
  #leaseEnd;
  #announced = new Set();
  #aborting = new AbortController();

  /**
   * @param {Home} home
   * @param {Record<string, any>} line
   * @param {Claim} claim
   * @param {boolean} isLoop
   * @internal
   */
  constructor(home, line, claim, isLoop) {
    this.#home = home;
    this.#claim = claim;
    /** The whole hand-off (`format/hand-off.md`). @type {TaskLine} */
    this.handOff = /** @type {any} */ (line);
    /** The ledger's answer to the receipt, once it is recorded. @type {ReceiptLine | undefined} */
    this.result = undefined;
    /** @internal @type {Task | undefined} */
    this.following = undefined;
    /** @internal */
    this.isLoop = isLoop;
    this.#leaseEnd = line.lease_until_micros / 1000;
    home.held.add(this);
    this.#renewLater();
  }

  /** The name of the run. */
  get run() {
    return this.handOff.run;
  }

  /** The step as in the plan, with defaults filled in. */
  get step() {
    return this.handOff.step;
  }

  /** The id of the step. */
  get id() {
    return this.handOff.step.id;
  }

  /** The number of the step, which is fixed for the life of the run. */
  get number() {
    return this.handOff.number;
  }

  /** The number of the attempt, from 1. */
  get attempt() {
    return this.handOff.attempt;
  }

  /** The token of the attempt. It is a secret. */
  get token() {
    return this.handOff.token;
  }

  /** The values of the variables that the step reads. @returns {Record<string, any>} */
  get inputs() {
    if (/** @type {any} */ (this.handOff).omitted?.includes("inputs")) {
      throw new LedgerError("the inputs are too long for a message: read each with `get`");
    }
    return this.handOff.inputs;
  }

  /** The key to send with side effects. */
  get idempotencyKey() {
    return this.handOff.idempotency_key;
  }

  /** Why the previous attempt failed. */
  get lastFailure() {
    return this.handOff.last_failure;
  }

  /** Whether the ledger said that this attempt is over. The work no longer counts: stop it. */
  get isLost() {
    return this.#lost !== undefined;
  }

  /** Whether the attempt was reported, released or lost. */
  get isOver() {
    return this.#isOver;
  }

  /** Aborted when the lease is lost: pass it to what the step waits for. @returns {AbortSignal} */
  get signal() {
    return this.#aborting.signal;
  }

  /** Throws `LeaseLost` if the attempt is over. */
  check() {
    if (this.#lost) throw this.#lost;
  }

  /** @returns {string} */
  toString() {
    return `${this.run}/${this.id} #${this.number}, attempt ${this.attempt}`;
  }

  /**
   * Does the step. What the function returns is the output, unless it called `done`, `fail` or `replan`. An
   * error becomes a failed receipt; a task of `work` logs it, one of `claim` throws it again.
   * @param {(task: Task) => unknown} body
   * @returns {Promise<void>}
   */
  async do(body) {
    try {
      const output = await body(this);
      if (!this.#receipt) this.done(/** @type {any} */ (output));
    } catch (error) {
      if (error instanceof LeaseLost || this.#lost) {
        this.#end();
        if (!this.isLoop) throw error;
        this.#home.warn(`${this} is lost`, this.#lost ?? error);
        return;
      }
      if (this.#claim.signal?.aborted) {
        // The worker ends, the step did not fail.
        await this.giveUp("aborted");
        if (!this.isLoop) throw error;
        return;
      }
      this.#endWith(error);
      if (!this.isLoop) {
        await this.finish();
        throw error;
      }
      this.#home.warn(`${this} failed`, error);
    }
    await (this.isLoop ? this.finishInLoop() : this.finish());
  }

  /**
   * The step succeeded. An output of more than 8 MiB goes by file: long members, or else the whole, are
   * replaced by `{"artifact": PATH, "bytes": LENGTH}`, and the files are artifacts of the receipt.
   * @param {unknown} [output] any JSON; undefined is null
   * @param {object} [more]
   * @param {Record<string, unknown>} [more.variables] variables to set, in addition to the step's outputs
   * @param {string[]} [more.artifacts] paths of files that were made
   * @param {string[]} [more.sideEffects]
   * @param {number} [more.money] in units of the currency, such as dollars
   * @param {number} [more.tokens]
   */
  done(output = null, { variables = {}, artifacts = [], sideEffects = [], money = 0, tokens = 0 } = {}) {
    const paths = [...artifacts];
    this.#receipt = {
      outcome: "succeeded",
      output: this.#fitting(output, paths),
      variables,
      artifacts: paths.map((path) => ({ path })),
      side_effects: sideEffects,
      cost: cost(money, tokens),
    };
  }

  /**
   * The step failed.
   * @param {string} message
   * @param {FailureClass} [failure]
   * @param {object} [more]
   * @param {Json} [more.payload]
   * @param {number} [more.retryAfter] in seconds, rounded up to whole ones
   * @param {Disposition} [more.disposition]
   * @param {number} [more.money]
   * @param {number} [more.tokens]
   */
  fail(message, failure = "unknown", { payload = null, retryAfter, disposition, money = 0, tokens = 0 } = {}) {
    this.#receipt = {
      outcome: "failed",
      class: failure,
      message: encodable(message),
      payload,
      disposition: disposition ?? null,
      cost: cost(money, tokens),
      ...(retryAfter === undefined ? {} : { retry_after_seconds: Math.max(0, Math.ceil(retryAfter)) }),
    };
  }

  /**
   * The plan should change.
   * @param {string} reason
   * @param {{fromStep?: string | null, kind?: PlanRequestKind}} [more]
   */
  replan(reason, { fromStep = null, kind = "replan" } = {}) {
    this.#receipt = { outcome: "replan_requested", message: encodable(reason), from: fromStep, kind };
  }

  /**
   * A side effect: announced before the function is called, confirmed after it. If it happened already, in
   * this or an earlier attempt, the function is not called.
   * @template T
   * @param {string} key
   * @param {() => T | Promise<T>} perform
   * @param {string} [description]
   * @returns {Promise<T | undefined>}
   */
  async effect(key, perform, description = "") {
    const isNew = await this.#recordEffect(key, "intended", description);
    if (!isNew && !this.#announced.has(key)) return undefined;
    this.#announced.add(key);
    const result = await perform();
    await this.#recordEffect(key, "committed", description);
    return result;
  }

  /**
   * Whether the ledger did not know it.
   * @param {string} key
   * @param {"intended" | "committed"} state
   * @param {string} effect
   */
  async #recordEffect(key, state, effect) {
    this.check();
    try {
      await this.#request({ act: "effect", token: this.token, key, state, effect });
    } catch (error) {
      if (error instanceof Rejected && error.rejection === "effect_known") return false;
      throw error;
    }
    return true;
  }

  /** Renews the lease. The client does so by itself. */
  async renew() {
    this.check();
    await this.#requestRenewal();
  }

  /** Records the result, at once. `do` does so by itself. */
  async finish() {
    await this.#send(undefined);
  }

  /** Releases the attempt, if it is not over. */
  async [Symbol.asyncDispose]() {
    await this.giveUp("the task was not reported");
  }

  /** @param {unknown} error */
  #endWith(error) {
    // A cut may leave half a character.
    this.#logTail = encodable((error instanceof Error ? (error.stack ?? "") : String(error)).slice(-LOG_TAIL));
    if (error instanceof Replan) {
      this.replan(error.message, { fromStep: error.fromStep, kind: error.kind });
      return;
    }
    const isFailure = error instanceof Failure;
    const message = isFailure ? error.message : String(error);
    const given = isFailure ? { payload: error.payload, retryAfter: error.retryAfter } : {};
    this.fail(message, failureClass(error), given);
  }

  /**
   * @param {object} request
   * @param {number} [timeout]
   */
  async #request(request, timeout) {
    try {
      return await this.#home.caller.call(request, timeout === undefined ? {} : { timeout });
    } catch (error) {
      // While the receipt is recorded, the attempt ends by itself.
      if (error instanceof LeaseLost && !this.#isReporting) this.#lose(error);
      throw error;
    }
  }

  /** @param {LeaseLost} error */
  #lose(error) {
    this.#lost = error;
    this.#aborting.abort(error);
  }

  /** @param {Claim | undefined} next */
  async #send(next) {
    if (this.#isOver) return undefined;
    this.check();
    // A body that ended without a result succeeded.
    if (!this.#receipt) this.done();
    /** @type {Report} */
    const report = {
      token: this.token,
      receipt: this.#receipt ?? {},
      duration: performance.now() - this.#started,
      logTail: this.#logTail,
      next,
      patience: Math.max(this.#home.caller.patience, this.#leaseEnd - Date.now()),
      key: newKey(),
    };
    this.#isReporting = true;
    try {
      const answer = await this.#home.caller.report(report);
      this.result = /** @type {any} */ (lineOf(answer, "receipt"));
      return lineOf(answer, "task");
    } catch (error) {
      if (error instanceof LeaseLost) this.#lose(error);
      throw error;
    } finally {
      this.#end();
    }
  }

  /** @internal */
  async finishInLoop() {
    const { run, worker, owners, tags, lease, wait, signal, step } = this.#claim;
    // A lease of one's own cannot be stated in a receipt; a claim for any run is not one for the next step.
    const canFollow = lease === null && run !== null && !signal?.aborted;
    /** @type {Claim | undefined} */
    const next = canFollow
      ? { run, step, worker, owners, tags, lease, wait, signal, key: newKey(), secret: newKey(), isOpen: true }
      : undefined;
    let task;
    try {
      task = await this.#send(next);
    } catch (error) {
      if (!(error instanceof LeaseLost)) throw error;
      this.#home.warn(`${this} is lost`, error);
      return;
    }
    if (task && next) this.following = new Task(this.#home, task, next, true);
  }

  /**
   * Releases the attempt.
   * @param {string} reason
   * @param {boolean} [hasBegun]
   * @internal
   */
  async giveUp(reason, hasBegun = true) {
    if (this.#isOver) return;
    this.#isReporting = true;
    const isLost = this.isLost;
    this.#end();
    if (!isLost) await this.#home.caller.release(this.token, hasBegun, reason);
  }

  #end() {
    this.#isOver = true;
    clearTimeout(this.#timer);
    this.#home.held.delete(this);
  }

  /** The time between two renewals, in milliseconds: a third of the lease as claimed, as planned, or as the clock says. */
  #interval() {
    const planned = /** @type {any} */ (this.step).lease_seconds;
    const seconds = this.#claim.lease ?? planned ?? Math.max(1, Math.min((this.#leaseEnd - Date.now()) / 1000, 60));
    return Math.max(200, Math.min((seconds * 1000) / 3, 300_000));
  }

  #renewLater() {
    this.#timer = setTimeout(() => void this.#renewNow(), this.#interval());
    this.#timer.unref();
  }

  async #renewNow() {
    try {
      await this.#requestRenewal();
    } catch (error) {
      if (this.#isOver || this.isLost) {
        if (this.isLost && !this.#isOver) this.#home.warn(`${this} is lost`, this.#lost);
        return;
      }
      if (!this.#isReporting) this.#home.warn(`the lease of ${this} is not renewed`, error);
    }
    if (!this.#isOver) this.#renewLater();
  }

  async #requestRenewal() {
    // A renewal is quick: a server that does not answer soon is asked again.
    const request = { act: "renew", token: this.token, lease_seconds: this.#claim.lease };
    const line = lineOf(await this.#request(request, 10_000), "renewed");
    if (line) this.#leaseEnd = line.lease_until_micros / 1000;
  }

  /**
   * @param {unknown} output
   * @param {string[]} paths
   * @returns {unknown}
   */
  #fitting(output, paths) {
    const text = JSON.stringify(output) ?? "null";
    if (Buffer.byteLength(text) <= OUTPUT_MAX) return output;
    if (output !== null && typeof output === "object" && !Array.isArray(output)) {
      /** @type {Record<string, unknown>} */
      const members = { ...output };
      for (const [number, [key, value]] of Object.entries(members).entries()) {
        const part = JSON.stringify(value) ?? "null";
        if (part.length >= MEMBER_MIN) members[key] = this.#inFile(part, `-${number}`, paths);
      }
      if (Buffer.byteLength(JSON.stringify(members)) <= OUTPUT_MAX) return members;
    }
    return this.#inFile(text, "", paths);
  }

  /**
   * Writes JSON into a durable file.
   * @param {string} text
   * @param {string} suffix
   * @param {string[]} paths
   */
  #inFile(text, suffix, paths) {
    const { files } = this.#home;
    if (!files) throw new LedgerError("an output of more than 8 MiB goes by file: name a folder with `files`");
    mkdirSync(files, { recursive: true, mode: 0o700 });
    const path = join(resolve(files), `${this.token.split("-")[0]}${suffix}.json`);
    const content = Buffer.from(text);
    const file = openSync(path, "w", 0o600);
    for (let written = 0; written < content.length; ) written += writeSync(file, content, written);
    fsyncSync(file);
    closeSync(file);
    const folder = openSync(files, "r");
    fsyncSync(folder);
    closeSync(folder);
    paths.push(path);
    return { artifact: path, bytes: content.length };
  }
}

/**
 * @param {number} money
 * @param {number} tokens
 */
function cost(money, tokens) {
  return { money_micros: Math.round(money * 1e6), tokens };
}
