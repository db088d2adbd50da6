/**
 * The rules of the protocol: what is sent again, and when.
 *
 * Invariants:
 * - A request that was sent is repeated only under its key, and a repeated claim has its secret again.
 * - An answer that does not say whether the request was executed is no answer: the client asks again.
 */

import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

import { LeaseLost, LedgerError, Rejected, Unavailable } from "./errors.js";
import { Lost, NoServer, RETRIED, errorOf, lineOf } from "./transport.js";

/** @import {Launcher} from "./place.js" */
/** @import {Answer, Transport} from "./transport.js" */

/** The longest message, with its line end. */
export const MESSAGE_MAX = 16 << 20;
/** The longest output that a receipt contains; a longer one goes by file. */
export const OUTPUT_MAX = 8 << 20;
/** How long one answer is waited for, in milliseconds. */
const ANSWER_WAIT = 60_000;

/** A key, or a secret: 16 random bytes in hexadecimal. */
export function newKey() {
  return randomBytes(16).toString("hex");
}

/**
 * The text without lone surrogates, which a message cannot contain.
 * @param {string} text
 */
export function encodable(text) {
  return Buffer.from(text).toString();
}

/**
 * A request as a message without its line end.
 * @param {object} request
 */
function encode(request) {
  let message;
  try {
    message = JSON.stringify(request);
  } catch (error) {
    throw new Rejected(`the request cannot be written as JSON: ${error}`);
  }
  const length = Buffer.byteLength(message);
  if (length >= MESSAGE_MAX) throw new Rejected(`the request has ${length} bytes; the limit is ${MESSAGE_MAX}: use files`);
  return message;
}

/**
 * A claim and its state: the same secret and key until it is answered with a step.
 * @typedef {object} Claim
 * @property {string | null} run
 * @property {string | null} step
 * @property {string} worker
 * @property {string[]} owners
 * @property {string[]} tags
 * @property {number | null} lease in seconds
 * @property {number} wait in milliseconds
 * @property {AbortSignal | undefined} signal
 * @property {string} key
 * @property {string} secret
 * @property {boolean} isOpen whether the ledger may have dispatched a step for it
 */

/**
 * A receipt that is to be recorded, and the next claim, if it is made in the same commit.
 * @typedef {object} Report
 * @property {string} token
 * @property {Record<string, any>} receipt
 * @property {number} duration in milliseconds
 * @property {string} logTail
 * @property {Claim | undefined} next
 * @property {number} patience in milliseconds
 * @property {string} key
 */

/** Makes requests until they are answered. */
export class Caller {
  /**
   * @param {Transport} transport
   * @param {Launcher | undefined} launcher
   * @param {number} patience in milliseconds
   */
  constructor(transport, launcher, patience) {
    this.transport = transport;
    this.launcher = launcher;
    this.patience = patience;
  }

  /**
   * Sends a request until it is answered. Throws `Rejected`, `LeaseLost` or `Unavailable`.
   * @param {object} request
   * @param {{key?: string, patience?: number, timeout?: number}} [options]
   * @returns {Promise<Answer>}
   */
  async call(request, { key = newKey(), patience = this.patience, timeout = ANSWER_WAIT } = {}) {
    const message = encode({ ...request, once: key });
    const deadline = performance.now() + patience;
    let pause = 10;
    for (let number = 0; ; number += 1) {
      let reason;
      try {
        const answer = await this.transport.exchange(message, timeout);
        const error = lineOf(answer, "error");
        if (!error) return answer;
        if (!RETRIED.has(error.kind)) throw errorOf(error);
        reason = error.message;
      } catch (error) {
        if (error instanceof NoServer) this.launcher?.launch();
        else if (!(error instanceof Lost)) throw error;
        reason = error.message;
      }
      if (performance.now() >= deadline) {
        throw new Unavailable(`the ledger did not answer within ${Math.round(patience / 1000)} s: ${reason}`);
      }
      // The connection may only have been idle for too long: ask again at once.
      if (number > 0) {
        await sleep(pause);
        pause = Math.min(pause * 1.5, 500);
      }
    }
  }

  /**
   * Claims a step, and waits for one if the claim does: a `task` line, or else a `nothing` line.
   * @param {Claim} claim
   * @returns {Promise<Record<string, any>>}
   */
  async claim(claim) {
    const deadline = performance.now() + claim.wait;
    let pause = 20;
    for (;;) {
      claim.signal?.throwIfAborted();
      let answer;
      claim.isOpen = true;
      try {
        answer = await this.call(claimRequest(claim), { key: claim.key });
      } catch (error) {
        if (!(error instanceof LeaseLost)) throw error;
        // The step of this claim is over before its answer arrived: claim another one.
        [claim.key, claim.secret] = [newKey(), newKey()];
        continue;
      }
      const task = lineOf(answer, "task");
      if (task) {
        if (!claim.signal?.aborted) return task;
        await this.release(task.token, false, "the claim was aborted");
        claim.signal.throwIfAborted();
      }
      claim.isOpen = false;
      const left = deadline - performance.now();
      if (answer.code === 1 || left <= 0) return lineOf(answer, "nothing") ?? {};
      await sleep(Math.min(pause, left), undefined, { signal: claim.signal });
      pause = Math.min(pause * 1.5, 500);
    }
  }

  /**
   * Releases an attempt. If that fails, its lease ends it.
   * @param {string} token
   * @param {boolean} hasBegun
   * @param {string} reason
   */
  async release(token, hasBegun, reason) {
    const request = { act: "release", token, work: hasBegun ? "begun" : "not_begun", reason };
    try {
      await this.call(request, { patience: 5_000, timeout: 5_000 });
    } catch (error) {
      if (!(error instanceof LedgerError)) throw error;
    }
  }

  /**
   * Records a receipt. One that the ledger rejects for its content becomes a failure that says so.
   * @param {Report} report
   * @returns {Promise<Answer>}
   */
  async report(report) {
    try {
      return await this.call(receiptRequest(report), { key: report.key, patience: report.patience });
    } catch (error) {
      if (!(error instanceof Rejected)) throw error;
      const message = encodable(`the receipt was rejected: ${error.message}`.slice(0, 2000));
      report.receipt = { outcome: "failed", class: "deterministic", message };
      report.key = newKey();
      return await this.call(receiptRequest(report), { key: report.key, patience: report.patience });
    }
  }
}

/** @param {Claim} claim */
function claimRequest(claim) {
  return {
    act: "claim",
    run: claim.run,
    step: claim.step,
    worker: claim.worker,
    secret: claim.secret,
    lease_seconds: claim.lease,
    owners: claim.owners,
    tags: claim.tags,
    every_run: claim.run === null && claim.step === null,
  };
}

/** @param {Report} report */
function receiptRequest(report) {
  const { next } = report;
  return {
    act: "receipt",
    token: report.token,
    receipt: report.receipt,
    duration_micros: Math.max(0, Math.round(report.duration * 1000)),
    log_tail: report.logTail,
    next: next ? { worker: next.worker, secret: next.secret, owners: next.owners, tags: next.tags } : null,
  };
}
