//! The façade: one handle on a ledger, shared by many threads. (Skeleton: bodies follow.)
#![expect(
    clippy::todo,
    missing_docs,
    unused_variables,
    clippy::missing_panics_doc,
    reason = "skeleton"
)]

use std::path::Path;
use std::sync::Arc;

use crate::error::Result;
use crate::plan::{
    AttemptToken, Command, ContentHash, Event, Finding, Json, LostCause, Micros, Plan, Receipt,
    RunId, RunPolicy, State, Step, StepNumber, StepStatus, Verdict,
};

/// Wall-clock time in microseconds since the Unix epoch.
pub trait Clock: Send + Sync + std::fmt::Debug {
    fn now(&self) -> Micros;
}
/// Where 16-byte identifiers come from.
pub trait IdSource: Send + Sync + std::fmt::Debug {
    fn next_id(&self) -> [u8; 16];
}

/// What a ledger takes from the world. `Environment::system()`: real disk, wall clock, random ids.
#[derive(Debug, Clone)]
pub struct Environment {
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn IdSource>,
    // pub storage: Arc<dyn crate::storage::Storage>,
}
impl Environment {
    pub fn system() -> Self {
        todo!()
    }
}

/// What opening found and did. Implements Display: a few lines for people.
#[derive(Debug, Clone)]
pub struct OpenReport {
    /// The ledger was created by this call.
    pub created: bool,
    /// Verdict on the log's end.
    pub verdict: String,
    /// Things a person should know, one line each; empty after a clean close.
    pub notes: Vec<String>,
    /// Sequence number of the last record.
    pub last_seq: u64,
}

/// Proof of durability: the batch up to `seq` is on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ack {
    pub seq: u64,
    pub chain: [u8; 32],
}

/// What a command led to: durable events with their sequence numbers.
#[derive(Debug, Clone)]
pub struct Commit {
    /// Of the last event; of the last durable record if the command led to none.
    pub ack: Ack,
    pub events: Vec<(u64, Event)>,
}

/// A step that was dealt, with all that a worker needs.
#[derive(Debug, Clone)]
pub struct Task {
    pub run: RunId,
    pub run_name: String,
    pub number: StepNumber,
    /// The step as the plan has it, defaults filled in.
    pub step: Arc<Step>,
    pub plan: Arc<Plan>,
    pub token: AttemptToken,
    /// From 1.
    pub attempt: u32,
    pub lease_until: Micros,
    pub idempotency_key: String,
    /// Values of the variables that the step's `inputs` name; null when not set.
    pub inputs: Vec<(String, Json)>,
    /// Message of the attempt before, if it failed.
    pub last_failure: Option<String>,
}

#[derive(Debug)]
pub struct Ledger {}

impl Ledger {
    pub fn create(dir: &Path, environment: &Environment) -> Result<Self> {
        todo!()
    }
    pub fn open(dir: &Path, environment: &Environment) -> Result<(Self, OpenReport)> {
        todo!()
    }
    pub fn open_or_create(dir: &Path, environment: &Environment) -> Result<(Self, OpenReport)> {
        todo!()
    }
    /// Validates, hashes, starts; with automatic approval the plan is active on return.
    pub fn start_run(&self, name: &str, plan: &Plan, policy: RunPolicy) -> Result<RunId> {
        todo!()
    }
    /// Proposes the next version; with automatic approval it is active on return. The version's number.
    pub fn propose(&self, run: RunId, plan: &Plan, reason: &str) -> Result<u32> {
        todo!()
    }
    /// The first step of the queue; `None` when nothing may be dealt now (see `state()` for why).
    /// Leases that have run out are turned into events first.
    pub fn dispatch(&self, run: RunId, worker: &str) -> Result<Option<Task>> {
        todo!()
    }
    pub fn renew(&self, token: AttemptToken) -> Result<Micros> {
        todo!()
    }
    pub fn report_lost(
        &self,
        token: AttemptToken,
        cause: LostCause,
        detail: &str,
    ) -> Result<Commit> {
        todo!()
    }
    /// Durable on return. A stale receipt is recorded as refused and then is an error (Rejection::StaleToken).
    /// The step's status after it.
    pub fn record_receipt(&self, token: AttemptToken, receipt: Receipt) -> Result<StepStatus> {
        todo!()
    }
    pub fn judge(&self, token: AttemptToken, verdicts: Vec<Verdict>) -> Result<StepStatus> {
        todo!()
    }
    pub fn set_variable(
        &self,
        run: RunId,
        name: &str,
        value: Json,
        expected_version: Option<u64>,
        by: &str,
    ) -> Result<u64> {
        todo!()
    }
    /// Any command.
    pub fn execute(&self, command: &Command) -> Result<Commit> {
        todo!()
    }
    /// The state now: an immutable snapshot that costs nothing to take.
    pub fn state(&self) -> Arc<State> {
        todo!()
    }
    pub fn state_hash(&self) -> ContentHash {
        todo!()
    }
    /// The state after record `seq`, folded from the start.
    pub fn state_at(&self, seq: u64) -> Result<State> {
        todo!()
    }
    pub fn head(&self) -> Ack {
        todo!()
    }
    /// Syncs everything and marks the ledger as cleanly closed. Dropping does the same, but cannot report an error.
    pub fn close(self) -> Result<()> {
        todo!()
    }
}

/// Hash of a plan's canonical bytes.
pub fn plan_hash(plan: &Plan) -> ContentHash {
    todo!()
}
pub fn state_hash(state: &State) -> ContentHash {
    todo!()
}
