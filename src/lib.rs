#![cfg_attr(feature = "ledger", doc = include_str!("lib.md"))]
#![cfg_attr(
    not(feature = "ledger"),
    doc = "A chained, crash-safe log: see the module [`log`]. This is `plan-ledger` without the feature `ledger`."
)]
#![warn(missing_docs)]

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
mod format;
#[cfg(feature = "ledger")]
mod ledger;
#[cfg_attr(
    not(feature = "ledger"),
    expect(dead_code, unused_imports, reason = "a ledger uses more of its log than the log alone")
)]
pub mod log;
#[cfg(feature = "ledger")]
pub mod plan;
#[cfg(all(feature = "ledger", any(test, feature = "sim", mutants)))]
#[expect(missing_docs, reason = "it has no page")]
mod sim;
mod storage;
#[cfg(feature = "store")]
#[expect(missing_docs, reason = "it has no page")]
mod store;

pub use error::{Error, ErrorKind, Location, Result};
#[cfg(feature = "ledger")]
pub use ledger::{
    Ack, BatchKey, Claim, ClaimedTask, Clock, Commit, Environment, ForkPoint, Ledger,
    LedgerOptions, LedgerView, Note, OpenQuestion, OpenReport, Projection, RecordedEvent, Reply,
    RetentionLimit, Snapshot, Submitted, Task, Transaction, plan_hash,
};
#[cfg(feature = "ledger")]
#[doc(inline)]
pub use plan::{
    ApprovalPolicy, Artifact, AttemptToken, Budget, Command, ContentHash, Cost, Criterion,
    Decision, Disposition, Ending, Event, FailureClass, Fallback, Gate, Idempotence, Json, Limits,
    LostCause, OnFailure, Outcome, Output, Plan, Question, QuestionId, Receipt, Rejection,
    ReplanTrigger, ResolvedOutcome, RetryPolicy, Ruling, Run, RunId, RunPolicy, RunStatus, State,
    Step, StepNumber, StepState, StepStatus, TextPolicy, Timestamp, Verdict,
};

/// Parts of the documented types, for code that names them.
#[cfg(feature = "ledger")]
#[doc(hidden)]
pub use {
    format::{BootTime, Chain, HeadSync, Uid},
    ledger::{
        BackgroundWork, CollectedBlobs, EarlierAttempt, EarlierAttemptEnd, EarlierDecision,
        Finished, FinishedStep, OnAmbiguous, PrunePreview, PruneReport, commands_hash, plan_draft,
        state_hash,
    },
    log::{Anchor, ArchiveReference, PruneSet},
};

/// Everything that the other packages of this repository, its tests and its benchmarks need beyond
/// the documented names. There is no promise of stability.
#[doc(hidden)]
pub mod internals {
    pub mod error {
        pub use crate::error::*;
    }

    pub mod format {
        pub use crate::format::*;
    }

    #[cfg(feature = "ledger")]
    pub mod ledger {
        pub use crate::ledger::*;
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
