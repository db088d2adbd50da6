/** What can go wrong, and what a worker throws to say how a step failed. */

/** @import {FailureClass, Json, PlanRequestKind} from "./types.d.ts" */

/** A request failed. `kind`, `rejection` and `exitCode` are those of the ledger's `error` line. */
export class LedgerError extends Error {
  /**
   * @param {string} message
   * @param {Record<string, any>} [line]
   */
  constructor(message, line = {}) {
    super(message);
    this.name = new.target.name;
    /** The line that the ledger answered. */
    this.line = line;
  }

  /** The kind of the error; undefined if no ledger answered. @returns {string | undefined} */
  get kind() {
    return this.line.kind;
  }

  /** The rule of the ledger that rejected the request, such as `stale_token`. @returns {string | null | undefined} */
  get rejection() {
    return this.line.rejection;
  }

  /** The next action, for people; null if there is no particular one. @returns {string | null | undefined} */
  get hint() {
    return this.line.hint;
  }

  /** The exit code that the command would have. @returns {number | undefined} */
  get exitCode() {
    return this.line.exit_code;
  }
}

/** The ledger answered, and did not do what was asked. */
export class Rejected extends LedgerError {}

/** No server answered in time. The request may have been executed; its key was not answered. */
export class Unavailable extends LedgerError {}

/** No step can be dispatched. `line` is the `nothing` line: `status` of the run, `reason`, and more. */
export class NothingToDo extends LedgerError {
  /** Whether the run has ended, so that waiting is useless. */
  get isOver() {
    return this.line.reason === "run_has_ended";
  }
}

/**
 * The attempt is over: its lease expired, or its step was released or removed. Nothing that the worker
 * still does counts, and another worker may have the step.
 */
export class LeaseLost extends LedgerError {}

/** Throw a subclass to say how a step failed; `retryAfter` is in seconds. */
export class Failure extends Error {
  /**
   * @param {string} message
   * @param {{retryAfter?: number, payload?: Json, cause?: unknown}} [options]
   */
  constructor(message, options = {}) {
    super(message, { cause: options.cause });
    this.name = new.target.name;
    /** @type {number | undefined} */
    this.retryAfter = options.retryAfter;
    /** @type {Json | undefined} */
    this.payload = options.payload;
  }

  /** The class of the failure. @returns {FailureClass} */
  get failureClass() {
    return "unknown";
  }
}

/** A retry may succeed. */
export class Transient extends Failure {
  /** @override @returns {FailureClass} */
  get failureClass() {
    return "transient";
  }
}

/** A retry would fail in the same way. */
export class Deterministic extends Failure {
  /** @override @returns {FailureClass} */
  get failureClass() {
    return "deterministic";
  }
}

/** An assumption of the plan does not hold. */
export class AssumptionBroken extends Failure {
  /** @override @returns {FailureClass} */
  get failureClass() {
    return "assumption_broken";
  }
}

/** Money, tokens or time ran out. */
export class BudgetExhausted extends Failure {
  /** @override @returns {FailureClass} */
  get failureClass() {
    return "budget_exhausted";
  }
}

/** Throw it if the plan should change. */
export class Replan extends Error {
  /**
   * @param {string} reason
   * @param {{fromStep?: string, kind?: PlanRequestKind}} [options]
   */
  constructor(reason, options = {}) {
    super(reason);
    this.name = "Replan";
    /** The first step to do again. @type {string | null} */
    this.fromStep = options.fromStep ?? null;
    /** Why the plan should change. @type {PlanRequestKind} */
    this.kind = options.kind ?? "replan";
  }
}

/**
 * The class of the failure that an error means.
 * @param {unknown} error
 * @returns {FailureClass}
 */
export function failureClass(error) {
  if (error instanceof Failure) return error.failureClass;
  if (!(error instanceof Error)) return "unknown";
  // `fetch` wraps an error of the network.
  if (error.message === "fetch failed" || isOfSystem(error) || isOfSystem(error.cause)) return "transient";
  if (error.name === "TimeoutError" || error.name === "AbortError") return "transient";
  if (error instanceof TypeError || error instanceof RangeError || error instanceof SyntaxError) return "deterministic";
  if (error instanceof ReferenceError || error.name === "AssertionError") return "deterministic";
  return "unknown";
}

/**
 * Whether a call of the operating system failed.
 * @param {unknown} error
 */
function isOfSystem(error) {
  return error instanceof Error && "syscall" in error;
}
