//! A crash-safe, event-sourced ledger for the plans of agents.
//!
//! A harness gives the ledger a plan, claims one step after the other, lets an agent do it, and
//! records the receipt. The ledger orders the steps, counts attempts and money, retries, waits and
//! asks, and writes every decision to an append-only log before it is acknowledged. If the process is
//! killed at any point, the next one continues exactly there.
//!
//! ```
//! use plan_ledger::{Claim, Ending, Ledger, Plan};
//!
//! # fn main() -> plan_ledger::Result<()> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let dir = folder.path().join("ledger");
//! let plan: Plan = serde_json::from_str(
//!     r#"{"steps": [{"id": "build"}, {"id": "test", "after": ["build"]}]}"#,
//! ).expect("a plan");
//!
//! let ledger = Ledger::open(&dir)?;
//! let run = ledger.start_or_resume("demo", &plan)?;
//! ledger.recover_abandoned(run)?;
//! let ending = loop {
//!     match ledger.claim(run, "worker-1")? {
//!         Claim::Task(task) => {
//!             let output = serde_json::json!({ "done": task.step.id });
//!             task.succeed(output)?;
//!         }
//!         Claim::Wait { reason, .. } => panic!("{reason}"),
//!         Claim::Done(ending) => break ending,
//!     }
//! };
//! assert_eq!(ending, Ending::Done);
//! # ledger.close()
//! # }
//! ```
//!
//! A task that takes longer than its lease renews it: [`ClaimedTask::renew`], or from another thread
//! [`Ledger::renew`] with the task's token, while the thread with the task works.
//!
//! ```
//! # use plan_ledger::{Claim, Ledger, Plan};
//! # fn main() -> plan_ledger::Result<()> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let ledger = Ledger::open(folder.path().join("ledger"))?;
//! # let plan: Plan = serde_json::from_str(r#"{"steps": [{"id": "build"}]}"#).unwrap();
//! # let run = ledger.start_or_resume("demo", &plan)?;
//! # let Claim::Task(task) = ledger.claim(run, "worker-1")? else { panic!() };
//! let token = task.token;
//! std::thread::scope(|scope| {
//!     let renewing = scope.spawn(|| ledger.renew(token)); // every few minutes
//!     // ... work ...
//!     renewing.join().expect("it does not panic")
//! })?;
//! task.succeed("done")?;
//! # Ok(())
//! # }
//! ```
//!
//! # Where to go from here
//!
//! - [`Ledger`] has one method for each operation. [`Ledger::transact`] combines several commands in
//!   one commit. [`LedgerView`] reads a ledger, also a damaged one, without a lock.
//! - [`Plan`] and [`Step`] describe the work: dependencies, criteria, retries, budgets, gates. They are
//!   built from JSON, as above, or as values. Their rarer parts, such as `Barrier`, `Caps` and
//!   `FailurePolicy`, are exported too; `format/plan.md` describes them.
//! - [`Claim`] and [`ClaimedTask`] are for workers, [`OpenQuestion`] and [`Reply`] for persons. A person
//!   also [resolves](Ledger::resolve_outcome) the unknown outcome of a step that must not be repeated.
//! - [`State`] is the fold of all [`Event`]s; a [`Projection`] is any other fold.
//! - [`Error`] says what happened, where, and what to do; its predicates say who can fix it.
//!
//! # Guarantees
//!
//! - A result is returned only after everything it depends on is durable.
//! - Replay of the log gives the same state at every record, from any snapshot.
//! - A torn write is discarded; damage of acknowledged bytes is found, located and never hidden.
//!
//! # Features
//!
//! `ledger`, the default, is everything above the log. Without it the package is the module [`log`] and
//! [`Error`]: a chained, crash-safe log with few dependencies. `simd` hashes many short records at once;
//! `ledger` has it.
//!
//! `plan-files` reads and writes plan files, and `sim` has the simulated disk and the crash
//! laboratory. `store` has the log in an object store, as far as `format/store.md` says. They serve the
//! program `ledger`, which is the package `plan-ledger-cli`; none of them is on by default.

/// A seeded bug, for testing the tests: `mutant!(Name)` is true while the mutant is enabled, and
/// `mutant!(Name => ...)` then runs the code after the arrow. Without `--cfg mutants` the first is
/// `false` and the second is empty. The mutants are listed in `src/sim/mutants.rs`.
#[doc(hidden)]
#[cfg(not(mutants))]
#[macro_export]
macro_rules! mutant {
    ($name:ident) => {
        false
    };
    ($name:ident => $($effect:tt)+) => {};
}

#[doc(hidden)]
#[cfg(mutants)]
#[macro_export]
macro_rules! mutant {
    ($name:ident) => {
        $crate::internals::sim::mutants::is_enabled(
            $crate::internals::sim::mutants::Mutant::$name,
        )
    };
    ($name:ident => $($effect:tt)+) => {
        if $crate::mutant!($name) {
            $($effect)+;
        }
    };
}

mod error;
#[cfg(feature = "plan-files")]
mod files;
mod format;
#[cfg(feature = "ledger")]
mod ledger;
#[cfg_attr(
    not(feature = "ledger"),
    expect(dead_code, unused_imports, reason = "a ledger uses more of its log than the log alone")
)]
pub mod log;
#[cfg(feature = "ledger")]
mod plan;
#[cfg(all(feature = "ledger", any(test, feature = "sim", mutants)))]
mod sim;
mod storage;
#[cfg(feature = "store")]
mod store;

pub use error::{Error, ErrorKind, Location, Result};
#[cfg(feature = "ledger")]
pub use ledger::{
    Ack, BatchKey, Claim, ClaimedTask, Clock, Commit, Environment, ForkPoint, Ledger,
    LedgerOptions, LedgerView, Note, OpenQuestion, OpenReport, Projection, RecordedEvent, Reply,
    RetentionLimit, Snapshot, Submitted, Task, Transaction, plan_hash,
};
#[cfg(feature = "ledger")]
pub use plan::{
    ApprovalPolicy, Artifact, AttemptToken, Budget, Command, ContentHash, Cost, Criterion,
    Decision, Disposition, Ending, Event, FailureClass, Fallback, Gate, Idempotence, Json, Limits,
    LostCause, OnFailure, Outcome, Output, Plan, Question, QuestionId, Receipt, Rejection,
    ReplanTrigger, ResolvedOutcome, RetryPolicy, Ruling, Run, RunId, RunPolicy, RunStatus, State,
    Step, StepNumber, StepState, StepStatus, TextPolicy, Timestamp, Verdict,
};

/// Parts of the documented types, for code that names them. `format/plan.md` describes those of a
/// plan, and `format/events.md` the others.
#[cfg(feature = "ledger")]
#[doc(hidden)]
pub use {
    format::{BootTime, Chain, HeadSync, Uid},
    ledger::{
        BackgroundWork, CollectedBlobs, EarlierAttempt, EarlierAttemptEnd, Finished, FinishedStep,
        OnAmbiguous, PrunePreview, PruneReport, commands_hash, plan_draft, state_hash,
    },
    log::{Anchor, ArchiveReference, PruneSet},
    plan::{
        AcceptedBasis, Attempt, Barrier, BarrierNeeds, BlobOutput, BudgetPart, CapScope, Caps,
        CommandsApproval, Decider, Defaults, Extra, FailureAction, FailureMatch, FailurePolicy,
        FailureRule, FailureSettings, HelperRole, InputType, Micros, OnBreak, OnFalse, OnStale,
        OnTimeout, OnUnknown, Origin, PauseCause, Phase, PlanActivated, PlanDraft, PlanInput,
        PlanVersion, Problem, Proof, Provenance, QuestionBody, QuestionSubject, RareField,
        ReplanKind, Review, Route, Secret, SecretHash, Text, Token, Variable, WorkerProcess,
    },
};

/// Everything that the other packages of this repository, its tests and its benchmarks need beyond
/// the documented names. There is no promise of stability.
#[doc(hidden)]
pub mod internals {
    pub mod error {
        pub use crate::error::*;
    }

    #[cfg(feature = "plan-files")]
    pub mod files {
        pub use crate::files::*;
    }

    pub mod format {
        pub use crate::format::*;
    }

    #[cfg(feature = "ledger")]
    pub mod ledger {
        pub use crate::ledger::*;
    }

    pub mod log {
        pub use crate::log::*;
    }

    #[cfg(feature = "ledger")]
    pub mod plan {
        pub use crate::plan::*;
    }

    #[cfg(all(feature = "ledger", any(test, feature = "sim", mutants)))]
    pub mod sim {
        pub use crate::sim::*;
    }

    pub mod storage {
        pub use crate::storage::*;
    }

    #[cfg(feature = "store")]
    pub mod store {
        pub use crate::store::*;
    }
}

/// Compiles the example in the guide.
#[cfg(all(doctest, feature = "ledger"))]
#[doc = include_str!("../docs/src/guides/rust.md")]
struct RustGuide;
