//! Consequences for barriers and for the run as a whole, once no step has a consequence.

use super::budget::pause_for_budget;
use super::criteria::{
    criteria_without_verdict, evaluate_plan_criteria, expression_criteria, failed_criterion,
};
use crate::plan::event::Event;
use crate::plan::event::plan_event::PlanVerdict;
use crate::plan::event::question::{
    FAIL, QuestionAnswer, QuestionBody, QuestionId, QuestionSubject, RELEASE, WAIT, WITHDRAWN,
};
use crate::plan::event::run_event::{
    BarrierChange, BarrierChanged, Ending, OnFailure, PauseCause, QuestionAnswered, QuestionAsked,
    ReplanRequested, ReplanTrigger, ReplanWithdrawn, RunEnded,
};
use crate::plan::event::step_event::{Ruling, Verdict};
use crate::plan::event::step_status::StepStatus;
use crate::plan::model::plan::OnBreak;
use crate::plan::settle::opening;
use crate::plan::state::State;
use crate::plan::state::barrier_state::{BarrierState, BarrierStatus};
use crate::plan::state::run::Run;
use crate::plan::value::evaluator::{Evaluator, Exhausted};
use crate::plan::value::text::Text;

/// The actor of a replan request for a plan criterion that does not hold.
pub(crate) const BY_CRITERIA: &str = "policy:test_criteria";

pub(super) fn barrier_events(run: &Run, id: &str) -> Vec<Event> {
    let Some(barrier) = run.barriers.get(id) else { return Vec::new() };
    if let Some(question) = barrier.obsolete_question() {
        return vec![withdraw_question(run, question)];
    }
    if let Some(change) = barrier.pending_change() {
        return vec![barrier_event(run, id, barrier, change)];
    }
    if !barrier.must_ask() {
        return Vec::new();
    }
    let (arrived, needed) = (barrier.arrived.len(), barrier.needed);
    let how = barrier.broken_phrase();
    let asked = QuestionBody {
        subject: QuestionSubject::Barrier { barrier: id.to_owned() },
        text: format!("barrier {id} {how}: {arrived} of {needed} arrived").into(),
        shown: run.active_version().map(|version| version.hash).unwrap_or_default(),
        options: [WAIT, RELEASE, FAIL].map(str::to_owned).to_vec(),
        to: None,
        deadline: None,
        on_timeout: None,
    };
    vec![Event::QuestionAsked(QuestionAsked { run: run.id, asked })]
}

/// Releases a late barrier with `on_break: wait` once enough members have arrived. The barrier is
/// broken by then, so the release is recorded as a decision.
pub(super) fn late_barrier_events(run: &Run, id: &str) -> Vec<Event> {
    let late = run.barriers.get(id).filter(|barrier| {
        let waits = barrier.status == BarrierStatus::Broken && barrier.on_break == OnBreak::Wait;
        waits && barrier.has_enough()
    });
    late.map(|barrier| barrier_event(run, id, barrier, BarrierChange::Overruled))
        .into_iter()
        .collect()
}

fn barrier_event(run: &Run, id: &str, barrier: &BarrierState, change: BarrierChange) -> Event {
    Event::BarrierChanged(BarrierChanged {
        run: run.id,
        barrier: id.to_owned(),
        change,
        arrived: u32::try_from(barrier.arrived.len()).unwrap_or(u32::MAX),
        needed: barrier.needed,
    })
}

/// Withdraws the question about a barrier that is no longer broken.
fn withdraw_question(run: &Run, question: QuestionId) -> Event {
    let shown = run.questions.get(&question).map(|each| each.asked.shown).unwrap_or_default();
    let answered = QuestionAnswer {
        question,
        answer: WITHDRAWN.to_owned(),
        by: "policy:barrier".to_owned(),
        note: "the barrier is no longer broken".to_owned(),
        shown,
    };
    Event::QuestionAnswered(QuestionAnswered { run: run.id, answered })
}

/// The end of a run that was aborted before its first version became active.
pub(super) fn proposed_run_events(run: &Run) -> Vec<Event> {
    let ending = Ending::Aborted;
    let end = |reason: &Text| RunEnded { run: run.id, ending, reason: reason.clone() };
    run.abort_reason.as_ref().map(end).map(Event::RunEnded).into_iter().collect()
}

pub(super) fn run_events(
    state: &State,
    run: &Run,
    evaluator: &mut Evaluator,
) -> Result<Vec<Event>, Exhausted> {
    if is_request_obsolete(state, run) {
        let (by, reason) = ("policy:replan".to_owned(), "its cause no longer applies".to_owned());
        return Ok(vec![Event::ReplanWithdrawn(ReplanWithdrawn { run: run.id, by, reason })]);
    }
    if let Some(extension) = extension_request(run) {
        return Ok(vec![extension]);
    }
    if !run.all_closed()
        && let Some(cause) = overrun_cause(state, run)
    {
        return Ok(pause_for_budget(run, cause));
    }
    if run.in_flight > 0 {
        return Ok(Vec::new());
    }
    let end = |ending, reason| Ok(vec![Event::RunEnded(RunEnded { run: run.id, ending, reason })]);
    if let Some(reason) = &run.abort_reason {
        return end(Ending::Aborted, reason.clone());
    }
    // The requested version may change which work is done and which steps fail.
    if run.open_replan().is_some() && !mutant!(RunEndsWithOpenRequest) {
        return Ok(Vec::new());
    }
    if let Some(reason) = run.why_stopping() {
        return end(Ending::Failed, reason);
    }
    if run.all_closed() {
        return closed_run_events(run, evaluator);
    }
    if run.can_continue() {
        return Ok(Vec::new());
    }
    // A step that could have made a precondition true may have ended without doing so.
    for number in run.step_numbers() {
        let events = opening::consequence_events(run, number, state.time, evaluator)?;
        if !events.is_empty() {
            return Ok(events);
        }
    }
    let failed = run.count(StepStatus::Failed);
    let waiting = run.count(StepStatus::Waiting);
    let reason = format!("no step can continue: {failed} failed, {waiting} blocked");
    end(Ending::Failed, reason.into())
}

/// Whether the cause of the replan request no longer applies: the step that caused it continues or
/// was skipped. The request stays open while a step is failed or a version waits for a review.
fn is_request_obsolete(state: &State, run: &Run) -> bool {
    let Some(request) = &run.request else { return false };
    let is_gone = match &request.trigger {
        ReplanTrigger::PreconditionFalse { step, precondition } => {
            run.step(*step).is_some_and(|step| {
                let ruling = step.hold().preconditions.get(precondition);
                step.status.is_closed() || ruling == Some(&Ruling::Pass)
            })
        }
        ReplanTrigger::AssumptionBroken { token }
        | ReplanTrigger::RetriesExhausted { token }
        | ReplanTrigger::Failure { token } => {
            let step = state.dispatched.get(token).and_then(|(_, number, _)| run.step(*number));
            step.is_some_and(|step| {
                let is_another = step.attempt().is_none_or(|attempt| attempt.token != *token);
                let continues = step.status.is_remaining() && is_another;
                continues || step.status == StepStatus::Skipped
            })
        }
        // The request of a worker or a person stays open until a person or a planner resolves it.
        ReplanTrigger::ExecutorRequest { .. }
        | ReplanTrigger::BudgetExhausted
        | ReplanTrigger::ScopeChange { .. }
        | ReplanTrigger::Requested { .. }
        | ReplanTrigger::NewEvidence { .. }
        | ReplanTrigger::Extension => false,
    };
    is_gone && run.count(StepStatus::Failed) == 0 && run.newest_proposal().is_none()
}

/// Why a run must pause because it is over budget.
fn overrun_cause(state: &State, run: &Run) -> Option<PauseCause> {
    if run.pause.is_some() {
        return None;
    }
    let part = run.account.overrun(&run.limits()).map(|part| PauseCause::RunBudget { part });
    let of_ledger = state.account.limits.unwrap_or_default();
    part.or_else(|| {
        let part = state.account.overrun(&of_ledger)?;
        Some(PauseCause::LedgerBudget { part })
    })
}

/// For a plan with `continues: true`: requests more steps when fewer than `extend_at` are open.
fn extension_request(run: &Run) -> Option<Event> {
    let plan = run.plan().filter(|plan| plan.header().continues)?;
    if run.request.is_some() || run.is_complete || run.abort_reason.is_some() {
        return None;
    }
    let open = run.open_steps();
    // Always ask when no step is open: nothing else would end the run.
    let is_low = open < plan.header().extend_at.unwrap_or(1).max(1);
    is_low.then(|| {
        Event::ReplanRequested(ReplanRequested {
            run: run.id,
            trigger: ReplanTrigger::Extension,
            from: None,
            reason: format!("{open} steps are open").into(),
        })
    })
}

/// The consequence for a run whose steps are all accepted or skipped.
fn closed_run_events(run: &Run, evaluator: &mut Evaluator) -> Result<Vec<Event>, Exhausted> {
    let Some(plan) = run.plan() else { return Ok(Vec::new()) };
    let end = |ending, reason| Ok(vec![Event::RunEnded(RunEnded { run: run.id, ending, reason })]);
    if plan.header().continues && !run.is_complete {
        // Only the planner can declare such a plan complete, and its criteria must hold only then.
        return Ok(Vec::new());
    }
    if let Some(failed) = run.plan_verdicts.values().find(|each| each.ruling == Ruling::Fail) {
        return Ok(failed_plan_events(run, failed_criterion(&plan.header().test_criteria, failed)));
    }
    let missing = criteria_without_verdict(&plan.header().test_criteria, &run.plan_verdicts);
    if missing.is_empty() {
        let accepted = run.count(StepStatus::Accepted);
        let skipped = run.count(StepStatus::Skipped);
        let reason = format!("{accepted} steps accepted, {skipped} skipped");
        return end(Ending::Done, reason.into());
    }
    let event = |verdict: Verdict| {
        Event::PlanVerdict(PlanVerdict { run: run.id, version: run.active, verdict })
    };
    // A plan's own text criteria have no worker whose word could be trusted, so a judge or a person
    // decides them under any policy.
    let judgeable = expression_criteria(&plan.header().test_criteria, &missing);
    mutant!(PlanTextTrusted => if judgeable.is_empty() {
        let trusted = missing.into_iter().map(super::criteria::trusted_verdict);
        return Ok(trusted.map(event).collect());
    });
    if judgeable.is_empty() {
        return Ok(Vec::new());
    }
    let criteria = &plan.header().test_criteria;
    let verdicts = evaluate_plan_criteria(run, criteria, &judgeable, evaluator)?;
    Ok(verdicts.into_iter().map(event).collect())
}

/// A plan with failed criteria is replanned if its replan limit allows that.
fn failed_plan_events(run: &Run, reason: Text) -> Vec<Event> {
    let max = run.max_replans();
    if max.is_none_or(|max| run.replans >= max) {
        let ending = Ending::Failed;
        return vec![Event::RunEnded(RunEnded { run: run.id, ending, reason })];
    }
    if run.request.is_some() {
        return Vec::new();
    }
    vec![Event::ReplanRequested(ReplanRequested {
        run: run.id,
        trigger: ReplanTrigger::NewEvidence { by: BY_CRITERIA.to_owned() },
        from: None,
        reason,
    })]
}

impl Run {
    /// Whether all steps of the active version are accepted or skipped.
    #[must_use]
    pub fn all_closed(&self) -> bool {
        let closed =
            self.count(StepStatus::Accepted).saturating_add(self.count(StepStatus::Skipped));
        self.active_version().is_some_and(|version| version.step_count == closed)
    }

    /// Number of steps of the active version that may still be accepted.
    #[must_use]
    pub fn open_steps(&self) -> u32 {
        let over = [StepStatus::Accepted, StepStatus::Skipped, StepStatus::Failed];
        let over: u32 = over.map(|status| self.count(status)).iter().sum();
        self.active_version().map_or(0, |version| version.step_count.saturating_sub(over))
    }

    /// Whether the run can continue under its current plan: by a step, an open question or a
    /// request.
    fn can_continue(&self) -> bool {
        let live = [
            StepStatus::Ready,
            StepStatus::Reported,
            StepStatus::OutcomeUnknown,
            StepStatus::Gated,
            StepStatus::Delayed,
        ];
        live.iter().any(|status| self.count(*status) > 0)
            || self.request.is_some()
            || !self.questions.is_empty()
    }

    /// A barrier that fails the run because its deadline has passed. A retry of steps cannot
    /// release it.
    #[must_use]
    pub fn late_barrier(&self) -> Option<&str> {
        let is_late = |id: &&String| self.barriers.get(*id).is_some_and(|each| each.is_late);
        self.fatal_barriers.iter().find(is_late).map(String::as_str)
    }

    /// Why the run ends once no attempt is in flight, if it does. No step is dispatched until then.
    #[must_use]
    pub fn why_stopping(&self) -> Option<Text> {
        if let Some(reason) = &self.abort_reason {
            return Some(reason.clone());
        }
        if let Some(id) = self.late_barrier() {
            return Some(format!("barrier {id} was not released in time").into());
        }
        if let Some(id) = self.fatal_barriers.first() {
            return Some(
                format!("barrier {id} is broken: too few members can still arrive").into(),
            );
        }
        let failed = self.count(StepStatus::Failed);
        (self.policy.on_failure == OnFailure::FailFast && failed > 0).then(|| {
            format!("{failed} failed, and the failure policy of the run is fail-fast").into()
        })
    }
}
