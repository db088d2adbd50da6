//! Runs and plan versions: started, proposed, reviewed, activated.

use std::collections::{BTreeMap, BTreeSet};

use super::attempts::revoked;
use super::{open_run, run_of};
use crate::plan::replan::activation;
use crate::plan::{
    ApprovalPolicy, ContentHash, Ending, Event, HashedStep, Plan, PlanActivated, PlanDraft,
    PlanProposed, PlanReviewed, PlanSteps, Problem, Rejection, Review, Run, RunId, RunPolicy,
    RunReopened, RunStarted, RunStatus, State, StepNumber, canonical,
};

/// Who approves where nobody has to.
const AUTOMATIC: &str = "policy:automatic";

/// How many bytes of canonical JSON the steps of one record may take.
const MAX_CHUNK_BYTES: usize = 1 << 20;

/// What a reviewer says about which version.
pub(super) struct Reviewed {
    pub(super) version: u32,
    pub(super) hash: ContentHash,
    pub(super) review: Review,
}

pub(super) fn start_run(
    state: &State,
    name: &str,
    policy: RunPolicy,
    draft: &PlanDraft,
) -> Result<Vec<Event>, Rejection> {
    if name.trim().is_empty() {
        return Err(problem("run name", "empty: expected at least one visible character"));
    }
    if let Some(run) = state.run_named(name) {
        return Err(Rejection::RunExists(run.id));
    }
    let count = check_draft(draft)?;
    let last = state.runs.keys().next_back().map_or(0, |run| run.0);
    let run = RunId(last.saturating_add(1));
    let mut events = vec![Event::RunStarted(RunStarted { run, name: name.to_owned(), policy })];
    events.extend(proposal(run, 1, draft, count, ""));
    if policy.approval == ApprovalPolicy::Automatic {
        events.push(approval(run, 1, draft.hash));
        events.push(Event::PlanActivated(PlanActivated {
            run,
            version: 1,
            numbers: (1..=count).map(StepNumber).collect(),
            preserved: Vec::new(),
            invalidated: Vec::new(),
            removed: Vec::new(),
        }));
    }
    Ok(events)
}

pub(super) fn propose(
    state: &State,
    run: RunId,
    draft: &PlanDraft,
    reason: &str,
) -> Result<Vec<Event>, Rejection> {
    let run = revisable(state, run)?;
    if run.active_version().is_some_and(|active| active.hash == draft.hash) {
        return Err(Rejection::SamePlan(run.active));
    }
    let count = check_draft(draft)?;
    let version = u32::try_from(run.versions.len()).unwrap_or(u32::MAX).saturating_add(1);
    let mut events = proposal(run.id, version, draft, count, reason);
    if run.policy.approval == ApprovalPolicy::Automatic {
        events.push(approval(run.id, version, draft.hash));
        let mut plan = (*draft.header).clone();
        plan.steps = draft.steps.iter().map(|each| each.step.clone()).collect();
        let hashes: Vec<ContentHash> = draft.steps.iter().map(|each| each.hash).collect();
        events.extend(activate(run, version, &plan, &hashes, AUTOMATIC));
    }
    Ok(events)
}

pub(super) fn review(
    state: &State,
    run: RunId,
    reviewed: &Reviewed,
    by: &str,
    note: &str,
) -> Result<Vec<Event>, Rejection> {
    let run = revisable(state, run)?;
    if run.policy.approval == ApprovalPolicy::Automatic {
        return Err(Rejection::ApprovalPolicy(run.policy.approval));
    }
    let Reviewed { version, hash, review } = *reviewed;
    let proposed = usize::try_from(version)
        .ok()
        .and_then(|version| run.versions.get(version.checked_sub(1)?))
        // A version that was overtaken is never activated: numbers only go up.
        .filter(|proposed| proposed.review.is_none() && version > run.active)
        .ok_or(Rejection::NoSuchVersion(version))?;
    if proposed.hash != hash {
        return Err(Rejection::HashDiffers { expected: proposed.hash, found: hash });
    }
    let mut events = vec![Event::PlanReviewed(PlanReviewed {
        run: run.id,
        version,
        hash,
        review,
        by: by.to_owned(),
        note: note.to_owned(),
    })];
    if review == Review::Approved {
        events.extend(activate(run, version, &proposed.plan, &proposed.step_hashes, by));
    }
    Ok(events)
}

/// A run whose plan may still change: it goes on, or it failed and a new plan may save it.
fn revisable(state: &State, run: RunId) -> Result<&Run, Rejection> {
    let run = run_of(state, run)?;
    if run.status == RunStatus::Ended(Ending::Failed) { Ok(run) } else { open_run(state, run.id) }
}

/// Refuses a draft that would break the books, and counts its steps.
fn check_draft(draft: &PlanDraft) -> Result<u32, Rejection> {
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for (place, HashedStep { step, .. }) in draft.steps.iter().enumerate() {
        if let Some(first) = places.insert(&step.id, place) {
            let message = format!("the id is taken by steps[{first}]: choose another");
            return Err(problem(&format!("steps[{place}] ({})", step.id), &message));
        }
    }
    let mut barriers = BTreeSet::new();
    for (place, barrier) in draft.header.barriers.iter().enumerate() {
        if places.contains_key(barrier.id.as_str()) || !barriers.insert(barrier.id.as_str()) {
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

fn approval(run: RunId, version: u32, hash: ContentHash) -> Event {
    Event::PlanReviewed(PlanReviewed {
        run,
        version,
        hash,
        review: Review::Approved,
        by: AUTOMATIC.to_owned(),
        note: String::new(),
    })
}

/// The version's header, and its steps in as few records as may hold them.
fn proposal(
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
    })];
    let mut rest = draft.steps.as_slice();
    while !rest.is_empty() {
        let (chunk, after) = rest.split_at(chunk_length(rest).min(rest.len()));
        events.push(Event::PlanSteps(PlanSteps { run, version, steps: chunk.to_vec() }));
        rest = after;
    }
    events
}

/// How many of the steps go into one record: at least one, however large it is.
fn chunk_length(steps: &[HashedStep]) -> usize {
    let mut bytes: usize = 0;
    let fitting = steps.iter().take_while(|each| {
        bytes = bytes.saturating_add(canonical(&each.step).len()).saturating_add(1);
        bytes <= MAX_CHUNK_BYTES
    });
    fitting.count().max(1)
}

/// The activation of a later version: attempts that it takes away are lost first, and a run that
/// had failed goes on.
fn activate(run: &Run, version: u32, plan: &Plan, hashes: &[ContentHash], by: &str) -> Vec<Event> {
    let activated = activation(run, version, plan, hashes);
    let taken = activated.invalidated.iter().chain(&activated.removed).copied();
    let mut events = revoked(run, taken, "a new plan version took the step away");
    if run.status == RunStatus::Ended(Ending::Failed) {
        events.push(Event::RunReopened(RunReopened { run: run.id, by: by.to_owned() }));
    }
    events.push(Event::PlanActivated(activated));
    events
}
