//! Commands about runs, steps, variables and caps.

use std::collections::BTreeSet;

use super::attempts::{check_criterion, revoke_attempts};
use super::lookup::{expect_name, not_available, open_run, run_of, running_run, step_of};
use super::replans::is_for_criteria;
use crate::plan::decide::fallbacks;
use crate::plan::event::Event;
use crate::plan::event::plan_event::PlanVerdict;
use crate::plan::event::question::{
    Question, QuestionAnswer, QuestionBody, QuestionId, QuestionSubject, RETRY,
};
use crate::plan::event::run_event::{
    CapChanged, CapScope, Ending, Origin, QuestionAsked, RunEnded, RunReopened, VariableSet,
};
use crate::plan::event::step_event::{
    Accepted, AcceptedBasis, OutcomeResolved, Reopened, ResolvedOutcome, Ruling, Skipped, Verdict,
};
use crate::plan::event::step_status::StepStatus;
use crate::plan::event::table::StepEvent;
use crate::plan::rejection::Rejection;
use crate::plan::state::State;
use crate::plan::state::run::{Run, RunStatus};
use crate::plan::value::ids::{RunId, StepNumber};
use crate::plan::value::json::Json;
use crate::plan::value::names::NameKind;

/// Verdicts on plan criteria are accepted only once all steps are closed.
pub(super) fn judge_plan(
    state: &State,
    run: RunId,
    verdicts: &[Verdict],
) -> Result<Vec<Event>, Rejection> {
    let run = running_run(state, run)?;
    let criteria = match run.plan() {
        Some(plan) if run.all_closed() => plan.header().test_criteria.len(),
        _ => 0,
    };
    let mut judged: BTreeSet<u32> = run.plan_verdicts.keys().copied().collect();
    for verdict in verdicts {
        check_criterion(&mut judged, criteria, verdict.criterion)?;
    }
    let event = |verdict: &Verdict| {
        let verdict = verdict.clone();
        Event::PlanVerdict(PlanVerdict { run: run.id, version: run.active, verdict })
    };
    Ok(verdicts.iter().map(event).collect())
}

pub(super) fn mark_done_before(
    state: &State,
    run: RunId,
    steps: &[(StepNumber, String)],
) -> Result<Vec<Event>, Rejection> {
    let run = running_run(state, run)?;
    let mut seen = BTreeSet::new();
    let mut events = Vec::new();
    for (number, source) in steps {
        let step = step_of(run, *number)?;
        match step.status {
            StepStatus::Accepted | StepStatus::Skipped => continue,
            status if status.is_open() && step.attempt().is_none() => {}
            _ => return Err(not_available(step, *number)),
        }
        if seen.insert(*number) {
            let basis = AcceptedBasis::DoneBefore { source: source.clone() };
            events.push(Event::step(run.id, *number, StepEvent::Accepted(Accepted { basis })));
        }
    }
    events.extend(fallbacks::skip_unused(run, seen));
    Ok(events)
}

pub(super) fn skip(
    state: &State,
    run: RunId,
    number: StepNumber,
    by: &str,
    reason: &str,
) -> Result<Vec<Event>, Rejection> {
    let run = run_of(state, run)?;
    let retried = check_retry(run)?;
    let step = step_of(run, number)?;
    // The request of the step's worker is recorded after the open request is resolved. The step can
    // be skipped only then.
    if let Some(open) = run.open_replan().filter(|_| run.waits_to_request(number)) {
        return Err(Rejection::ReplanIsOpen(open.seq));
    }
    // A failed run continues without a step that failed.
    let is_over = retried == RetriedRun::Failed && step.status != StepStatus::Failed;
    if step.status.is_closed() || step.status == StepStatus::Dispatched || is_over {
        return Err(not_available(step, number));
    }
    let skipped = Skipped { by: by.to_owned(), reason: reason.into() };
    let mut events: Vec<Event> = reopen_run_event(run, retried, by).into_iter().collect();
    events.push(Event::step(run.id, number, StepEvent::Skipped(skipped)));
    events.extend(fallbacks::skip_unused(run, BTreeSet::from([number])));
    Ok(events)
}

pub(super) fn resolve_outcome(
    state: &State,
    run: RunId,
    number: StepNumber,
    finding: ResolvedOutcome,
    (by, evidence): (&str, &str),
) -> Result<Vec<Event>, Rejection> {
    let run = running_run(state, run)?;
    let step = step_of(run, number)?;
    let (StepStatus::OutcomeUnknown, Some(attempt)) = (step.status, step.attempt()) else {
        return Err(not_available(step, number));
    };
    let (actor, evidence) = (by.to_owned(), evidence.to_owned());
    let resolved = OutcomeResolved { token: attempt.token, finding, by: actor, evidence };
    let mut events = vec![Event::step(run.id, number, StepEvent::OutcomeResolved(resolved))];
    if finding == ResolvedOutcome::Landed {
        let basis = AcceptedBasis::Landed { by: by.to_owned() };
        events.push(Event::step(run.id, number, StepEvent::Accepted(Accepted { basis })));
    }
    Ok(events)
}

pub(super) fn retry_failed(state: &State, run: RunId, by: &str) -> Result<Vec<Event>, Rejection> {
    let run = run_of(state, run)?;
    let retried = check_retry(run)?;
    let plan_failed = run.plan_verdicts.values().any(|each| each.ruling == Ruling::Fail);
    let mut questions: Vec<_> = failure_questions(run).collect();
    questions.sort_by_key(|(number, ..)| *number);
    let asked = questions.into_iter().map(|question| answer_retry(run, question, by));
    let asked: Vec<Event> = asked.collect();
    if run.count(StepStatus::Failed) == 0 && !plan_failed && asked.is_empty() {
        return Err(Rejection::NothingFailed);
    }
    if plan_failed && retried == RetriedRun::Open {
        return rejudge_plan(run, by);
    }
    let tried = |number: StepNumber| {
        if fallbacks::is_failed_fallback(run, number) {
            fallbacks::skip_failed(run, number)
        } else {
            reopen_event(run, number, by)
        }
    };
    let mut events: Vec<Event> = failed_steps(run).map(tried).collect();
    events.extend(asked);
    events.extend(reopen_run_event(run, retried, by));
    Ok(events)
}

/// The open questions whether a failed step is retried.
fn failure_questions(run: &Run) -> impl Iterator<Item = (StepNumber, QuestionId, &Question)> {
    run.questions.iter().filter_map(|(id, question)| {
        let is_offered = question.asked.options.iter().any(|option| option == RETRY);
        let is_failure = matches!(question.asked.subject, QuestionSubject::Failure { .. });
        Some((question.step.filter(|_| is_failure && is_offered)?, *id, question))
    })
}

/// Answers the question about a failed step: it is retried.
fn answer_retry(
    run: &Run,
    (number, question, open): (StepNumber, QuestionId, &Question),
    by: &str,
) -> Event {
    let answered = QuestionAnswer {
        question,
        answer: RETRY.to_owned(),
        by: by.to_owned(),
        note: String::new(),
        shown: open.asked.shown,
    };
    Event::step(run.id, number, StepEvent::StepAnswered(answered))
}

/// Evaluates the plan criteria again, for a run that waits for a replan because a criterion does
/// not hold: the run ends as failed and is reopened. Questions about proposed versions are asked
/// again.
fn rejudge_plan(run: &Run, by: &str) -> Result<Vec<Event>, Rejection> {
    if let Some(cause) = &run.pause {
        return Err(Rejection::Paused(cause.clone()));
    }
    // The end of the run would close a request with another cause.
    let other = run.open_replan().filter(|request| !is_for_criteria(&request.trigger));
    if let Some(request) = other {
        return Err(Rejection::ReplanIsOpen(request.seq));
    }
    let (ending, by) = (Ending::Failed, by.to_owned());
    let reason = format!("{by} requested a new judgement of the plan criteria");
    let asked = run.questions.values().map(|question| &question.asked);
    let reviews = asked.filter(|asked| matches!(asked.subject, QuestionSubject::Plan { .. }));
    let again = |asked: &QuestionBody| {
        Event::QuestionAsked(QuestionAsked { run: run.id, asked: asked.clone() })
    };
    let ended = Event::RunEnded(RunEnded { run: run.id, ending, reason: reason.into() });
    let reopened = Event::RunReopened(RunReopened { run: run.id, by });
    Ok([ended, reopened].into_iter().chain(reviews.map(again)).collect())
}

pub(super) fn retry(
    state: &State,
    run: RunId,
    number: StepNumber,
    by: &str,
) -> Result<Vec<Event>, Rejection> {
    let run = run_of(state, run)?;
    let retried = check_retry(run)?;
    if step_of(run, number)?.status != StepStatus::Failed {
        let question = failure_questions(run).find(|(step, ..)| *step == number);
        let question = question.ok_or(Rejection::NothingFailed)?;
        return Ok(vec![answer_retry(run, question, by)]);
    }
    let mut events = vec![reopen_event(run, number, by)];
    events.extend(
        fallbacks::failed_chain(run, number).map(|fallback| fallbacks::skip_failed(run, fallback)),
    );
    events.extend(reopen_run_event(run, retried, by));
    Ok(events)
}

/// Checks that a run can be retried, and returns whether it has ended. A run with a late barrier
/// cannot: the barrier would fail it again immediately.
fn check_retry(run: &Run) -> Result<RetriedRun, Rejection> {
    let retried = match run.status {
        RunStatus::Proposed => return Err(Rejection::NoActivePlan),
        RunStatus::Running => RetriedRun::Open,
        RunStatus::Ended(Ending::Failed) => RetriedRun::Failed,
        RunStatus::Ended(ending) => return Err(Rejection::RunHasEnded(ending)),
    };
    let late = run.late_barrier().map(|id| Rejection::BarrierLate(id.to_owned()));
    late.map_or(Ok(retried), Err)
}

/// Whether the run to retry is open or has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RetriedRun {
    Open,
    Failed,
}

fn reopen_event(run: &Run, number: StepNumber, by: &str) -> Event {
    Event::step(run.id, number, StepEvent::Reopened(Reopened { by: by.to_owned() }))
}

fn reopen_run_event(run: &Run, retried: RetriedRun, by: &str) -> Option<Event> {
    let reopened = || Event::RunReopened(RunReopened { run: run.id, by: by.to_owned() });
    (retried == RetriedRun::Failed).then(reopened)
}

fn failed_steps(run: &Run) -> impl Iterator<Item = StepNumber> {
    run.step_numbers()
        .filter(|number| run.step(*number).is_some_and(|step| step.status == StepStatus::Failed))
}

pub(super) fn set_variable(
    state: &State,
    run: RunId,
    (name, value): (&str, &Json),
    expected_version: Option<u64>,
    origin: &Origin,
) -> Result<Vec<Event>, Rejection> {
    let run = open_run(state, run)?;
    expect_name(NameKind::Variable, name)?;
    if let Origin::Step { step, token } = origin {
        let attempt = state.dispatched.get(token);
        if attempt.is_none_or(|(of, number, _)| (of, number) != (&run.id, step)) {
            return Err(Rejection::StaleToken(*token));
        }
    }
    value.expect_readable()?;
    let found = run.variables.get(name).map_or(0, |variable| variable.version);
    if let Some(expected) = expected_version
        && expected != found
        && !mutant!(VariableVersionUnchecked)
    {
        return Err(Rejection::VersionDiffers { expected, found });
    }
    Ok(vec![Event::VariableSet(VariableSet {
        run: run.id,
        name: name.to_owned(),
        value: value.clone(),
        version: found.saturating_add(1),
        origin: origin.clone(),
        since: 0,
    })])
}

pub(super) fn set_cap(
    state: &State,
    scope: &CapScope,
    limit: Option<u32>,
    by: &str,
) -> Result<Vec<Event>, Rejection> {
    if limit == Some(0) {
        return Err(Rejection::ZeroCap);
    }
    if let CapScope::Run { run } = scope {
        open_run(state, *run)?;
    }
    Ok(vec![Event::CapChanged(CapChanged { scope: scope.clone(), limit, by: by.to_owned() })])
}

/// Attempts in flight are revoked first, because they would otherwise count towards caps
/// permanently.
pub(super) fn cancel(
    state: &State,
    run: RunId,
    by: &str,
    reason: &str,
) -> Result<Vec<Event>, Rejection> {
    let run = open_run(state, run)?;
    let mut events = revoke_attempts(run, run.step_numbers(), "the run was cancelled");
    let ending = Ending::Cancelled;
    let reason = format!("{by}: {reason}");
    events.push(Event::RunEnded(RunEnded { run: run.id, ending, reason: reason.into() }));
    Ok(events)
}
