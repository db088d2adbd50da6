//! The invariants of the state: all derived data is recomputed from the statuses and attempts of
//! the steps, the plan, and the statuses of the barriers.
//!
//! This module shares no code with `apply`; names are looked up by linear search.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::plan::*;

/// Panics if any derived part of the state is wrong, or if a consequence is still pending.
pub(super) fn check(state: &State) {
    check_derived(state);
    let mut account = Account { limits: state.account.limits, ..Account::default() };
    for run in state.runs.values() {
        check_run(run);
        check_explanation(state, run);
        account.spent = account.spent.plus(run.account.spent);
        account.estimated = account.estimated.plus(run.account.estimated);
        account.reserved = account.reserved.plus(run.account.reserved);
        account.attempts += run.account.attempts;
        assert_eq!(state.names.get(&run.name), Some(&run.id));
    }
    if state.summaries.is_empty() {
        assert_eq!(state.account, account);
    }
}

/// Panics if a list, count or timer does not follow from the statuses and attempts of the steps.
/// Must hold after any event, also a forged one.
pub(super) fn check_derived(state: &State) {
    let mut in_flight = BTreeMap::new();
    let mut by_owner: BTreeMap<String, u32> = BTreeMap::new();
    let mut by_tag: BTreeMap<String, u32> = BTreeMap::new();
    let mut due = BTreeSet::new();
    let mut questions = BTreeMap::new();
    for run in state.runs.values() {
        if let Some(version) = run.active_version() {
            check_lists(run, version);
        }
        due.extend(run.timers.first().map(|(time, _)| (*time, run.id)));
        questions.extend(run.questions.keys().map(|question| (*question, run.id)));
        for (place, step) in run.steps.iter().enumerate() {
            let number = StepNumber(u32::try_from(place + 1).unwrap());
            if step.status != StepStatus::Dispatched {
                continue;
            }
            let attempt = step.attempt().expect("a step in flight has an attempt");
            in_flight.insert(attempt.token, (run.id, number));
            step.tags().iter().for_each(|tag| *by_tag.entry(tag.clone()).or_default() += 1);
            let place = (run.id, number, attempt.secret_hash);
            assert_eq!(state.dispatched.get(&attempt.token), Some(&place));
            if let Some(owner) = step.owner_at_work() {
                *by_owner.entry(owner.to_owned()).or_default() += 1;
            }
        }
    }
    for (token, (run, ..)) in &state.dispatched {
        assert!(
            state.runs[run].dispatched.contains(token),
            "the run lists the tokens that retire with it"
        );
    }
    assert_eq!(state.in_flight, in_flight);
    assert_eq!(state.in_flight_by_owner, by_owner);
    assert_eq!(state.in_flight_by_tag, by_tag);
    assert_eq!(state.due, due);
    assert_eq!(state.questions, questions);
}

/// `explain` and a claim must agree about every step, one step per call.
fn check_explanation(state: &State, run: &Run) {
    let steps = u64::try_from(run.steps.len()).unwrap();
    if let Some(place) = state.seq.checked_rem(steps) {
        let number = StepNumber(u32::try_from(place + 1).unwrap());
        crate::plan::explain::tests::agrees_with_claim(state, run, number);
    }
}

fn check_run(run: &Run) {
    let Some(version) = run.active_version() else {
        assert!(run.steps.is_empty() && run.lanes.is_empty());
        return;
    };
    check_numbers(run, version);
    check_barriers(run, version);
    check_timers(run);
    check_account(run);
    if run.status == RunStatus::Running {
        // No consequence is pending between commands.
        assert!(run.pending_steps.is_empty() && run.pending_barriers.is_empty());
        assert!(has_no_pending_consequence(run));
    }
    let plan = version.plan.decode();
    for (step, number) in plan.steps.iter().zip(&version.numbers) {
        let state = run.step(*number).unwrap();
        let waits: BTreeSet<&str> =
            step.after.iter().map(String::as_str).filter(|name| !is_met(run, name)).collect();
        assert_eq!(usize::try_from(state.unmet).unwrap(), waits.len(), "unmet of {}", step.id);
        assert_eq!(run.unmet_dependencies(*number).len(), waits.len());
        let is_held_back = is_held_back(step, state);
        match state.status {
            StepStatus::Ready => {
                assert!(waits.is_empty() && !is_held_back, "{} is ready too early", step.id);
            }
            StepStatus::Waiting => {
                assert!(!waits.is_empty() || is_held_back, "{} waits without a reason", step.id);
            }
            StepStatus::Dispatched | StepStatus::Reported => assert!(waits.is_empty()),
            StepStatus::Accepted if depends_on_inputs(state) => {
                assert!(waits.is_empty(), "{} depends on an unmet dependency", step.id);
            }
            _ => {}
        }
        let has_attempt = match state.status {
            StepStatus::Dispatched | StepStatus::Reported | StepStatus::OutcomeUnknown => true,
            // A question about its failure is open, or it failed permanently and may have landed.
            StepStatus::Gated | StepStatus::Failed => state.attempt().is_some(),
            _ => false,
        };
        assert_eq!(state.attempt().is_some(), has_attempt, "attempt of {}", step.id);
        // Work that must not be done twice keeps the reason until it is done again.
        let is_accepted = state.status == StepStatus::Accepted;
        assert!(state.accepted().is_some() || !is_accepted, "basis of {}", step.id);
    }
}

/// Whether a step is blocked by anything but its dependencies.
fn is_held_back(step: &Step, state: &StepState) -> bool {
    let hold = state.hold();
    let passed = hold.preconditions.values().filter(|ruling| **ruling == Ruling::Pass).count();
    hold.is_standby
        || hold.fallback_step.is_some()
        || (step.condition.is_some() && hold.condition != Some(Ruling::Pass))
        || passed < step.preconditions.len()
        || (step.gate.is_some() && !hold.is_gate_open)
        || hold.question.is_some()
        || hold.delay.is_some()
        || state.attempt().is_some()
}

/// Whether a step was accepted through an attempt. Earlier work, and work that landed after its
/// step changed, may have unmet dependencies.
fn depends_on_inputs(step: &StepState) -> bool {
    let elsewhere = |basis: &AcceptedBasis| {
        matches!(basis, AcceptedBasis::DoneBefore { .. } | AcceptedBasis::Landed { .. })
    };
    !step.accepted().is_some_and(elsewhere)
}

fn check_numbers(run: &Run, version: &PlanVersion) {
    assert_eq!(version.numbers.len(), version.plan.len());
    let ids: BTreeSet<&str> = run.steps.iter().map(StepState::id).collect();
    assert_eq!(ids.len(), run.steps.len(), "each id keeps its number");
    for (step, number) in version.plan.steps().zip(&version.numbers) {
        assert_eq!(run.step(*number).unwrap().id(), step.id());
        assert_eq!(run.step_named(step.id()), Some(*number));
        assert_eq!(run.plan_step(*number), Some(step));
    }
}

fn check_lists(run: &Run, version: &PlanVersion) {
    let mut counts: BTreeMap<StepStatus, u32> = BTreeMap::new();
    let mut ready = BTreeSet::new();
    let mut lanes: BTreeMap<Lane, Queue> = BTreeMap::new();
    let mut by_owner: BTreeMap<String, u32> = BTreeMap::new();
    let mut with = BTreeMap::from([(StepStatus::Reported, BTreeSet::new())]);
    with.insert(StepStatus::OutcomeUnknown, BTreeSet::new());
    let present: BTreeSet<StepNumber> = version.numbers.iter().copied().collect();
    for (place, step) in run.steps.iter().enumerate() {
        let number = StepNumber(u32::try_from(place + 1).unwrap());
        assert_eq!(present.contains(&number), step.status != StepStatus::Removed);
        if step.status == StepStatus::Removed {
            continue;
        }
        *counts.entry(step.status).or_default() += 1;
        if step.status == StepStatus::Ready {
            ready.insert((Reverse(step.priority()), number));
            let tags = step.tags().intersection(&run.capped_tags).cloned().collect();
            let queue = lanes.entry((step.owner().map(str::to_owned), tags)).or_default();
            queue.insert((Reverse(step.priority()), number));
        }
        if let (StepStatus::Dispatched, Some(owner)) = (step.status, step.owner_at_work()) {
            *by_owner.entry(owner.to_owned()).or_default() += 1;
        }
        if let Some(list) = with.get_mut(&step.status) {
            list.insert(number);
        }
    }
    assert_eq!(run.counts, counts);
    assert!(run.ready().eq(ready));
    assert_eq!(run.lanes, lanes);
    let heads: Vec<_> = lanes.iter().map(|(lane, queue)| (*queue.first().unwrap(), lane)).collect();
    assert_eq!(run.lane_heads.len(), heads.len());
    assert!(heads.iter().all(|(head, lane)| run.lane_heads.get(head) == Some(*lane)));
    assert_eq!(run.in_flight_by_owner, by_owner);
    assert_eq!(run.in_flight, run.count(StepStatus::Dispatched));
    assert_eq!(run.reported, with[&StepStatus::Reported]);
    assert_eq!(run.outcome_unknown, with[&StepStatus::OutcomeUnknown]);
}

/// The timers that the run must have.
fn check_timers(run: &Run) {
    let mut timers = BTreeSet::new();
    let is_over = matches!(run.status, RunStatus::Ended(_));
    for (place, step) in run.steps.iter().enumerate() {
        let number = StepNumber(u32::try_from(place + 1).unwrap());
        match (step.status, step.attempt()) {
            (StepStatus::Dispatched, Some(attempt)) => {
                timers.insert((attempt.lease_until, Timer::Lease(attempt.token)));
            }
            (StepStatus::Delayed, _) if !is_over => {
                timers.insert((step.hold().delay.unwrap(), Timer::Delay(number)));
            }
            _ => {}
        }
        if let Some(question) = step.hold().question {
            assert_eq!(run.questions[&question].step, Some(number));
        }
    }
    assert!(!is_over || run.questions.is_empty());
    for (id, question) in &run.questions {
        timers.extend(question.asked.deadline.map(|time| (time, Timer::Question(*id))));
    }
    for (id, barrier) in run.barriers.iter().filter(|_| !is_over) {
        if barrier.status == BarrierStatus::Closed {
            timers.extend(barrier.deadline.map(|time| (time, Timer::Barrier(id.clone()))));
        }
    }
    if !is_over && run.pause.is_none() {
        timers.extend(run.wall_until().map(|time| (time, Timer::Wall)));
    }
    assert_eq!(run.timers, timers);
}

fn check_account(run: &Run) {
    let sum = |costs: &mut dyn Iterator<Item = Cost>| costs.fold(Cost::default(), Cost::plus);
    let mut reserved = run.steps.iter().filter_map(|step| Some(step.attempt()?.reserved));
    // An attempt with an unknown outcome was lost, and is charged already.
    assert!(sum(&mut reserved).money_micros >= run.account.reserved.money_micros);
    assert_eq!(run.account.estimated, sum(&mut run.estimates.values().copied()));
    let Cost { money_micros, tokens } = run.account.spent;
    let estimated = run.account.estimated;
    assert!(money_micros >= estimated.money_micros && tokens >= estimated.tokens);
}

fn has_no_pending_consequence(run: &Run) -> bool {
    let mut state = State::default();
    state.runs.insert(run.id, run.clone());
    settle(&state, run.id, &mut Evaluator::default()).is_ok_and(|events| events.is_empty())
}

fn check_barriers(run: &Run, version: &PlanVersion) {
    assert_eq!(run.barriers.len(), version.plan.header().barriers.len());
    let mut fatal = BTreeSet::new();
    for barrier in &version.plan.header().barriers {
        let state = &run.barriers[&barrier.id];
        let standing = |names: &[StepStatus]| -> BTreeSet<StepNumber> {
            let is_in = |step: &StepState| names.contains(&step.status);
            state.members.iter().copied().filter(|m| is_in(run.step(*m).unwrap())).collect()
        };
        let named: BTreeSet<&str> = barrier.members.iter().map(String::as_str).collect();
        let found: BTreeSet<&str> =
            state.members.iter().map(|m| run.step(*m).unwrap().id()).collect();
        assert!(found.is_subset(&named));
        assert!(state.members.iter().all(|m| version.numbers.contains(m)));
        assert_eq!(state.arrived, standing(&[StepStatus::Accepted, StepStatus::Skipped]));
        assert_eq!(state.failed, standing(&[StepStatus::Failed]));
        let needed = usize::try_from(state.needed).unwrap();
        let possible = state.members.len() - state.failed.len();
        match state.status {
            // A person may have released it in an answer.
            BarrierStatus::Released => {
                assert!(state.arrived.len() >= needed || state.on_break == OnBreak::Ask);
            }
            BarrierStatus::Broken => {
                assert!(possible < needed || state.is_late);
                let is_over = run.status != RunStatus::Running || state.on_break != OnBreak::Wait;
                assert!(
                    is_over || state.arrived.len() < needed,
                    "closed although enough members arrived"
                );
            }
            BarrierStatus::Closed if run.status == RunStatus::Running => {
                assert!(state.arrived.len() < needed && possible >= needed);
            }
            BarrierStatus::Closed => {}
        }
        if state.status == BarrierStatus::Broken && state.on_break == OnBreak::Fail {
            fatal.insert(barrier.id.clone());
        }
    }
    assert_eq!(run.fatal_barriers, fatal);
}

fn is_met(run: &Run, name: &str) -> bool {
    let step =
        run.steps.iter().find(|step| step.id() == name && step.status != StepStatus::Removed);
    match step {
        Some(step) => matches!(step.status, StepStatus::Accepted | StepStatus::Skipped),
        None => {
            run.barriers.get(name).is_some_and(|barrier| barrier.status == BarrierStatus::Released)
        }
    }
}
