//! Claims: exclusive attempts, leases, idempotency keys, caps, budgets, barriers and lost workers.
//!
//! Each property is checked again after a power loss, against the state folded from the log.

use plan_ledger::plan::*;
use plan_ledger::state_hash;
use serde_json::json;

use super::command::Place;
use super::scenario::{Scenario, receipt, refusal};

/// Checks that the state in memory equals the fold of the log, before and after a power loss.
fn assert_durable(scenario: &mut Scenario) {
    let (live, head) = (scenario.ledger().state_hash().unwrap(), scenario.ledger().head());
    let folded = scenario.ledger().state_at(head.seq).unwrap();
    assert_eq!(state_hash(&folded), live, "the state in memory differs from the fold of the log");
    // `lose_power` compares the recovered state with this one.
    scenario.lose_power();
}

/// A released claim and an expired claim are both recorded in the log and free the step.
#[test]
fn release_and_expiry_of_a_claim_are_recorded() {
    let of = json!({ "defaults": { "lease_seconds": 60 }, "steps": [{ "id": "a", "goal": "a" }] });
    let mut scenario = Scenario::begin(&of);
    let first = scenario.dispatch("a");
    assert_durable(&mut scenario);
    scenario.ledger().report_lost(first.token, LostCause::Released, "not mine").unwrap();
    assert_eq!(scenario.status("a"), StepStatus::Ready);
    assert_durable(&mut scenario);
    assert_eq!(scenario.status("a"), StepStatus::Ready);

    let second = scenario.dispatch("a");
    assert_ne!(first.token, second.token);
    scenario.wait(59);
    assert_eq!(scenario.status("a"), StepStatus::Dispatched, "one second left");
    assert_durable(&mut scenario);
    scenario.wait(1);
    assert_eq!(scenario.status("a"), StepStatus::Ready, "the lease has expired");
    assert_durable(&mut scenario);
    let lost = |record: &StepRecord| matches!(record.event, StepEvent::AttemptLost(_));
    assert_eq!(scenario.step_events().iter().filter(|record| lost(record)).count(), 2);
}

/// A renewal extends the lease from the time of the renewal.
#[test]
fn renewal_extends_the_lease_from_now() {
    let of = json!({ "defaults": { "lease_seconds": 60 }, "steps": [{ "id": "a", "goal": "a" }] });
    let mut scenario = Scenario::begin(&of);
    let task = scenario.dispatch("a");
    for _ in 0..3 {
        scenario.wait(50);
        let until = scenario.ledger().renew(task.token).unwrap();
        assert_eq!(until, scenario.now() + 60_000_000);
        assert_durable(&mut scenario);
        assert_eq!(scenario.status("a"), StepStatus::Dispatched);
    }
    scenario.wait(59);
    assert_eq!(scenario.status("a"), StepStatus::Dispatched);
    scenario.wait(1);
    assert_eq!(scenario.status("a"), StepStatus::Ready);
}

/// A lease that expired in ledger time stays expired when the wall clock moves back, whichever
/// command notices it first. Claims and ticks used to follow the wall clock alone.
#[test]
fn expired_lease_stays_expired_when_the_clock_goes_back() {
    let of = json!({ "defaults": { "lease_seconds": 60 }, "steps": [{ "id": "a", "goal": "a" }] });
    for command in ["tick", "claim", "dispatch"] {
        let mut scenario = Scenario::begin(&of);
        let (task, dispatched_at) = (scenario.dispatch("a"), scenario.now());
        // A record later than the end of the lease that fires no timer.
        scenario.set_clock(dispatched_at + 61_000_000);
        scenario
            .ledger()
            .set_variable(scenario.run, "v", Json::new(&json!(1)), None, "me")
            .unwrap();
        scenario.set_clock(dispatched_at + 1_000_000);
        match command {
            "tick" => scenario.ledger().tick().unwrap(),
            "claim" => {
                drop(scenario.ledger().claim_step(scenario.run, task.number, "another").unwrap());
            }
            _ => drop(scenario.ledger().dispatch(scenario.run, "another").unwrap().unwrap()),
        }
        let lost = |record: &StepRecord| matches!(record.event, StepEvent::AttemptLost(_));
        assert!(scenario.step_events().iter().any(lost), "{command}");
        assert_durable(&mut scenario);
    }
}

/// A second claim of a dispatched step is rejected with the worker's name and the lease's end.
#[test]
fn second_claim_is_rejected_with_worker_and_lease() {
    let of = json!({ "steps": [{ "id": "a", "goal": "a" }] });
    let mut scenario = Scenario::begin(&of);
    let task = scenario.dispatch("a");
    for _ in 0..2 {
        let other = scenario.ledger().claim_step(scenario.run, task.number, "another");
        let (step, lease_until) = (task.number, task.lease_until);
        let worker = "worker of a".to_owned();
        assert_eq!(refusal(other), Rejection::Leased { step, worker, lease_until });
        assert_durable(&mut scenario);
    }
}

/// A receipt for an expired attempt is rejected and does not count for the current one.
#[test]
fn late_receipt_does_not_count_for_the_next_attempt() {
    let of = json!({ "defaults": { "lease_seconds": 60 }, "steps": [
        { "id": "a", "goal": "a", "outputs": ["v"] }] });
    let mut scenario = Scenario::begin(&of);
    let late = scenario.dispatch("a");
    scenario.wait(60);
    let now = scenario.dispatch("a");
    let refused = scenario.ledger().record_receipt(late.token, receipt(&json!("late")));
    assert_eq!(refusal(refused), Rejection::StaleToken(late.token.seq));
    assert_durable(&mut scenario);
    assert_eq!(scenario.status("a"), StepStatus::Dispatched, "the second attempt is still active");
    scenario.finish(&now, &json!("in time"));
    assert_eq!(scenario.variable("v").value.value(), json!("in time"));
}

/// A lost attempt that may have started is re-dispatched only if the step is idempotent;
/// otherwise a person is asked.
#[test]
fn lost_non_idempotent_attempt_asks_a_person() {
    for (cause, is_begun) in [
        (LostCause::LeaseExpired, true),
        (LostCause::RunnerDied, true),
        (LostCause::Released, false),
    ] {
        for (idempotent, may_be_repeated) in [("yes", true), ("no", false), ("with_key", true)] {
            let of = json!({ "steps": [{ "id": "a", "goal": "a", "idempotent": idempotent }] });
            let mut scenario = Scenario::begin(&of);
            let task = scenario.dispatch("a");
            scenario.ledger().report_lost(task.token, cause, "gone").unwrap();
            assert_durable(&mut scenario);
            let is_redispatched = may_be_repeated || !is_begun;
            let expected =
                if is_redispatched { StepStatus::Ready } else { StepStatus::OutcomeUnknown };
            assert_eq!(scenario.status("a"), expected, "{idempotent}, {cause:?}");
        }
    }
}

/// Every attempt has its own idempotency key, except at a `with_key` step, whose attempts share
/// one.
#[test]
fn idempotency_keys_are_shared_only_by_with_key_attempts() {
    for (idempotent, is_same) in [("yes", false), ("with_key", true)] {
        let of = json!({ "steps": [{ "id": "a", "goal": "a", "idempotent": idempotent }] });
        let mut scenario = Scenario::begin(&of);
        let mut keys = Vec::new();
        for _ in 0..3 {
            let task = scenario.dispatch("a");
            keys.push(task.idempotency_key.clone());
            scenario.ledger().report_lost(task.token, LostCause::RunnerDied, "gone").unwrap();
            assert_durable(&mut scenario);
        }
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), if is_same { 1 } else { 3 }, "{idempotent}: {keys:?}");
    }
}

/// Exactly as many attempts are in flight as each cap allows.
#[test]
fn caps_bound_attempts_in_flight_exactly() {
    let step = |n: u32| json!({ "id": format!("s{n}"), "goal": "g", "tags": ["db"], "owner": "o" });
    let steps: Vec<_> = (0..6).map(step).collect();
    for caps in
        [json!({ "run": 3 }), json!({ "owners": { "o": 3 } }), json!({ "tags": { "db": 3 } })]
    {
        let mut scenario = Scenario::begin(&json!({ "caps": caps, "steps": steps }));
        let first = scenario.dispatch("s0");
        scenario.dispatch("s1");
        scenario.dispatch("s2");
        let fourth = || refusal(scenario.ledger().claim_step(scenario.run, StepNumber(4), "w"));
        assert!(matches!(fourth(), Rejection::CapReached { limit: 3, .. }), "{caps}");
        assert_durable(&mut scenario);
        scenario.finish(&first, &json!(1));
        scenario.dispatch("s3");
        let fifth = refusal(scenario.ledger().claim_step(scenario.run, StepNumber(5), "w"));
        assert!(matches!(fifth, Rejection::CapReached { limit: 3, .. }), "{caps}");
    }
}

/// A cap of the plan is not raised by a command, and the run is not called by its number.
#[test]
fn cap_of_the_plan_is_named_as_such() {
    for (caps, what) in [
        (
            "run: 1",
            "the cap of 1 attempt in flight is reached for the run; claim again later, or raise it in the plan",
        ),
        (
            "owners: {claude: 1}",
            "is reached for owner claude; claim again later, or raise it in the plan",
        ),
    ] {
        let step = |id: &str| format!("{{id: {id}, owner: claude}}");
        let plan = format!("caps: {{{caps}}}\nsteps: [{}, {}]", step("a"), step("b"));
        let place = Place::planned(&plan);
        place.ledger("cap --run plan 8").code(0);
        place.ledger("claim plan --owner claude").code(0);
        place.ledger("claim plan --owner claude").code(3).complains(&[what]);
        place.ledger("next plan").says(&[what]);
        let why = place.ledger("inspect .ledger why plan b").code(0).out;
        assert!(why.contains("is reached") && !why.contains("run 1"), "{why}");
    }
}

/// The cost estimates of attempts in flight count against the budget.
#[test]
fn budget_counts_reserved_cost_of_attempts_in_flight() {
    let step = |id: &str| json!({ "id": id, "goal": "g", "cost_estimate": { "tokens": 60 } });
    let of = json!({ "budget": { "tokens": 100 }, "steps": [step("a"), step("b")] });
    let mut scenario = Scenario::begin(&of);
    let first = scenario.dispatch("a");
    assert_eq!(scenario.run().account.reserved.tokens, 60);
    let second = refusal(scenario.ledger().claim_step(scenario.run, StepNumber(2), "w"));
    assert!(matches!(second, Rejection::BudgetReserved(BudgetPart::Tokens)), "{second:?}");
    assert_durable(&mut scenario);
    // The attempt cost less than its estimate, so the budget has room for the other step.
    let cost = Cost { tokens: 30, ..Cost::default() };
    let cheap = Receipt { cost, ..receipt(&json!(1)) };
    scenario.ledger().record_receipt(first.token, cheap).unwrap();
    assert_eq!(scenario.run().account.spent.tokens, 30);
    scenario.dispatch("b");
    assert_durable(&mut scenario);
}

/// A barrier opens with the last member that it needs, and not before.
#[test]
fn barrier_opens_with_the_last_needed_member() {
    for (needs, count) in [(json!("all"), 3), (json!({ "at_least": 2 }), 2), (json!("any"), 1)] {
        let of = json!({ "steps": [
            { "id": "a", "goal": "g" }, { "id": "b", "goal": "g" }, { "id": "c", "goal": "g" },
            { "id": "last", "goal": "g", "after": ["gate"] }],
            "barriers": [{ "id": "gate", "members": ["a", "b", "c"], "needs": needs }] });
        let mut scenario = Scenario::begin(&of);
        for (place, id) in (1..).zip(["a", "b", "c"]) {
            assert_eq!(scenario.status("last") == StepStatus::Ready, place > count, "{needs}");
            if place <= count {
                scenario.complete(id, &json!(place));
            }
            assert_durable(&mut scenario);
        }
        assert_eq!(scenario.status("last"), StepStatus::Ready, "{needs}");
    }
}

/// Setting a variable requires its current version.
#[test]
fn variable_update_requires_the_current_version() {
    let mut scenario = Scenario::begin(&json!({ "steps": [{ "id": "a", "goal": "a" }] }));
    let set = |scenario: &Scenario, version: Option<u64>, value: u32| {
        let value = Json::new(&json!(value));
        scenario.ledger().set_variable(scenario.run, "v", value, version, "ana")
    };
    assert_eq!(set(&scenario, Some(0), 1).unwrap(), 1);
    assert_eq!(set(&scenario, Some(1), 2).unwrap(), 2);
    for wrong in [0, 1, 3] {
        let refused = refusal(set(&scenario, Some(wrong), 9));
        assert_eq!(refused, Rejection::VersionDiffers { expected: wrong, found: 2 });
        assert_durable(&mut scenario);
    }
    assert_eq!(scenario.variable("v").value.value(), json!(2));
}

/// A worker cannot judge its own attempt.
#[test]
fn worker_cannot_judge_its_own_attempt() {
    let of = json!({ "steps": [{ "id": "a", "goal": "a", "acceptance": ["it is good"] }] });
    let mut scenario = Scenario::begin(&of);
    let task = scenario.dispatch("a");
    assert_eq!(scenario.finish(&task, &json!(1)), StepStatus::Reported);
    let verdict = |by: &str| Verdict {
        criterion: 0,
        ruling: Ruling::Pass,
        by: by.to_owned(),
        evidence: "checked it".into(),
    };
    let own = scenario.ledger().judge(task.token, vec![verdict("worker of a")]);
    assert_eq!(refusal(own), Rejection::JudgedByWorker("worker of a".to_owned()));
    assert_durable(&mut scenario);
    let other = scenario.ledger().judge(task.token, vec![verdict("ana")]).unwrap();
    assert_eq!(other, StepStatus::Accepted);
}

/// Goal: a step that states its attempts is not dispatched for ever when each worker disappears: a person looks at it.
#[test]
fn step_whose_stated_attempts_were_lost_waits_for_a_person() {
    let step =
        json!({ "id": "a", "goal": "a", "lease_seconds": 60, "retry": { "max_attempts": 3 } });
    let scenario = Scenario::begin(&json!({ "steps": [step] }));
    for _ in 0..3 {
        assert_eq!(scenario.status("a"), StepStatus::Ready);
        scenario.dispatch("a");
        scenario.wait(61);
    }
    assert_eq!(scenario.status("a"), StepStatus::OutcomeUnknown);
    assert!(scenario.ledger().dispatch(scenario.run().id, "w").unwrap().is_none());
}
