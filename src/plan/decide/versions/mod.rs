//! Commands that start runs, and propose, review and activate plan versions.

mod inputs;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::activation::activation;
use super::ask::{plan_question, withdraw_questions};
use super::attempts::revoke_attempts;
use super::lookup::{expect_name, not_available, open_run, run_of, step_of};
use crate::plan::command::PlanDraft;
use crate::plan::decide::budget;
use crate::plan::event::Event;
use crate::plan::event::plan_event::{
    CommandsApproval, HashedStep, PlanActivated, PlanProposed, PlanReviewed, PlanSteps, Review,
};
use crate::plan::event::question::QuestionSubject;
use crate::plan::event::run_event::{
    ApprovalPolicy, Ending, ReplanRequested, ReplanTrigger, RunPolicy, RunReopened, RunStarted,
};
use crate::plan::model::graph::name_index::NameIndex;
use crate::plan::model::problem::Problem;
use crate::plan::rejection::Rejection;
use crate::plan::state::State;
use crate::plan::state::compact::plan::CompactPlan;
use crate::plan::state::run::{PlanVersion, Run, RunStatus};
use crate::plan::value::canonical::json_length;
use crate::plan::value::ids::{ContentHash, RunId, StepNumber, Timestamp};
use crate::plan::value::json::Json;
use crate::plan::value::names::NameKind;

/// Reviewer of versions that need no approval.
const AUTOMATIC: &str = "policy:automatic";

/// Maximum size of the steps of a record, in bytes of JSON.
const MAX_CHUNK_BYTES: usize = 1 << 20;

/// The review of a version, with the hash of the plan that the reviewer saw.
pub(super) struct VersionReview {
    pub(super) version: u32,
    pub(super) hash: ContentHash,
    pub(super) review: Review,
}

/// Reason, trigger and approval of a proposal.
pub(super) struct ProposalContext<'a> {
    pub(super) reason: &'a str,
    pub(super) trigger: Option<&'a ReplanTrigger>,
    pub(super) approval: ApprovalPolicy,
}

/// The number for a new run with this name, which must be valid and unused.
pub(super) fn new_run(state: &State, name: &str) -> Result<RunId, Rejection> {
    expect_name(NameKind::Run, name)?;
    if let Some(run) = state.names.get(name) {
        return Err(Rejection::RunExists(*run));
    }
    let newest = |run: Option<&RunId>| run.map_or(0, |run| run.0);
    let whole = newest(state.runs.keys().next_back());
    let last = whole.max(newest(state.summaries.keys().next_back()));
    Ok(RunId(last.saturating_add(1)))
}

pub(super) fn start_run(
    state: &State,
    now: Timestamp,
    (name, policy): (&str, RunPolicy),
    reason: &str,
    (draft, given): (&PlanDraft, &BTreeMap<String, Json>),
) -> Result<Vec<Event>, Rejection> {
    let run = new_run(state, name)?;
    let count = checked_step_count(draft)?;
    let variables = inputs::at_start(run, &draft.header, given)?;
    let names = variables.iter().filter_map(|event| match event {
        Event::VariableSet(set) => Some(set.name.clone()),
        _ => None,
    });
    let mut trusted: Vec<String> = names.collect();
    trusted.sort_unstable();
    let mut events = vec![Event::RunStarted(RunStarted { run, name: name.to_owned(), policy })];
    events.extend(variables);
    events.extend(proposal_events(run, 1, draft, count, reason));
    if needs_review(policy, draft) {
        events.extend(plan_question(run, 1, draft, now));
        return Ok(events);
    }
    events.push(approval_event(run, 1, draft));
    let numbers: Vec<StepNumber> = (1..=count).map(StepNumber).collect();
    events.push(Event::PlanActivated(PlanActivated {
        run,
        version: 1,
        numbers,
        preserved: Vec::new(),
        invalidated: Vec::new(),
        removed: Vec::new(),
        added: Vec::new(),
        trusted,
        untrusted: Vec::new(),
        request: 0,
        held: Vec::new(),
        answers: Vec::new(),
        since: 0,
    }));
    Ok(events)
}

/// Whether approval is required by the policy of the run or by the plan.
fn needs_review(policy: RunPolicy, draft: &PlanDraft) -> bool {
    policy.approval == ApprovalPolicy::Required || draft.header.gate.is_some()
}

pub(super) fn propose(
    state: &State,
    now: Timestamp,
    run: RunId,
    draft: &PlanDraft,
    why: &ProposalContext<'_>,
) -> Result<Vec<Event>, Rejection> {
    let ProposalContext { reason, trigger, approval: wanted } = *why;
    let run = revisable_run(state, run)?;
    let redone = run.request.as_ref().and_then(|request| request.from);
    let is_redone =
        redone.and_then(|from| run.step(from)).is_some_and(|from| from.status.is_closed());
    if run.active_version().is_some_and(|active| active.hash == draft.hash) && !is_redone {
        return Err(Rejection::SamePlan(run.active));
    }
    let count = checked_step_count(draft)?;
    inputs::expect_complete(run, &draft.header)?;
    check_limit(run, trigger)?;
    let version = u32::try_from(run.versions.len()).unwrap_or(u32::MAX).saturating_add(1);
    let mut events = Vec::new();
    // There is no plan to replace before the first version.
    let may_ask = run.request.is_none() && run.active > 0;
    if let Some(trigger) = trigger.filter(|_| may_ask) {
        events.push(Event::ReplanRequested(ReplanRequested {
            run: run.id,
            trigger: trigger.clone(),
            from: None,
            reason: reason.into(),
        }));
    }
    events.extend(proposal_events(run.id, version, draft, count, reason));
    if wanted == ApprovalPolicy::Required || needs_review(run.policy, draft) {
        // No question is asked about an ended run; a review of the version reopens it.
        let is_open = !matches!(run.status, RunStatus::Ended(_));
        let asked = is_open.then(|| plan_question(run.id, version, draft, now));
        events.extend(asked.flatten());
        return Ok(events);
    }
    events.push(approval_event(run.id, version, draft));
    let (plan, hashes) = draft.compact();
    let plan = (&plan, &hashes[..]);
    events.extend(activation_events(state, now, run, version, (plan, redone), AUTOMATIC));
    Ok(events)
}

/// Enforces the replan limit of the active plan. Changes of scope and extensions do not count.
fn check_limit(run: &Run, trigger: Option<&ReplanTrigger>) -> Result<(), Rejection> {
    let open = run.request.as_ref().map(|request| &request.trigger);
    let is_free = open.or(trigger).is_some_and(|trigger| {
        trigger.is_change_of_scope() || *trigger == ReplanTrigger::Extension
    });
    match run.max_replans() {
        Some(max) if !is_free && run.replans >= max => Err(Rejection::ReplanLimit(max)),
        _ => Ok(()),
    }
}

/// Redoes an accepted step: the active plan becomes a new version, which invalidates the step and
/// all work that depends on it.
pub(super) fn redo(
    state: &State,
    now: Timestamp,
    run: RunId,
    number: StepNumber,
    (by, reason): (&str, &str),
) -> Result<Vec<Event>, Rejection> {
    let run = revisable_run(state, run)?;
    let step = step_of(run, number)?;
    if !step.status.is_closed() {
        return Err(not_available(step, number));
    }
    if let Some(request) = &run.request {
        return Err(Rejection::ReplanIsOpen(request.seq));
    }
    let Some(active) = run.active_version() else { return Err(Rejection::NoActivePlan) };
    let steps = active.plan.steps().zip(active.step_hashes.iter());
    let draft = PlanDraft {
        hash: active.hash,
        header: Box::new(active.plan.header().clone()),
        steps: steps
            .map(|(step, hash)| HashedStep { hash: *hash, step: Arc::new(step.decode()) })
            .collect(),
        provenance: active.provenance.clone(),
        commands: None,
    };
    let version = u32::try_from(run.versions.len()).unwrap_or(u32::MAX).saturating_add(1);
    let mut events = vec![Event::ReplanRequested(ReplanRequested {
        run: run.id,
        trigger: ReplanTrigger::Requested { by: by.to_owned() },
        from: Some(number),
        reason: reason.into(),
    })];
    events.extend(proposal_events(run.id, version, &draft, active.step_count, reason));
    events.push(Event::PlanReviewed(PlanReviewed {
        run: run.id,
        version,
        hash: draft.hash,
        review: Review::Approved,
        by: by.to_owned(),
        note: String::new(),
        commands: active.commands.clone(),
    }));
    let plan = (&active.plan, &active.step_hashes[..]);
    events.extend(activation_events(state, now, run, version, (plan, Some(number)), by));
    Ok(events)
}

pub(super) fn review(
    state: &State,
    now: Timestamp,
    run: RunId,
    expected: &VersionReview,
    reviewer: (&str, &str),
) -> Result<Vec<Event>, Rejection> {
    let run = revisable_run(state, run)?;
    let VersionReview { version, hash, review } = *expected;
    let proposed = proposed_version(run, version)?;
    if proposed.hash != hash {
        return Err(Rejection::HashDiffers { expected: proposed.hash, found: hash });
    }
    let mut events = withdraw_questions(run, &QuestionSubject::Plan { version }, reviewer.0);
    events.extend(review_events(state, now, run, (version, review), reviewer)?);
    Ok(events)
}

/// Approves the commands of a version that is already approved, with a second review that lists
/// them. Commands that are approved already need no new record, unless they now run in another
/// folder.
pub(super) fn approve_commands(
    state: &State,
    run: RunId,
    number: u32,
    commands: &CommandsApproval,
) -> Result<Vec<Event>, Rejection> {
    let run = run_of(state, run)?;
    let version = usize::try_from(number).ok().and_then(|it| run.versions.get(it.checked_sub(1)?));
    let approved = version.filter(|each| each.review == Some(Review::Approved));
    let version = approved.ok_or(Rejection::NoSuchVersion(number))?;
    let known = run.approved_commands(commands.hash);
    if known.is_some_and(|known| commands.folder.is_none() || commands.folder == known.folder) {
        return Ok(Vec::new());
    }
    Ok(vec![Event::PlanReviewed(PlanReviewed {
        run: run.id,
        version: number,
        hash: version.hash,
        review: Review::Approved,
        by: commands.by.clone(),
        note: version.note.clone(),
        commands: Some(commands.clone()),
    })])
}

/// A version that waits for a review.
fn proposed_version(run: &Run, version: u32) -> Result<&PlanVersion, Rejection> {
    usize::try_from(version)
        .ok()
        .and_then(|version| run.versions.get(version.checked_sub(1)?))
        // A version below the active one can no longer be activated.
        .filter(|proposed| proposed.review.is_none() && version > run.active)
        .ok_or(Rejection::NoSuchVersion(version))
}

/// The review of a version, and its activation if it is approved.
pub(super) fn review_events(
    state: &State,
    now: Timestamp,
    run: &Run,
    (version, review): (u32, Review),
    (by, note): (&str, &str),
) -> Result<Vec<Event>, Rejection> {
    let proposed = proposed_version(run, version)?;
    if review == Review::Approved {
        // Other versions may have been activated since the proposal.
        check_limit(run, None)?;
    }
    let mut events = vec![Event::PlanReviewed(PlanReviewed {
        run: run.id,
        version,
        hash: proposed.hash,
        review,
        by: by.to_owned(),
        note: note.to_owned(),
        commands: None,
    })];
    if review == Review::Approved {
        let plan = (&proposed.plan, &proposed.step_hashes[..]);
        let redone = run.request.as_ref().and_then(|request| request.from);
        events.extend(activation_events(state, now, run, version, (plan, redone), by));
    }
    Ok(events)
}

/// A run whose plan may still change: it has not ended, or it failed.
fn revisable_run(state: &State, run: RunId) -> Result<&Run, Rejection> {
    let run = run_of(state, run)?;
    if run.status == RunStatus::Ended(Ending::Failed) { Ok(run) } else { open_run(state, run.id) }
}

/// The number of steps of a draft. A draft that would corrupt the state is rejected.
pub(super) fn checked_step_count(draft: &PlanDraft) -> Result<u32, Rejection> {
    let ids = NameIndex::new(draft.steps.iter().map(|each| each.step.id.as_str()));
    if let Some((place, first)) = ids.repeated() {
        let id = draft.steps.get(place).map_or("", |each| &each.step.id);
        let message = format!("the id is taken by steps[{first}]: choose another");
        return Err(problem(&format!("steps[{place}] ({id})"), &message));
    }
    let mut barriers = BTreeSet::new();
    for (place, barrier) in draft.header.barriers.iter().enumerate() {
        if ids.find(&barrier.id).is_some() || !barriers.insert(barrier.id.as_str()) {
            let at = format!("barriers[{place}] ({})", barrier.id);
            return Err(problem(
                &at,
                "the id is taken by a step or another barrier: choose another",
            ));
        }
    }
    u32::try_from(draft.steps.len())
        .map_err(|_| problem("steps", "more steps than a run can number: split the plan"))
}

fn problem(place: &str, message: &str) -> Rejection {
    let problem = Problem { place: place.to_owned(), message: message.to_owned() };
    Rejection::InvalidPlan(vec![problem])
}

fn approval_event(run: RunId, version: u32, draft: &PlanDraft) -> Event {
    Event::PlanReviewed(PlanReviewed {
        run,
        version,
        hash: draft.hash,
        review: Review::Approved,
        by: AUTOMATIC.to_owned(),
        note: String::new(),
        commands: draft.commands.clone(),
    })
}

/// The proposal of a version: its header, then its steps in as few records as possible.
pub(super) fn proposal_events(
    run: RunId,
    version: u32,
    draft: &PlanDraft,
    step_count: u32,
    reason: &str,
) -> Vec<Event> {
    let mut header = draft.header.clone();
    header.steps.clear();
    let mut events = vec![Event::PlanProposed(PlanProposed {
        run,
        version,
        hash: draft.hash,
        reason: reason.to_owned(),
        header,
        step_count,
        provenance: draft.provenance.clone(),
    })];
    let mut rest = draft.steps.as_slice();
    while !rest.is_empty() {
        let (chunk, after) = rest.split_at(chunk_length(rest).min(rest.len()));
        events.push(Event::PlanSteps(PlanSteps { run, version, steps: chunk.to_vec() }));
        rest = after;
    }
    events
}

/// Number of steps that fit into one record, at least one.
fn chunk_length(steps: &[HashedStep]) -> usize {
    let mut bytes: usize = 0;
    let fitting = steps.iter().take_while(|each| {
        bytes = bytes.saturating_add(json_length(&each.step)).saturating_add(1);
        bytes <= MAX_CHUNK_BYTES
    });
    fitting.count().max(1)
}

/// A change of scope, so that the first active version does not count as a replan if earlier
/// versions were rejected.
fn initial_activation_request(run: &Run, version: u32, by: &str) -> Option<Event> {
    let is_first = run.active == 0 && version > 1;
    (is_first && run.request.is_none()).then(|| {
        Event::ReplanRequested(ReplanRequested {
            run: run.id,
            trigger: ReplanTrigger::ScopeChange { by: by.to_owned() },
            from: None,
            reason: "no version before this one became active".into(),
        })
    })
}

/// The events that activate a version of a run that has started: first the losses of attempts that
/// the version invalidates. The step `redone` is done again even if its work is unchanged. A failed run is reopened, and a run that was paused because of a budget
/// is unpaused if the new budget covers another attempt.
fn activation_events(
    state: &State,
    now: Timestamp,
    run: &Run,
    version: u32,
    ((plan, hashes), redone): ((&Arc<CompactPlan>, &[ContentHash]), Option<StepNumber>),
    by: &str,
) -> Vec<Event> {
    let activated = activation(run, version, (plan, hashes), redone);
    let first = initial_activation_request(run, version, by);
    let taken = activated.invalidated.iter().chain(&activated.removed).copied();
    let mut events = revoke_attempts(run, taken, "revoked by a new plan version");
    if run.status == RunStatus::Ended(Ending::Failed) {
        events.push(Event::RunReopened(RunReopened { run: run.id, by: by.to_owned() }));
    }
    events.extend(first);
    events.extend(inputs::at_activation(run, plan.header()));
    events.push(Event::PlanActivated(activated));
    events.extend(budget::resume_if_covered(state, now, run, plan.header().budget.into(), by));
    events
}
