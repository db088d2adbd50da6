//! The operator's view: attempts in flight, costs, and blocked steps.

use std::collections::BTreeMap;

use serde::Serialize;

use super::execution::{Remaining, elapsed};
use crate::plan::event::plan_event::{Provenance, Review};
use crate::plan::event::question::{Question, QuestionId};
use crate::plan::event::run_event::PauseCause;
use crate::plan::event::step_status::StepStatus;
use crate::plan::model::budget::Cost;
use crate::plan::model::step::FailureClass;
use crate::plan::state::account::Account;
use crate::plan::state::barrier_state::{BarrierState, BarrierStatus};
use crate::plan::state::compact::step::CompactStep;
use crate::plan::state::run::{PlanVersion, ReplanRequest, Run, RunCounters, RunStatus};
use crate::plan::state::step_state::StepState;
use crate::plan::value::ids::{AttemptToken, ContentHash, Micros, RunId, StepNumber, Timestamp};

/// The operator's view of a run.
#[derive(Debug, Clone, Serialize)]
pub struct OperatorView {
    pub run: RunId,
    pub name: String,
    pub status: RunStatus,
    /// Why the run is paused.
    pub pause: Option<PauseCause>,
    /// Why the run ends once no attempt is in flight, if it does.
    pub stopping: Option<String>,
    /// Microseconds from its start to its end, or to now.
    pub elapsed: Micros,
    /// The versions of its plan, in order.
    pub versions: Vec<VersionSummary>,
    /// The active version; 0 before the first.
    pub active: u32,
    /// The open request for another version.
    pub request: Option<ReplanRequest>,
    /// The number of steps of the active version in each status.
    pub counts: BTreeMap<StepStatus, u32>,
    /// Failures, retries and replans so far.
    pub counters: RunCounters,
    /// Spent, estimated and reserved costs, and attempts.
    pub account: Account,
    /// The rest of the budget.
    pub remaining: Remaining,
    /// The newest failure that no later attempt has repaired: step, class, message.
    pub last_failure: Option<(StepNumber, FailureClass, String)>,
    /// Attempts in flight, by the end of their leases.
    pub in_flight: Vec<AttemptSummary>,
    /// Lost attempts whose outcome a person must resolve.
    pub outcome_unknown: Vec<AttemptSummary>,
    /// Open questions.
    pub questions: BTreeMap<QuestionId, Question>,
    /// Barriers that are not released.
    pub barriers: Vec<BarrierSummary>,
    /// The first steps that can be dispatched now, in dispatch order.
    pub next: Vec<StepNumber>,
    /// When the next timer of the run is due.
    pub due: Option<Timestamp>,
}

/// One version of the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VersionSummary {
    /// Its number.
    pub version: u32,
    /// Its hash.
    pub hash: ContentHash,
    /// Why it was proposed.
    pub reason: String,
    /// The review.
    pub review: Option<Review>,
    /// The note of its reviewer; empty without one.
    pub note: String,
    /// The source of the version: its author, the file with its hash, and the author's confidence
    /// in percent.
    pub provenance: Option<Provenance>,
    /// Its number of steps.
    pub steps: u32,
}

impl VersionSummary {
    /// Every version of a run's plan.
    #[must_use]
    pub fn of_run(run: &Run) -> Vec<Self> {
        let row = |(each, version): (&PlanVersion, u32)| Self {
            version,
            hash: each.hash,
            reason: each.reason.clone(),
            review: each.review,
            note: each.note.clone(),
            provenance: each.provenance.clone(),
            steps: each.step_count,
        };
        run.versions.iter().zip(1..).map(row).collect()
    }
}

/// An attempt in flight, or one whose outcome is unknown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AttemptSummary {
    pub step: StepNumber,
    pub id: String,
    pub token: AttemptToken,
    /// Its number among the attempts of the step.
    pub attempt: u32,
    /// How many attempts the retry policy of the step allows.
    pub max_attempts: u32,
    pub worker: String,
    /// When it was dispatched.
    pub dispatched: Timestamp,
    /// The end of its lease.
    pub lease_until: Timestamp,
    pub reserved: Cost,
}

/// A barrier that is not released.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BarrierSummary {
    /// Its id.
    #[serde(rename = "barrier")]
    pub id: String,
    /// Its status.
    pub status: BarrierStatus,
    /// The number of members that arrived.
    pub arrived: usize,
    /// The number of members that must arrive.
    pub needed: u32,
    /// The number of members that failed permanently.
    pub failed: usize,
}

/// The largest number of ready steps that is shown.
const NEXT_MAX: usize = 10;

#[doc(hidden)]
impl Run {
    /// The operator's view of a run at that time.
    #[must_use]
    pub fn operator_view(&self, now: Timestamp) -> OperatorView {
        let elapsed = elapsed(self, now);
        let mut in_flight = attempts_in_status(self, StepStatus::Dispatched);
        in_flight
            .sort_by_key(|attempt_summary| (attempt_summary.lease_until, attempt_summary.token));
        OperatorView {
            run: self.id,
            name: self.name.clone(),
            status: self.status,
            pause: self.pause.clone(),
            stopping: self.why_stopping().map(String::from),
            elapsed,
            versions: VersionSummary::of_run(self),
            active: self.active,
            request: self.request.clone(),
            counts: self.counts.clone(),
            counters: self.counters,
            account: self.account,
            remaining: Remaining::of(&self.account, &self.limits(), elapsed),
            last_failure: last_failure(self),
            in_flight,
            outcome_unknown: attempts_in_status(self, StepStatus::OutcomeUnknown),
            questions: self.questions.clone(),
            barriers: barriers(self),
            next: self.ready().take(NEXT_MAX).map(|(_, number)| number).collect(),
            due: self.timers.first().map(|(due, _)| *due),
        }
    }
}

fn last_failure(run: &Run) -> Option<(StepNumber, FailureClass, String)> {
    let failed = run.steps.iter().zip((1..).map(StepNumber));
    let failed = failed.filter(|(step, _)| step.last_failure().is_some());
    let (step, number) = failed.max_by_key(|(step, _)| step.last_seq)?;
    let (class, message) = step.last_failure().cloned()?;
    Some((number, class, message.into()))
}

fn attempts_in_status(run: &Run, status: StepStatus) -> Vec<AttemptSummary> {
    let matching = run.steps.iter().zip((1..).map(StepNumber));
    let matching = matching.filter(|(step, _)| step.status == status);
    let attempt_summary = |(step, number): (&StepState, StepNumber)| {
        let attempt = step.attempt()?;
        Some(AttemptSummary {
            step: number,
            id: step.id().to_owned(),
            token: attempt.token,
            attempt: step.attempts,
            max_attempts: max_attempts(run, number),
            worker: attempt.worker.clone(),
            dispatched: attempt.dispatched,
            lease_until: attempt.lease_until,
            reserved: attempt.reserved,
        })
    };
    matching.filter_map(attempt_summary).collect()
}

/// How many attempts the retry policy of a step allows: its own, that of the plan, or the default.
fn max_attempts(run: &Run, number: StepNumber) -> u32 {
    let own = run.plan_step(number).and_then(CompactStep::retry);
    let of_plan = || run.plan().and_then(|plan| plan.header().defaults.retry.clone());
    own.or_else(of_plan).unwrap_or_default().max_attempts
}

fn barriers(run: &Run) -> Vec<BarrierSummary> {
    let closed = run.barriers.iter().filter(|(_, each)| each.status != BarrierStatus::Released);
    let row = |(id, each): (&String, &BarrierState)| BarrierSummary {
        id: id.clone(),
        status: each.status,
        arrived: each.arrived.len(),
        needed: each.needed,
        failed: each.failed.len(),
    };
    closed.map(row).collect()
}
