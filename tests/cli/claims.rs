//! The promises about claims, one by one, each across a loss of power: who has a step, until when,
//! under which key, within which caps and budgets; and what becomes of it when somebody is lost.

use plan_ledger::plan::*;
use plan_ledger::state_hash;
use serde_json::json;

use super::scenario::{Story, receipt, refusal};

/// The state in memory is the fold of the records, before a loss of power and behind it.
fn holds(story: &mut Story) {
    let (live, head) = (story.ledger().state_hash().unwrap(), story.ledger().head());
    let folded = story.ledger().state_at(head.seq).unwrap();
    assert_eq!(state_hash(&folded), live, "something is in memory, and not in the log");
    // It compares the state behind the loss with the one before.
    story.lose_power();
}

/// Goal: a claim that is given back, or runs out, does so in the log: nobody has it afterwards, not
/// even for who folds the records again.
#[test]
fn every_end_of_a_claim_is_on_record() {
    let of = json!({ "defaults": { "lease_seconds": 60 }, "steps": [{ "id": "a", "goal": "a" }] });
    let mut story = Story::begin(&of);
    let first = story.take("a");
    holds(&mut story);
    story.ledger().report_lost(first.token, LostCause::Released, "not mine").unwrap();
    assert_eq!(story.status("a"), StepStatus::Ready);
    holds(&mut story);
    assert_eq!(story.status("a"), StepStatus::Ready);

    let second = story.take("a");
    assert_ne!(first.token, second.token);
    story.wait(59);
    assert_eq!(story.status("a"), StepStatus::Dispatched, "a second is left");
    holds(&mut story);
    story.wait(1);
    assert_eq!(story.status("a"), StepStatus::Ready, "it ran out");
    holds(&mut story);
    let lost = |record: &StepRecord| matches!(record.event, StepEvent::AttemptLost(_));
    assert_eq!(story.step_events().iter().filter(|record| lost(record)).count(), 2);
}

/// Goal: a sign of life prolongs a claim from the moment when it came.
#[test]
fn a_sign_of_life_prolongs_the_claim() {
    let of = json!({ "defaults": { "lease_seconds": 60 }, "steps": [{ "id": "a", "goal": "a" }] });
    let mut story = Story::begin(&of);
    let task = story.take("a");
    for _ in 0..3 {
        story.wait(50);
        let until = story.ledger().renew(task.token).unwrap();
        assert_eq!(until, story.now() + 60_000_000);
        holds(&mut story);
        assert_eq!(story.status("a"), StepStatus::Dispatched);
    }
    story.wait(59);
    assert_eq!(story.status("a"), StepStatus::Dispatched);
    story.wait(1);
    assert_eq!(story.status("a"), StepStatus::Ready);
}

/// Story: a lease had run out by the ledger's time, and the clock went back: claims and ticks went by
/// the clock alone, and the step was still held; every other command went by the later of both.
#[test]
fn a_lease_that_is_over_stays_over_when_the_clock_goes_back() {
    let of = json!({ "defaults": { "lease_seconds": 60 }, "steps": [{ "id": "a", "goal": "a" }] });
    for way in ["tick", "claim", "dispatch"] {
        let mut story = Story::begin(&of);
        let (task, dealt) = (story.take("a"), story.now());
        // A record that is later than the lease, and fires no timer.
        story.set_clock(dealt + 61_000_000);
        story.ledger().set_variable(story.run, "v", Json::new(&json!(1)), None, "me").unwrap();
        story.set_clock(dealt + 1_000_000);
        match way {
            "tick" => story.ledger().tick().unwrap(),
            "claim" => drop(story.ledger().claim(story.run, task.number, "another").unwrap()),
            _ => drop(story.ledger().dispatch(story.run, "another").unwrap().unwrap()),
        }
        let lost = |record: &StepRecord| matches!(record.event, StepEvent::AttemptLost(_));
        assert!(story.step_events().iter().any(lost), "{way}");
        holds(&mut story);
    }
}

/// Goal: a step has one holder; another one is told who, and until when.
#[test]
fn a_step_has_one_holder() {
    let of = json!({ "steps": [{ "id": "a", "goal": "a" }] });
    let mut story = Story::begin(&of);
    let task = story.take("a");
    for _ in 0..2 {
        let other = story.ledger().claim(story.run, task.number, "another");
        let (step, lease_until) = (task.number, task.lease_until);
        let worker = "worker of a".to_owned();
        assert_eq!(refusal(other), Rejection::HeldBy { step, worker, lease_until });
        holds(&mut story);
    }
}

/// Goal: a receipt of a claim that ran out is not the receipt of whoever has the step now.
#[test]
fn a_late_receipt_is_not_that_of_the_next_holder() {
    let of = json!({ "defaults": { "lease_seconds": 60 }, "steps": [
        { "id": "a", "goal": "a", "outputs": ["v"] }] });
    let mut story = Story::begin(&of);
    let late = story.take("a");
    story.wait(60);
    let now = story.take("a");
    let refused = story.ledger().record_receipt(late.token, receipt(&json!("late")));
    assert_eq!(refusal(refused), Rejection::StaleToken(late.token));
    holds(&mut story);
    assert_eq!(story.status("a"), StepStatus::Dispatched, "it is still the other's");
    story.finish(&now, &json!("in time"));
    assert_eq!(story.variable("v").value.value(), json!("in time"));
}

/// Goal: what must not be done twice is not dealt again when its worker is lost, whatever lost it;
/// what may be, is.
#[test]
fn a_loss_of_what_must_not_be_done_twice_is_asked_about() {
    for (cause, is_begun) in [
        (LostCause::LeaseExpired, true),
        (LostCause::RunnerDied, true),
        (LostCause::Released, false),
    ] {
        for (idempotent, may_be_repeated) in [("yes", true), ("no", false), ("with_key", true)] {
            let of = json!({ "steps": [{ "id": "a", "goal": "a", "idempotent": idempotent }] });
            let mut story = Story::begin(&of);
            let task = story.take("a");
            story.ledger().report_lost(task.token, cause, "gone").unwrap();
            holds(&mut story);
            let is_dealt = may_be_repeated || !is_begun;
            let expected = if is_dealt { StepStatus::Ready } else { StepStatus::InDoubt };
            assert_eq!(story.status("a"), expected, "{idempotent}, {cause:?}");
        }
    }
}

/// Goal: each attempt has a key of its own, except where the world is to refuse a second use of it:
/// then all have the same.
#[test]
fn keys_differ_where_they_should_and_nowhere_else() {
    for (idempotent, is_same) in [("yes", false), ("with_key", true)] {
        let of = json!({ "steps": [{ "id": "a", "goal": "a", "idempotent": idempotent }] });
        let mut story = Story::begin(&of);
        let mut keys = Vec::new();
        for _ in 0..3 {
            let task = story.take("a");
            keys.push(task.idempotency_key.clone());
            story.ledger().report_lost(task.token, LostCause::RunnerDied, "gone").unwrap();
            holds(&mut story);
        }
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), if is_same { 1 } else { 3 }, "{idempotent}: {keys:?}");
    }
}

/// Goal: never more in flight than a cap allows, and as many as it allows.
#[test]
fn caps_are_kept_to_the_number() {
    let step = |n: u32| json!({ "id": format!("s{n}"), "goal": "g", "tags": ["db"], "owner": "o" });
    let steps: Vec<_> = (0..6).map(step).collect();
    for caps in
        [json!({ "run": 3 }), json!({ "owners": { "o": 3 } }), json!({ "tags": { "db": 3 } })]
    {
        let mut story = Story::begin(&json!({ "caps": caps, "steps": steps }));
        let first = story.take("s0");
        story.take("s1");
        story.take("s2");
        let fourth = || refusal(story.ledger().claim(story.run, StepNumber(4), "w"));
        assert!(matches!(fourth(), Rejection::CapReached { limit: 3, .. }), "{caps}");
        holds(&mut story);
        story.finish(&first, &json!(1));
        story.take("s3");
        let fifth = refusal(story.ledger().claim(story.run, StepNumber(5), "w"));
        assert!(matches!(fifth, Rejection::CapReached { limit: 3, .. }), "{caps}");
    }
}

/// Goal: what is in flight counts against a budget with what it is expected to cost.
#[test]
fn a_budget_counts_what_is_in_flight() {
    let step = |id: &str| json!({ "id": id, "goal": "g", "cost_estimate": { "tokens": 60 } });
    let of = json!({ "budget": { "tokens": 100 }, "steps": [step("a"), step("b")] });
    let mut story = Story::begin(&of);
    let first = story.take("a");
    assert_eq!(story.state().account.reserved.tokens, 60);
    let second = refusal(story.ledger().claim(story.run, StepNumber(2), "w"));
    assert!(matches!(second, Rejection::BudgetReserved(BudgetPart::Tokens)), "{second:?}");
    holds(&mut story);
    // It cost less than was thought: there is enough for the other.
    let cost = Cost { tokens: 30, ..Cost::default() };
    let cheap = Receipt { cost, ..receipt(&json!(1)) };
    story.ledger().record_receipt(first.token, cheap).unwrap();
    assert_eq!(story.state().account.spent.tokens, 30);
    story.take("b");
    holds(&mut story);
}

/// Goal: a barrier opens with the member that it waits for, and not one earlier.
#[test]
fn a_barrier_opens_with_the_last_that_it_needs() {
    for (needs, count) in [(json!("all"), 3), (json!({ "at_least": 2 }), 2), (json!("any"), 1)] {
        let of = json!({ "steps": [
            { "id": "a", "goal": "g" }, { "id": "b", "goal": "g" }, { "id": "c", "goal": "g" },
            { "id": "behind", "goal": "g", "after": ["gate"] }],
            "barriers": [{ "id": "gate", "members": ["a", "b", "c"], "needs": needs }] });
        let mut story = Story::begin(&of);
        for (place, id) in (1..).zip(["a", "b", "c"]) {
            assert_eq!(story.status("behind") == StepStatus::Ready, place > count, "{needs}");
            if place <= count {
                story.walk(id, &json!(place));
            }
            holds(&mut story);
        }
        assert_eq!(story.status("behind"), StepStatus::Ready, "{needs}");
    }
}

/// Goal: a variable is set by who knows its version, and by nobody else.
#[test]
fn a_variable_is_set_by_who_knows_its_version() {
    let mut story = Story::begin(&json!({ "steps": [{ "id": "a", "goal": "a" }] }));
    let set = |story: &Story, version: Option<u64>, value: u32| {
        let value = Json::new(&json!(value));
        story.ledger().set_variable(story.run, "v", value, version, "ana")
    };
    assert_eq!(set(&story, Some(0), 1).unwrap(), 1);
    assert_eq!(set(&story, Some(1), 2).unwrap(), 2);
    for wrong in [0, 1, 3] {
        let refused = refusal(set(&story, Some(wrong), 9));
        assert_eq!(refused, Rejection::VersionDiffers { expected: wrong, found: 2 });
        holds(&mut story);
    }
    assert_eq!(story.variable("v").value.value(), json!(2));
}

/// Goal: a worker does not judge its own work.
#[test]
fn a_worker_is_not_its_own_judge() {
    let of = json!({ "steps": [{ "id": "a", "goal": "a", "acceptance": ["it is good"] }] });
    let mut story = Story::begin(&of);
    let task = story.take("a");
    assert_eq!(story.finish(&task, &json!(1)), StepStatus::Reported);
    let verdict = |by: &str| Verdict {
        criterion: 0,
        ruling: Ruling::Pass,
        by: by.to_owned(),
        evidence: "looked at it".to_owned(),
    };
    let own = story.ledger().judge(task.token, vec![verdict("worker of a")]);
    assert_eq!(refusal(own), Rejection::JudgedByWorker("worker of a".to_owned()));
    holds(&mut story);
    let other = story.ledger().judge(task.token, vec![verdict("ana")]).unwrap();
    assert_eq!(other, StepStatus::Accepted);
}
