/**
 * Work on the steps of a plan-ledger.
 *
 *     import { Ledger } from "plan-ledger";
 *     for await (const task of new Ledger().work("night")) {
 *       await task.do(() => perform(task));
 *     }
 */

export {
  AssumptionBroken,
  BudgetExhausted,
  Deterministic,
  Failure,
  LeaseLost,
  LedgerError,
  NothingToDo,
  Rejected,
  Replan,
  Transient,
  Unavailable,
} from "./errors.js";
export { Ledger } from "./ledger.js";
export { Task } from "./task.js";
