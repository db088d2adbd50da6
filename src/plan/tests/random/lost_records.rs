//! Random histories with lost records, as a salvage leaves them.

use std::collections::BTreeMap;

use super::histories::History;
use super::rng::TestRng;
use crate::ledger::{Projection, state_hash};
use crate::plan::tests::invariants;
use crate::plan::tests::support::*;
use crate::plan::*;

/// The last event of each step that was not lost, and its record.
type LastEvents = BTreeMap<(RunId, StepNumber), (u64, StepEvent)>;

/// Folds a log in which some records of steps were lost.
fn fold_without(
    log: &[(u64, Timestamp, Event)],
    mut is_lost: impl FnMut(u64) -> bool,
) -> (State, LastEvents) {
    let (mut state, mut last) = (State::default(), BTreeMap::new());
    for (seq, time, event) in log {
        match event {
            Event::Step(record) if is_lost(*seq) => {
                state.lose_record(*seq, *time);
                last.remove(&(record.run, record.step));
            }
            event => {
                state.apply(*seq, *time, event);
                match event {
                    Event::Step(record) => {
                        last.insert((record.run, record.step), (*seq, record.event.clone()));
                    }
                    // These change the status of steps without an event of the step.
                    Event::PlanActivated(PlanActivated { run, .. })
                    | Event::RunEnded(RunEnded { run, .. })
                    | Event::RunReopened(RunReopened { run, .. }) => {
                        last.retain(|(of, _), _| of != run);
                    }
                    _ => {}
                }
            }
        }
        invariants::check_derived(&state);
    }
    (state, last)
}

/// Whether the status of a step after this event does not depend on other steps.
fn decides_status(event: &StepEvent) -> bool {
    match event {
        StepEvent::Dispatched(_)
        | StepEvent::LeaseRenewed(_)
        | StepEvent::ReceiptRecorded(_)
        | StepEvent::Accepted(_)
        | StepEvent::Skipped(_)
        | StepEvent::StepFailed(_) => true,
        StepEvent::AttemptLost(lost) => lost.then == AfterLoss::OutcomeUnknown,
        StepEvent::FailureDecided(failure) => {
            matches!(failure.decision, Decision::Fail | Decision::Replan | Decision::Abort)
        }
        _ => false,
    }
}

/// Whatever records of steps are lost: derived data stays right, the last event of a step that
/// survived decides its status, and a snapshot has the same state.
#[test]
fn event_after_a_loss_is_the_truth_about_its_step() {
    let mut differing = 0;
    for seed in 0..60 {
        let mut history = History::new(seed);
        for _ in 0..history.commands() {
            history.step();
        }
        for share in [3, 12] {
            let mut rng = TestRng(seed * 100 + u64::from(share));
            let (state, last) = fold_without(&history.ledger.log, |_| rng.one_in(share));
            for ((id, number), (seq, event)) in &last {
                let whole = history.ledger.state.runs.get(id).and_then(|run| run.step(*number));
                let found = state.runs.get(id).and_then(|run| run.step(*number));
                let (Some(whole), Some(found)) = (whole, found) else { continue };
                if whole.last_seq != *seq || !decides_status(event) {
                    continue;
                }
                let place = format!("seed {seed}: step {number} of run {id}, record {seq}");
                assert_eq!(found.status, whole.status, "{place}: {event:?}");
                let token = |step: &StepState| step.attempt().map(|attempt| attempt.token);
                assert_eq!(token(found), token(whole), "{place}: {event:?}");
            }
            differing += usize::from(state_hash(&state) != state_hash(&history.ledger.state));
            let mut bytes = Vec::new();
            state.encode(&mut bytes).unwrap();
            let decoded = State::decode(&mut &bytes[..]).unwrap();
            assert_eq!(state_hash(&decoded), state_hash(&state), "seed {seed}");
        }
    }
    assert!(differing > 60, "{differing}");
}

/// A receipt and the decision about it were lost; then the step was dispatched again.
#[test]
fn lost_receipt_does_not_leave_its_step_in_flight() {
    let plan = plan(vec![step("a", &[]), step("b", &["a"])]);
    let mut ledger = TestLedger::with(&plan, RunPolicy::default());
    let first = ledger.dispatch("a");
    ledger.report(first, failed(FailureClass::Transient));
    ledger.now += 100 * SECOND;
    ledger.execute(Command::Tick).unwrap();
    let second = ledger.dispatch("a");
    ledger.report(second, Receipt::default());
    ledger.dispatch("b");
    let (state, _) = fold_without(&ledger.log, |seq| first.0 < seq && seq < second.0);
    let run = &state.runs[&RunId(1)];
    let (a, b) = (run.step(StepNumber(1)).unwrap(), run.step(StepNumber(2)).unwrap());
    assert_eq!((a.status, a.attempts), (StepStatus::Accepted, 2));
    assert_eq!(b.status, StepStatus::Dispatched);
    assert_eq!(run.in_flight, 1);
    assert!(run.estimates.contains_key(&first), "its cost is an estimate");
    assert_eq!(state.lost.len(), 1, "{:?}", state.lost);
    assert_eq!(state.lost.first_key_value(), Some((&(first.0 + 1), &(second.0 - 1))));
    // Only the receipt of the second attempt is lost.
    let (state, _) = fold_without(&ledger.log, |seq| seq == second.0 + 1);
    assert_eq!(state.runs[&RunId(1)].step(StepNumber(1)).unwrap().status, StepStatus::Accepted);
    assert_eq!(state.runs[&RunId(1)].in_flight, 1, "b");
}
