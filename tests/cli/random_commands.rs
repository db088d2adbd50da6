//! A history in which everything happens that can happen to runs: random commands of every kind,
//! most of which have no right to be obeyed.

use std::collections::BTreeMap;

use plan_ledger::plan::*;
use plan_ledger::{ForkPoint, Ledger, state_hash};
use serde_json::{Value, json};

use crate::time_travel::{Dice, refusable};

/// Play until the log has so many records; the hash of the live state after every command.
pub(crate) fn play(ledger: &Ledger, seed: u64, records: u64) -> BTreeMap<u64, ContentHash> {
    let mut dice = Dice(seed << 40);
    let mut live = BTreeMap::new();
    while ledger.head().seq < records {
        act(&mut dice, ledger);
        let state = ledger.state().unwrap();
        live.entry(state.seq).or_insert_with(|| state_hash(&state));
    }
    live
}

fn act(dice: &mut Dice, ledger: &Ledger) {
    let state = ledger.state().unwrap();
    let open = |run: &&Run| !matches!(run.status, RunStatus::Ended(_));
    let runs: Vec<RunId> = state.runs.values().filter(open).map(|run| run.id).collect();
    let name = format!("run {}", state.names.len());
    if runs.is_empty() || (runs.len() < 4 && dice.below(60) == 0) {
        let policy = RunPolicy {
            approval: dice.pick(&[ApprovalPolicy::Automatic, ApprovalPolicy::Required]),
            text: dice.pick(&[TextPolicy::Judge, TextPolicy::Trust]),
            on_failure: dice.pick(&[OnFailure::Continue, OnFailure::Continue, OnFailure::FailFast]),
        };
        refusable(ledger.start_run(&name, &plan(dice), policy).map(drop));
        return;
    }
    let run = &state.runs[&dice.pick(&runs)];
    match dice.below(60) {
        4 => {
            let has_failed = |run: &&Run| run.status == RunStatus::Ended(Ending::Failed);
            let Some(run) = state.runs.values().rev().find(has_failed) else { return };
            let again = Command::RetryFailed { run: run.id, by: "ann".to_owned() };
            refusable(ledger.execute(&again).map(drop));
        }
        0 if runs.len() < 5 => {
            let seq = state.seq - u64::try_from(dice.below(20)).unwrap().min(state.seq - 1);
            let step = StepNumber(u32::try_from(1 + dice.below(4)).unwrap());
            let point = dice.pick(&[ForkPoint::After(seq), ForkPoint::Before(step)]);
            refusable(ledger.fork(run.id, point, &name).map(drop));
        }
        1..4 => {
            let by = "ann".to_owned();
            let trigger = dice.pick(&[None, Some(ReplanTrigger::ScopeChange { by })]);
            refusable(ledger.propose_for(run.id, &plan(dice), "better", trigger).map(drop));
        }
        _ => {
            let command = command(dice, &state, run);
            // Whoever keeps a state makes the ledger copy it.
            drop(state);
            refusable(ledger.execute(&command).map(drop));
        }
    }
}

fn plan(dice: &mut Dice) -> Plan {
    let steps: Vec<Value> = (0..2 + dice.below(3)).map(|place| step(dice, place)).collect();
    let timeout = dice.pick(&[json!({ "answer": "yes" }), json!({ "escalate_to": "bob" })]);
    let gate = json!({ "question": "This plan?", "deadline_seconds": 1, "on_timeout": timeout });
    let rule = json!({ "id": "ask", "when": { "message": "odd" }, "then": { "escalate": {
        "to": "ann", "deadline_seconds": 3, "on_timeout": { "answer": "retry" } } } });
    let of = json!({
        "title": format!("t{}", dice.below(999)),
        "steps": steps,
        "barriers": [{
            "id": "all",
            "members": dice.pick(&[vec!["s0"], vec!["s0", "s1"]]),
            "needs": dice.pick(&["all", "any"]),
            "on_break": dice.pick(&["fail", "wait", "ask", "ask"]),
            "deadline_seconds": dice.pick(&[json!(null), json!(6)]),
        }],
        "caps": { "owners": { "x": 1 }, "tags": { "gpu": 1 } },
        "budget": dice.pick(&[json!({}), json!({}), json!({ "money_micros": 60 }),
                              json!({ "wall_seconds": 20 })]),
        "test_criteria": dice.pick(&[json!([]), json!(["good"]), json!([{ "cel": "v < 90" }])]),
        "failure": {
            "decider": dice.pick(&["rules", "rules", "external"]),
            "rules": [rule],
            "max_replans": dice.pick(&[json!(null), json!(2)]),
        },
        "gate": dice.pick(&[json!(null), json!(null), json!(null), gate]),
        "continues": dice.below(4) == 0,
    });
    serde_json::from_value(of).unwrap()
}

fn step(dice: &mut Dice, place: usize) -> Value {
    let after = match (place, dice.below(4)) {
        (1.., 0) => vec![format!("s{}", place - 1)],
        (2.., 1) => vec!["all".to_owned()],
        _ => Vec::new(),
    };
    let fallback = match (place, dice.below(6)) {
        (0, 0) => json!({ "step": "s1" }),
        (_, 1) => json!({ "value": { "value": { "n": 1 } } }),
        (_, 2) => json!({ "variable": { "name": "w", "max_age_seconds": 9 } }),
        (_, 3) => json!({ "owner": "y" }),
        _ => json!(null),
    };
    let timeout = dice.pick(&[
        json!(null),
        json!({ "escalate_to": "bob" }),
        json!({ "answer": "skip" }),
        json!({ "answer": "no" }),
        json!("abort"),
    ]);
    let gate = json!({ "question": "Now?", "deadline_seconds": 1, "on_timeout": timeout });
    json!({
        "id": format!("s{place}"),
        "goal": format!("goal {}", dice.below(3)),
        "after": after,
        "owner": dice.pick(&[json!(null), json!("x"), json!("y")]),
        "tags": dice.pick(&[vec![], vec!["gpu"]]),
        "priority": dice.pick(&[0, 0, 1, -7]),
        "inputs": dice.pick(&[vec![], vec!["v"], vec!["w"]]),
        "outputs": dice.pick(&[vec![], vec!["v"]]),
        "condition": dice.pick(&[json!(null), json!(null), json!(null), json!("w < 8")]),
        "preconditions": dice.pick(&[vec![], vec![], vec![], vec!["v != 3"]]),
        "on_false": dice.pick(&["wait", "wait", "fail", "skip"]),
        "gate": dice.pick(&[json!(null), json!(null), gate]),
        "acceptance": dice.pick(&[json!([]), json!([]), json!(["good"]),
                                  json!([{ "cel": "output.n < 80" }])]),
        "idempotent": dice.pick(&[json!(null), json!("no"), json!("with_key")]),
        "lease_seconds": 4,
        "cost_estimate": dice.pick(&[json!(null), json!({ "money_micros": 9, "tokens": 1 })]),
        "cost_limit": dice.pick(&[json!(null), json!(null), json!({ "money_micros": 9 })]),
        "fallback": fallback,
        "retry": { "max_attempts": 4, "backoff_seconds": dice.pick(&[0, 0, 1]),
                   "jitter_percent": 50 },
    })
}

fn receipt(dice: &mut Dice) -> Receipt {
    let class = dice.pick(&[
        FailureClass::Transient,
        FailureClass::Transient,
        FailureClass::Unknown,
        FailureClass::Deterministic,
        FailureClass::AssumptionBroken,
    ]);
    let message = dice.pick(&["503", "503", "odd"]).to_owned();
    let outcome = match dice.below(10) {
        0..6 => Outcome::Failed { class, message, payload: Json::default() },
        6 => Outcome::ReplanRequested { reason: "no way".to_owned() },
        _ => Outcome::Succeeded,
    };
    let output = Json::new(&json!({ "n": dice.below(100) }));
    let money_micros = dice.pick(&[0, 5, 12]);
    Receipt {
        outcome,
        output: Output::Inline(output),
        cost: Cost { money_micros, tokens: 1 },
        side_effects: dice.pick(&[vec![], vec![], vec!["k1".to_owned()]]),
        disposition: dice.pick(&[None, None, Some(Disposition::InDoubt)]),
        ..Receipt::default()
    }
}

/// What some commands name: an attempt that is in flight if there is one, a step that may be.
struct Names {
    run: RunId,
    step: StepNumber,
    token: AttemptToken,
    by: String,
}

fn command(dice: &mut Dice, state: &State, run: &Run) -> Command {
    let flying: Vec<AttemptToken> = state.in_flight.keys().copied().collect();
    let names = Names {
        run: run.id,
        step: StepNumber(u32::try_from(1 + dice.below(run.steps.len())).unwrap()),
        token: flying.get(dice.below(flying.len())).copied().unwrap_or(AttemptToken(1)),
        by: "ann".to_owned(),
    };
    match dice.below(10) {
        0..3 => of_attempts(dice, state, run, names),
        3..6 => of_people(dice, state, run, names),
        6 => of_money(dice, state, names),
        7 => of_plans(dice, run, names),
        _ => {
            if let Some(step) = run.in_doubt.first().copied() {
                let finding = dice.pick(&[Finding::Landed, Finding::DidNotHappen]);
                let Names { run, by, .. } = names;
                return Command::ResolveDoubt { run, step, finding, by, evidence: "seen".into() };
            }
            Command::Dispatch { run: names.run, step: None, worker: "w".to_owned(), lease: None }
        }
    }
}

fn of_attempts(dice: &mut Dice, state: &State, run: &Run, names: Names) -> Command {
    let Names { run: id, step, token, by } = names;
    let key = dice.pick(&["k1", "k2"]).to_owned();
    match dice.below(12) {
        0..5 => Command::RecordReceipt { token, receipt: receipt(dice) },
        5 => Command::RecordReceipt { token: dealt(dice, state), receipt: receipt(dice) },
        6 => Command::Renew { token, lease: None },
        7 => {
            let cause = dice.pick(&[LostCause::RunnerDied, LostCause::Released]);
            Command::ReportLost { token, cause, detail: "gone".to_owned() }
        }
        8 => Command::IntendEffect { token, effect: "pay".to_owned(), key },
        9 => {
            let meant = run.effects.iter().find(|(_, effect)| effect.committed == 0);
            let meant = meant.map(|(key, effect)| (effect.token, key.clone()));
            let (token, key) = meant.unwrap_or((token, key));
            Command::CommitEffect { token, key }
        }
        10 => Command::Dispatch { run: id, step: Some(step), worker: by, lease: None },
        _ => {
            let reported = run.reported.first().and_then(|number| run.step(*number));
            let attempt = reported.and_then(|step| step.attempt());
            let verdicts = vec![verdict(dice)];
            let token = attempt.map_or(token, |attempt| attempt.token);
            Command::Judge { token, verdicts }
        }
    }
}

/// An attempt that was ever dealt.
fn dealt(dice: &mut Dice, state: &State) -> AttemptToken {
    let dealt: Vec<AttemptToken> = state.dealt.keys().copied().collect();
    dealt.get(dice.below(dealt.len())).copied().unwrap_or(AttemptToken(1))
}

fn verdict(dice: &mut Dice) -> Verdict {
    let ruling = dice.pick(&[Ruling::Pass, Ruling::Pass, Ruling::Fail]);
    Verdict { criterion: 0, ruling, by: "judge".to_owned(), evidence: "looked".to_owned() }
}

fn of_people(dice: &mut Dice, state: &State, run: &Run, names: Names) -> Command {
    let Names { run: id, step, by, .. } = names;
    let reason = "said so".to_owned();
    match dice.below(14) {
        0..3 => {
            let open: Vec<(QuestionId, RunId)> =
                state.questions.iter().map(|(question, run)| (*question, *run)).collect();
            let Some((question, of)) = open.get(dice.below(open.len())) else {
                return Command::Tick;
            };
            let Asked { options, shown, .. } = &state.runs[of].questions[question].asked;
            let (answer, shown) = (dice.pick(options), *shown);
            Command::Answer { question: *question, answer, by, note: String::new(), shown }
        }
        3..8 => {
            let value = Json::new(&json!(dice.below(9)));
            let name = dice.pick(&["v", "w"]).to_owned();
            Command::SetVariable { run: id, name, value, expected_version: None, by }
        }
        8 => Command::Pause { run: id, by, reason },
        9 => Command::Resume { run: id, by },
        10 => Command::RetryFailed { run: id, by },
        11 if dice.below(3) == 0 => Command::Skip { run: id, step, by, reason },
        12 if dice.below(8) == 0 => Command::CancelRun { run: id, by, reason },
        13 if dice.below(4) == 0 => Command::TakeOver { run: id, steps: vec![(step, reason)] },
        _ => {
            let decision = dice.pick(&[
                Decision::Retry,
                Decision::RetryAt(state.time + 700_000),
                Decision::Fallback,
                Decision::Escalate,
                Decision::Replan,
                Decision::Fail,
            ]);
            let step = run.reported.first().copied().unwrap_or(step);
            Command::DecideFailure { run: id, step, decision, rule: by, reason }
        }
    }
}

fn of_money(dice: &mut Dice, state: &State, names: Names) -> Command {
    let Names { run, by, .. } = names;
    match dice.below(4) {
        0..2 => {
            let money_micros = Some(state.account.spent.money_micros + 40);
            let limits = Some(Limits { money_micros, ..Limits::default() });
            let run = dice.pick(&[None, Some(run), Some(run)]);
            Command::SetBudget { run, limits: dice.pick(&[None, limits]), by }
        }
        2 => {
            let scope = dice.pick(&[
                CapScope::Ledger,
                CapScope::Run(run),
                CapScope::Owner("y".to_owned()),
                CapScope::Tag("gpu".to_owned()),
            ]);
            Command::SetCap { scope, limit: dice.pick(&[None, Some(1), Some(2)]), by }
        }
        _ => {
            let token = dealt(dice, state);
            let (cost, charged) = (Cost { money_micros: 3, tokens: 2 }, Some(Cost::default()));
            Command::CorrectCost { token, cost, charged, by }
        }
    }
}

fn of_plans(dice: &mut Dice, run: &Run, names: Names) -> Command {
    let Names { run: id, step, by, .. } = names;
    let reason = "found something".to_owned();
    if let Some(version) = run.versions.last().filter(|each| each.review.is_none()) {
        return Command::ReviewPlan {
            run: id,
            version: u32::try_from(run.versions.len()).unwrap(),
            hash: version.hash,
            review: dice.pick(&[Review::Approved, Review::Approved, Review::Rejected]),
            by,
            note: reason,
        };
    }
    match dice.below(4) {
        0 => {
            let trigger = ReplanTrigger::NewEvidence { by };
            Command::RequestReplan { run: id, trigger, from: Some(step), reason }
        }
        1 => Command::WithdrawReplan { run: id, by, reason },
        2 => Command::JudgePlan { run: id, verdicts: vec![verdict(dice)] },
        _ => Command::Tick,
    }
}
