//! Random histories of commands over several runs, most of which are rejected. Other tests fold,
//! copy and compare the logs that they leave.

use std::collections::BTreeMap;

use plan_ledger::plan::*;
use plan_ledger::{ForkPoint, Ledger, state_hash};
use serde_json::{Value, json};

use crate::time_travel::{Rng, ignore_rejection};

/// Runs random commands until the log has `records` records; the state hash after each command.
pub(crate) fn play(ledger: &Ledger, seed: u64, records: u64) -> BTreeMap<u64, ContentHash> {
    let mut rng = Rng(seed << 40);
    let mut live = BTreeMap::new();
    while ledger.head().seq < records {
        step_history(&mut rng, ledger);
        let state = ledger.state().unwrap();
        live.entry(state.seq).or_insert_with(|| state_hash(&state));
    }
    live
}

fn step_history(rng: &mut Rng, ledger: &Ledger) {
    let state = ledger.state().unwrap();
    let open = |run: &&Run| !matches!(run.status, RunStatus::Ended(_));
    let runs: Vec<RunId> = state.runs.values().filter(open).map(|run| run.id).collect();
    let name = format!("run {}", state.names.len());
    if runs.is_empty() || (runs.len() < 4 && rng.below(60) == 0) {
        let policy = RunPolicy {
            approval: rng.pick(&[ApprovalPolicy::Automatic, ApprovalPolicy::Required]),
            text: rng.pick(&[TextPolicy::Judge, TextPolicy::Trust]),
            on_failure: rng.pick(&[OnFailure::Continue, OnFailure::Continue, OnFailure::FailFast]),
        };
        ignore_rejection(ledger.start_run(&name, &plan(rng), policy).map(drop));
        return;
    }
    let run = &state.runs[&rng.pick(&runs)];
    match rng.below(60) {
        4 => {
            let has_failed = |run: &&Run| run.status == RunStatus::Ended(Ending::Failed);
            let Some(run) = state.runs.values().rev().find(has_failed) else { return };
            let again = Command::RetryFailed { run: run.id, by: "ann".to_owned() };
            ignore_rejection(ledger.execute(&again).map(drop));
        }
        0 if runs.len() < 5 => {
            let seq = state.seq - u64::try_from(rng.below(20)).unwrap().min(state.seq - 1);
            let step = StepNumber(u32::try_from(1 + rng.below(4)).unwrap());
            let point = rng.pick(&[ForkPoint::After(seq), ForkPoint::Before(step)]);
            ignore_rejection(ledger.fork(run.id, point, &name).map(drop));
        }
        1..4 => {
            let by = "ann".to_owned();
            let trigger = rng.pick(&[None, Some(ReplanTrigger::ScopeChange { by })]);
            ignore_rejection(ledger.propose_for(run.id, &plan(rng), "better", trigger).map(drop));
        }
        _ => {
            let command = command(rng, &state, run);
            // The ledger would have to copy a state that is still shared.
            drop(state);
            ignore_rejection(ledger.execute(&command).map(drop));
        }
    }
}

fn plan(rng: &mut Rng) -> Plan {
    let steps: Vec<Value> = (0..2 + rng.below(3)).map(|place| step(rng, place)).collect();
    let timeout = rng.pick(&[json!({ "answer": "yes" }), json!({ "escalate_to": "bob" })]);
    let gate = json!({ "question": "This plan?", "deadline_seconds": 1, "on_timeout": timeout });
    let rule = json!({ "id": "ask", "when": { "message": "odd" }, "then": { "escalate": {
        "to": "ann", "deadline_seconds": 3, "on_timeout": { "answer": "retry" } } } });
    let of = json!({
        "title": format!("t{}", rng.below(999)),
        "steps": steps,
        "barriers": [{
            "id": "all",
            "members": rng.pick(&[vec!["s0"], vec!["s0", "s1"]]),
            "needs": rng.pick(&["all", "any"]),
            "on_break": rng.pick(&["fail", "wait", "ask", "ask"]),
            "deadline_seconds": rng.pick(&[json!(null), json!(6)]),
        }],
        "caps": { "owners": { "x": 1 }, "tags": { "gpu": 1 } },
        "budget": rng.pick(&[json!({}), json!({}), json!({ "money_micros": 60 }),
                              json!({ "wall_seconds": 20 })]),
        "test_criteria": rng.pick(&[json!([]), json!(["good"]), json!([{ "cel": "v < 90" }])]),
        "failure": {
            "decider": rng.pick(&["rules", "rules", "external"]),
            "rules": [rule],
            "max_replans": rng.pick(&[json!(null), json!(2)]),
        },
        "gate": rng.pick(&[json!(null), json!(null), json!(null), gate]),
        "continues": rng.below(4) == 0,
    });
    serde_json::from_value(of).unwrap()
}

fn step(rng: &mut Rng, place: usize) -> Value {
    let after = match (place, rng.below(4)) {
        (1.., 0) => vec![format!("s{}", place - 1)],
        (2.., 1) => vec!["all".to_owned()],
        _ => Vec::new(),
    };
    let fallback = match (place, rng.below(6)) {
        (0, 0) => json!({ "step": "s1" }),
        (_, 1) => json!({ "value": { "value": { "n": 1 } } }),
        (_, 2) => json!({ "variable": { "name": "w", "max_age_seconds": 9 } }),
        (_, 3) => json!({ "owner": "y" }),
        _ => json!(null),
    };
    let timeout = rng.pick(&[
        json!(null),
        json!({ "escalate_to": "bob" }),
        json!({ "answer": "skip" }),
        json!({ "answer": "no" }),
        json!("abort"),
    ]);
    let gate = json!({ "question": "Now?", "deadline_seconds": 1, "on_timeout": timeout });
    json!({
        "id": format!("s{place}"),
        "goal": format!("goal {}", rng.below(3)),
        "after": after,
        "owner": rng.pick(&[json!(null), json!("x"), json!("y")]),
        "tags": rng.pick(&[vec![], vec!["gpu"]]),
        "priority": rng.pick(&[0, 0, 1, -7]),
        "inputs": rng.pick(&[vec![], vec!["v"], vec!["w"]]),
        "outputs": rng.pick(&[vec![], vec!["v"]]),
        "condition": rng.pick(&[json!(null), json!(null), json!(null), json!("w < 8")]),
        "preconditions": rng.pick(&[vec![], vec![], vec![], vec!["v != 3"]]),
        "on_false": rng.pick(&["wait", "wait", "fail", "skip"]),
        "gate": rng.pick(&[json!(null), json!(null), gate]),
        "acceptance": rng.pick(&[json!([]), json!([]), json!(["good"]),
                                  json!([{ "cel": "output.n < 80" }])]),
        "idempotent": rng.pick(&[json!(null), json!("no"), json!("with_key")]),
        "lease_seconds": 4,
        "cost_estimate": rng.pick(&[json!(null), json!({ "money_micros": 9, "tokens": 1 })]),
        "cost_limit": rng.pick(&[json!(null), json!(null), json!({ "money_micros": 9 })]),
        "fallback": fallback,
        "retry": { "max_attempts": 4, "backoff_seconds": rng.pick(&[0, 0, 1]),
                   "jitter_percent": 50 },
    })
}

fn receipt(rng: &mut Rng) -> Receipt {
    let class = rng.pick(&[
        FailureClass::Transient,
        FailureClass::Transient,
        FailureClass::Unknown,
        FailureClass::Deterministic,
        FailureClass::AssumptionBroken,
    ]);
    let message = rng.pick(&["503", "503", "odd"]).to_owned();
    let outcome = match rng.below(10) {
        0..6 => Outcome::Failed { class, message, payload: Json::default() },
        6 => Outcome::ReplanRequested {
            reason: "no way".to_owned(),
            from: None,
            kind: ReplanKind::Replan,
        },
        _ => Outcome::Succeeded,
    };
    let output = Json::new(&json!({ "n": rng.below(100) }));
    let money_micros = rng.pick(&[0, 5, 12]);
    Receipt {
        outcome,
        output: Output::Inline(output),
        cost: Cost { money_micros, tokens: 1 },
        side_effects: rng.pick(&[vec![], vec![], vec!["k1".to_owned()]]),
        disposition: rng.pick(&[None, None, Some(Disposition::Unknown)]),
        ..Receipt::default()
    }
}

/// The targets of random commands: a step, and an attempt in flight if there is one.
struct Targets {
    run: RunId,
    step: StepNumber,
    token: AttemptToken,
    by: String,
}

fn command(rng: &mut Rng, state: &State, run: &Run) -> Command {
    let in_flight: Vec<AttemptToken> = state.in_flight.keys().copied().collect();
    let targets = Targets {
        run: run.id,
        step: StepNumber(u32::try_from(1 + rng.below(run.steps.len())).unwrap()),
        token: in_flight.get(rng.below(in_flight.len())).copied().unwrap_or(AttemptToken(1)),
        by: "ann".to_owned(),
    };
    match rng.below(10) {
        0..3 => attempt_command(rng, state, run, targets),
        3..6 => operator_command(rng, state, run, targets),
        6 => budget_command(rng, state, targets),
        7 => plan_command(rng, run, targets),
        _ => {
            if let Some(step) = run.outcome_unknown.first().copied() {
                let finding = rng.pick(&[ResolvedOutcome::Landed, ResolvedOutcome::DidNotHappen]);
                let Targets { run, by, .. } = targets;
                return Command::ResolveOutcome { run, step, finding, by, evidence: "seen".into() };
            }
            Command::Dispatch {
                process: None,
                secret: SecretHash::default(),
                run: targets.run,
                step: None,
                worker: "w".to_owned(),
                route: Route::default(),
                lease: None,
            }
        }
    }
}

fn attempt_command(rng: &mut Rng, state: &State, run: &Run, targets: Targets) -> Command {
    let Targets { run: id, step, token, by } = targets;
    let key = rng.pick(&["k1", "k2"]).to_owned();
    match rng.below(12) {
        0..5 => Command::RecordReceipt { proof: Proof::LockHolder, token, receipt: receipt(rng) },
        5 => Command::RecordReceipt {
            proof: Proof::LockHolder,
            token: any_attempt(rng, state),
            receipt: receipt(rng),
        },
        6 => Command::Renew { proof: Proof::LockHolder, token, lease: None },
        7 => {
            let cause = rng.pick(&[LostCause::RunnerDied, LostCause::Released]);
            Command::ReportLost {
                proof: Proof::LockHolder,
                token,
                cause,
                detail: "gone".to_owned(),
            }
        }
        8 => {
            Command::IntendEffect { proof: Proof::LockHolder, token, effect: "pay".to_owned(), key }
        }
        9 => {
            let meant = run.effects.iter().find(|(_, effect)| effect.committed == 0);
            let meant = meant.map(|(key, effect)| (effect.token, key.clone()));
            let (token, key) = meant.unwrap_or((token, key));
            Command::CommitEffect { proof: Proof::LockHolder, token, key }
        }
        10 => Command::Dispatch {
            process: None,
            secret: SecretHash::default(),
            run: id,
            step: Some(step),
            worker: by,
            route: Route::default(),
            lease: None,
        },
        _ => {
            let reported = run.reported.first().and_then(|number| run.step(*number));
            let attempt = reported.and_then(|step| step.attempt());
            let verdicts = vec![verdict(rng)];
            let token = attempt.map_or(token, |attempt| attempt.token);
            Command::Judge { token, verdicts }
        }
    }
}

/// Any attempt that was ever dispatched.
fn any_attempt(rng: &mut Rng, state: &State) -> AttemptToken {
    let tokens: Vec<AttemptToken> = state.dispatched.keys().copied().collect();
    tokens.get(rng.below(tokens.len())).copied().unwrap_or(AttemptToken(1))
}

fn verdict(rng: &mut Rng) -> Verdict {
    let ruling = rng.pick(&[Ruling::Pass, Ruling::Pass, Ruling::Fail]);
    Verdict { criterion: 0, ruling, by: "judge".to_owned(), evidence: "looked".into() }
}

fn operator_command(rng: &mut Rng, state: &State, run: &Run, targets: Targets) -> Command {
    let Targets { run: id, step, by, .. } = targets;
    let reason = "on request".to_owned();
    match rng.below(14) {
        0..3 => {
            let open: Vec<(QuestionId, RunId)> =
                state.questions.iter().map(|(question, run)| (*question, *run)).collect();
            let Some((question, of)) = open.get(rng.below(open.len())) else {
                return Command::Tick;
            };
            let QuestionBody { options, shown, .. } = &state.runs[of].questions[question].asked;
            let (answer, shown) = (rng.pick(options), *shown);
            Command::Answer { question: *question, answer, by, note: String::new(), shown }
        }
        3..8 => {
            let value = Json::new(&json!(rng.below(9)));
            let name = rng.pick(&["v", "w"]).to_owned();
            let origin = Origin::person(by);
            Command::SetVariable { run: id, name, value, expected_version: None, origin }
        }
        8 => Command::Pause { run: id, by, reason },
        9 => Command::Unpause { run: id, by },
        10 => Command::RetryFailed { run: id, by },
        11 if rng.below(3) == 0 => Command::Skip { run: id, step, by, reason },
        12 if rng.below(8) == 0 => Command::CancelRun { run: id, by, reason },
        13 if rng.below(4) == 0 => Command::MarkDoneBefore { run: id, steps: vec![(step, reason)] },
        _ => {
            let decision = rng.pick(&[
                Decision::Retry,
                Decision::RetryAt { due: state.time + 700_000 },
                Decision::Fallback,
                Decision::Escalate,
                Decision::Replan,
                Decision::Fail,
            ]);
            let step = run.reported.first().copied().unwrap_or(step);
            let (class, from, rule) = (None, None, by.clone());
            Command::DecideFailure { run: id, step, decision, class, from, rule, reason, by }
        }
    }
}

fn budget_command(rng: &mut Rng, state: &State, targets: Targets) -> Command {
    let Targets { run, by, .. } = targets;
    match rng.below(4) {
        0..2 => {
            let money_micros = Some(state.account.spent.money_micros + 40);
            let limits = Some(Limits { money_micros, ..Limits::default() });
            let run = rng.pick(&[None, Some(run), Some(run)]);
            Command::SetBudget { run, limits: rng.pick(&[None, limits]), by }
        }
        2 => {
            let scope = rng.pick(&[
                CapScope::Ledger,
                CapScope::Run { run },
                CapScope::Owner { owner: "y".to_owned() },
                CapScope::Tag { tag: "gpu".to_owned() },
            ]);
            Command::SetCap { scope, limit: rng.pick(&[None, Some(1), Some(2)]), by }
        }
        _ => {
            let token = any_attempt(rng, state);
            let (cost, charged) = (Cost { money_micros: 3, tokens: 2 }, Some(Cost::default()));
            Command::CorrectCost { token, cost, charged, by }
        }
    }
}

fn plan_command(rng: &mut Rng, run: &Run, targets: Targets) -> Command {
    let Targets { run: id, step, by, .. } = targets;
    let reason = "found something".to_owned();
    if let Some(version) = run.versions.last().filter(|each| each.review.is_none()) {
        return Command::ReviewPlan {
            run: id,
            version: u32::try_from(run.versions.len()).unwrap(),
            hash: version.hash,
            review: rng.pick(&[Review::Approved, Review::Approved, Review::Rejected]),
            by,
            note: reason,
        };
    }
    match rng.below(4) {
        0 => {
            let trigger = ReplanTrigger::NewEvidence { by };
            Command::RequestReplan { run: id, trigger, from: Some(step), reason }
        }
        1 => Command::WithdrawReplan { run: id, by, reason },
        2 => Command::JudgePlan { run: id, verdicts: vec![verdict(rng)] },
        _ => Command::Tick,
    }
}
