//! The operator's view: what is in flight, what was spent, what is stuck.

use std::collections::BTreeMap;

use serde::Serialize;

use super::execution::{Remaining, elapsed};
use crate::plan::event::plan_event::Review;
use crate::plan::event::question::{Question, QuestionId};
use crate::plan::event::run_event::PauseCause;
use crate::plan::event::step_status::StepStatus;
use crate::plan::model::budget::Cost;
use crate::plan::model::step::FailureClass;
use crate::plan::state::account::Account;
use crate::plan::state::barrier_state::{BarrierState, BarrierStatus};
use crate::plan::state::run::{PlanVersion, ReplanRequest, Run, RunStatus, Tally};
use crate::plan::state::step_state::StepState;
use crate::plan::value::ids::{AttemptToken, ContentHash, Micros, RunId, StepNumber};

/// What an operator wants to know of a run.
#[derive(Debug, Clone, Serialize)]
pub struct OperatorView {
    /// The run.
    pub run: RunId,
    /// Its name.
    pub name: String,
    /// How it stands.
    pub status: RunStatus,
    /// Why nothing is dealt for now.
    pub pause: Option<PauseCause>,
    /// Why nothing more is dealt although it goes on until nothing is in flight.
    pub stopping: Option<String>,
    /// Microseconds since it started, until it ended if it did.
    pub elapsed: Micros,
    /// The versions of its plan, in order.
    pub versions: Vec<VersionRow>,
    /// The active version; 0 before the first.
    pub active: u32,
    /// The open request for another version.
    pub request: Option<ReplanRequest>,
    /// How many steps of the active version have each status.
    pub counts: BTreeMap<StepStatus, u32>,
    /// Failures, retries and replans so far.
    pub tally: Tally,
    /// The books: spent, estimated, reserved, attempts.
    pub account: Account,
    /// What is left of the budget.
    pub remaining: Remaining,
    /// The failure that was recorded last and is not made good: step, class, message.
    pub last_failure: Option<(StepNumber, FailureClass, String)>,
    /// Attempts in flight, by when their leases run out.
    pub in_flight: Vec<Flight>,
    /// Lost attempts of which somebody must say what they did.
    pub in_doubt: Vec<Flight>,
    /// Open questions.
    pub questions: BTreeMap<QuestionId, Question>,
    /// Barriers that are not released.
    pub barriers: Vec<BarrierRow>,
    /// What may be dealt now, in the order of dealing: the first few.
    pub next: Vec<StepNumber>,
    /// When the next timer of the run is due.
    pub due: Option<Micros>,
}

/// One version of the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VersionRow {
    /// Its number.
    pub version: u32,
    /// Its hash.
    pub hash: ContentHash,
    /// Why it was proposed.
    pub reason: String,
    /// What a reviewer said.
    pub review: Option<Review>,
    /// How many steps it has.
    pub steps: u32,
}

/// An attempt that somebody has, or had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Flight {
    /// The step.
    pub step: StepNumber,
    /// Its id.
    pub id: String,
    /// The attempt.
    pub token: AttemptToken,
    /// Which attempt of the step it is.
    pub attempt: u32,
    /// Who.
    pub worker: String,
    /// Since when.
    pub dispatched: Micros,
    /// Until when, without a sign of life.
    pub lease_until: Micros,
    /// What is set aside for it.
    pub reserved: Cost,
}

/// A barrier that is not released.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BarrierRow {
    /// Its id.
    pub id: String,
    /// How it stands.
    pub status: BarrierStatus,
    /// How many members arrived.
    pub arrived: usize,
    /// How many must.
    pub needed: u32,
    /// Members that failed for good.
    pub failed: usize,
}

/// How many of the steps that may be dealt are shown.
const NEXT_MAX: usize = 10;

/// What an operator wants to know of a run at that time.
#[must_use]
pub fn operator_view(run: &Run, now: Micros) -> OperatorView {
    let elapsed = elapsed(run, now);
    let mut in_flight = flights(run, StepStatus::Dispatched);
    in_flight.sort_by_key(|flight| (flight.lease_until, flight.token));
    OperatorView {
        run: run.id,
        name: run.name.clone(),
        status: run.status,
        pause: run.pause.clone(),
        stopping: run.why_stopping(),
        elapsed,
        versions: versions(run),
        active: run.active,
        request: run.request.clone(),
        counts: run.counts.clone(),
        tally: run.tally,
        account: run.account,
        remaining: Remaining::of(&run.account, &run.limits(), elapsed),
        last_failure: last_failure(run),
        in_flight,
        in_doubt: flights(run, StepStatus::InDoubt),
        questions: run.questions.clone(),
        barriers: barriers(run),
        next: run.ready().take(NEXT_MAX).map(|(_, number)| number).collect(),
        due: run.timers.first().map(|(due, _)| *due),
    }
}

fn versions(run: &Run) -> Vec<VersionRow> {
    let row = |(each, version): (&PlanVersion, u32)| VersionRow {
        version,
        hash: each.hash,
        reason: each.reason.clone(),
        review: each.review,
        steps: each.step_count,
    };
    run.versions.iter().zip(1..).map(row).collect()
}

fn last_failure(run: &Run) -> Option<(StepNumber, FailureClass, String)> {
    let failed = run.steps.iter().zip((1..).map(StepNumber));
    let failed = failed.filter(|(step, _)| step.last_failure().is_some());
    let (step, number) = failed.max_by_key(|(step, _)| step.last_seq)?;
    let (class, message) = step.last_failure().cloned()?;
    Some((number, class, message))
}

fn flights(run: &Run, status: StepStatus) -> Vec<Flight> {
    let held = run.steps.iter().zip((1..).map(StepNumber));
    let held = held.filter(|(step, _)| step.status == status);
    let flight = |(step, number): (&StepState, StepNumber)| {
        let attempt = step.attempt()?;
        Some(Flight {
            step: number,
            id: step.id().to_owned(),
            token: attempt.token,
            attempt: step.attempts,
            worker: attempt.worker.clone(),
            dispatched: attempt.dispatched,
            lease_until: attempt.lease_until,
            reserved: attempt.reserved,
        })
    };
    held.filter_map(flight).collect()
}

fn barriers(run: &Run) -> Vec<BarrierRow> {
    let closed = run.barriers.iter().filter(|(_, each)| each.status != BarrierStatus::Released);
    let row = |(id, each): (&String, &BarrierState)| BarrierRow {
        id: id.clone(),
        status: each.status,
        arrived: each.arrived.len(),
        needed: each.needed,
        failed: each.failed.len(),
    };
    closed.map(row).collect()
}
