//! The runner's loop: it dispatches steps, records receipts, runs checks and renews leases.
//!
//! The loop runs until the run ends, waits for a person, or is stopped. The ledger contains
//! everything that the next runner needs to continue.

pub(crate) mod checks;
pub(crate) mod guard;
pub(crate) mod helpers;
pub(crate) mod misplaced;
pub(crate) mod probe;
pub(crate) mod record;
pub(crate) mod recover;
pub(crate) mod run_loop;
pub(crate) mod state;
pub(crate) mod summary;
pub(crate) mod wait;

pub use guard::Guards;
pub(crate) use guard::{
    Consequence, EndedAttempt, GuardState, HeldOwner, closed_until, disk_problem,
};
#[cfg(test)]
pub(crate) use helpers::decider::{DeciderReply, DeciderRequest};
pub(crate) use helpers::planner::{is_by_planner, may_ask_planner, rationale};
pub(crate) use misplaced::misplaced;
pub(crate) use recover::keep_left;
pub use recover::{LeftWorkers, Recovered, recover};
pub use run_loop::drive;
pub use state::{Options, TakeOver};
pub use summary::{Counts, RunOutcome, RunSummary, Session, Unrecorded};
