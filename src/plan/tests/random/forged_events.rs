//! Events that no command produces and only a forged log can contain.

use std::collections::BTreeMap;

use super::rng::TestRng;
use crate::plan::tests::invariants;
use crate::plan::tests::support::*;
use crate::plan::*;

#[expect(clippy::needless_pass_by_value, reason = "every event is made for the call")]
fn unchanged(ledger: &TestLedger, event: Event) {
    let mut state = ledger.state.clone();
    let seq = state.seq + 1;
    state.apply(seq, 0, &event);
    assert_eq!(state.seq, seq);
    assert_eq!(state.time, ledger.state.time, "time never goes back");
    state.seq = ledger.state.seq;
    if let Event::Step(record) = &event
        && let Some(run) = state.runs.get_mut(&record.run)
        && let Some(step) = run.steps.get_mut(record.step.index())
    {
        assert_eq!(step.last_seq, seq);
        step.last_seq = ledger.run().steps[record.step.index()].last_seq;
    }
    assert_eq!(format!("{state:?}"), format!("{:?}", ledger.state), "{event:?}");
    invariants::check(&state);
}

fn activation(version: u32, numbers: &[u32]) -> Event {
    Event::PlanActivated(PlanActivated {
        run: RunId(1),
        version,
        numbers: numbers.iter().copied().map(StepNumber).collect(),
        preserved: vec![],
        invalidated: vec![],
        removed: vec![],
        added: vec![],
        trusted: vec![],
        untrusted: vec![],
        request: 0,
        held: vec![],
        answers: vec![],
        since: 0,
    })
}

#[test]
fn mismatched_activation_changes_nothing() {
    let two = plan(vec![step("a", &[]), step("b", &["a"])]);
    let mut ledger = TestLedger::with(&two, RunPolicy::default());
    ledger.dispatch("a");
    for numbers in [&[1][..], &[1, 1], &[2, 1], &[1, 4_000_000_000], &[0, 1], &[1, 2, 3]] {
        unchanged(&ledger, activation(1, numbers));
    }
    unchanged(&ledger, activation(0, &[1, 2]));
    unchanged(&ledger, activation(2, &[1, 2]));
}

#[test]
fn steps_without_a_version_change_nothing() {
    let ledger = TestLedger::with(&plan(vec![step("a", &[])]), RunPolicy::default());
    let steps = draft(&plan(vec![step("x", &[])])).steps;
    for version in [0, 1, 2, u32::MAX] {
        let steps = steps.clone();
        unchanged(&ledger, Event::PlanSteps(PlanSteps { run: RunId(1), version, steps }));
    }
}

#[test]
fn misplaced_step_events_change_only_the_last_seq() {
    let mut ledger =
        TestLedger::with(&plan(vec![step("a", &[]), step("b", &[])]), RunPolicy::default());
    let token = ledger.dispatch("a");
    let other = AttemptToken(token.0 + 1_000);
    let event = |step, event| {
        Event::Step(StepRecord { run: RunId(1), step: StepNumber(step), previous: 0, event })
    };
    let receipt = Receipt::default();
    let recorded = ReceiptRecorded { token: other, receipt };
    unchanged(&ledger, event(1, StepEvent::ReceiptRecorded(recorded.clone())));
    unchanged(&ledger, event(2, StepEvent::ReceiptRecorded(recorded.clone())));
    unchanged(&ledger, event(0, StepEvent::ReceiptRecorded(recorded.clone())));
    unchanged(&ledger, event(99, StepEvent::ReceiptRecorded(recorded)));
    unchanged(&ledger, event(1, StepEvent::Accepted(Accepted { basis: AcceptedBasis::Receipt })));
    unchanged(&ledger, event(2, StepEvent::Reopened(Reopened { by: String::new() })));
    let renewed = LeaseRenewed { token: other, lease_until: 0 };
    unchanged(&ledger, event(1, StepEvent::LeaseRenewed(renewed)));
}

#[test]
fn events_of_unknown_runs_change_nothing() {
    let ledger = TestLedger::with(&plan(vec![step("a", &[])]), RunPolicy::default());
    let run = RunId(7);
    let reason = String::new();
    unchanged(
        &ledger,
        Event::RunEnded(RunEnded { run, ending: Ending::Done, reason: reason.into() }),
    );
    unchanged(&ledger, Event::RunReopened(RunReopened { run, by: String::new() }));
    let change = BarrierChange::Released;
    let barrier = "gate".to_owned();
    for run in [RunId(1), run] {
        let barrier = barrier.clone();
        unchanged(
            &ledger,
            Event::BarrierChanged(BarrierChanged { run, barrier, change, arrived: 0, needed: 0 }),
        );
    }
    let started = RunStarted { run: RunId(1), name: "other".into(), policy: trust() };
    unchanged(&ledger, Event::RunStarted(started));
}

impl TestRng {
    fn few(&mut self) -> u64 {
        u64::from(self.below(60))
    }

    fn number(&mut self) -> StepNumber {
        StepNumber(self.pick(&[0, 1, 1, 2, 2, 3, 4, 5, 9, u32::MAX]))
    }

    fn numbers(&mut self) -> Vec<StepNumber> {
        (0..self.below(4)).map(|_| self.number()).collect()
    }

    fn time(&mut self) -> Timestamp {
        self.pick(&[0, 1_000 * SECOND, 1_005 * SECOND, u64::MAX])
    }

    fn forged_cost(&mut self) -> Cost {
        self.pick(&[Cost::default(), Cost { money_micros: 3, tokens: u64::MAX }])
    }

    fn word(&mut self) -> String {
        self.pick(&["s1", "g0", "v", "key-0", YES, ABORT, SKIP, ""]).to_owned()
    }

    fn basis(&mut self) -> AcceptedBasis {
        match self.below(4) {
            0 => AcceptedBasis::Receipt,
            1 => AcceptedBasis::Landed { by: self.word() },
            2 => AcceptedBasis::FallbackStep { step: self.number() },
            _ => AcceptedBasis::Verdicts,
        }
    }

    fn asked_of(&mut self) -> QuestionBody {
        QuestionBody {
            subject: match self.below(5) {
                0 => QuestionSubject::Gate,
                1 => QuestionSubject::Failure { token: AttemptToken(self.few()) },
                2 => QuestionSubject::Plan { version: self.below(3) },
                3 => QuestionSubject::Budget,
                _ => QuestionSubject::Barrier { barrier: self.word() },
            },
            text: self.word().into(),
            shown: ContentHash::default(),
            options: vec![self.word()],
            to: None,
            deadline: self.maybe(2, Self::time),
            on_timeout: self.on_timeout(&[YES, ABORT]),
        }
    }

    fn question(&mut self) -> QuestionId {
        QuestionId(self.few())
    }

    fn answered_to(&mut self) -> QuestionAnswer {
        let (answer, by, note) = (self.word(), self.word(), String::new());
        QuestionAnswer {
            question: self.question(),
            answer,
            by,
            note,
            shown: ContentHash::default(),
        }
    }

    fn expired_of(&mut self) -> QuestionExpiry {
        QuestionExpiry { question: self.question(), then: self.on_timeout(&[YES]) }
    }

    fn forged_trigger(&mut self) -> ReplanTrigger {
        let step = self.number();
        self.pick(&[
            ReplanTrigger::Extension,
            ReplanTrigger::PreconditionFalse { step, precondition: 7 },
            ReplanTrigger::BudgetExhausted,
        ])
    }

    fn step_event(&mut self, token: AttemptToken) -> StepEvent {
        match self.below(20) {
            0 | 1 => StepEvent::Dispatched(Dispatched {
                attempt: self.below(3),
                worker: self.word(),
                lease_until: self.time(),
                idempotency_key: self.word(),
                reserved: self.forged_cost(),
                secret_hash: SecretHash::default(),
                process: None,
                second_owner: None,
            }),
            2 => StepEvent::LeaseRenewed(LeaseRenewed { token, lease_until: self.time() }),
            3 => StepEvent::AttemptLost(AttemptLost {
                token,
                cause: LostCause::Revoked,
                detail: String::new(),
                then: self.pick(&[AfterLoss::Redispatch, AfterLoss::OutcomeUnknown]),
            }),
            4 | 5 => StepEvent::ReceiptRecorded(ReceiptRecorded { token, receipt: self.receipt() }),
            6 => StepEvent::ReceiptRefused(ReceiptRefused {
                token,
                reason: String::new(),
                receipt: self.receipt(),
            }),
            7 => {
                let criterion = self.pick(&[0, 1, u32::MAX]);
                let ruling = self.pick(&[Ruling::Pass, Ruling::Fail]);
                let verdict = verdict(criterion, ruling, "ann");
                StepEvent::VerdictRecorded(VerdictRecorded { token, verdict })
            }
            8 => StepEvent::Accepted(Accepted { basis: self.basis() }),
            9 | 10 => StepEvent::FailureDecided(FailureDecided {
                token,
                class: self.class(),
                decision: match self.below(8) {
                    0 => Decision::Retry,
                    1 => Decision::Fail,
                    2 => Decision::RetryAt { due: self.time() },
                    3 => Decision::Fallback,
                    4 => Decision::Replan,
                    5 => Decision::Escalate,
                    6 => Decision::Abort,
                    _ => Decision::OutcomeUnknown,
                },
                rule: self.word(),
                reason: self.word().into(),
                disposition: self.disposition(),
                then: self.pick(&[AfterFailure::Over, AfterFailure::Held]),
                by: self.word(),
            }),
            11 => StepEvent::Skipped(Skipped { by: self.word(), reason: Text::default() }),
            12 => StepEvent::Reopened(Reopened { by: self.word() }),
            13 => StepEvent::OutcomeResolved(OutcomeResolved {
                token,
                finding: self.pick(&[ResolvedOutcome::Landed, ResolvedOutcome::DidNotHappen]),
                by: self.word(),
                evidence: String::new(),
            }),
            14 => StepEvent::ConditionJudged(ConditionJudged {
                which: self.pick(&[Condition::RunIf, Condition::Pre(0), Condition::Pre(u32::MAX)]),
                ruling: self.pick(&[Ruling::Pass, Ruling::Fail]),
                evidence: Text::default(),
            }),
            15 => StepEvent::DelayElapsed(DelayElapsed { due: self.time(), by: None }),
            16 => StepEvent::StepAsked(self.asked_of()),
            17 => match self.below(2) {
                0 => StepEvent::StepAnswered(self.answered_to()),
                _ => StepEvent::StepQuestionExpired(self.expired_of()),
            },
            18 => match self.below(2) {
                0 => {
                    let (effect, key) = (self.word(), self.word());
                    StepEvent::EffectIntended(EffectIntended { token, effect, key })
                }
                _ => StepEvent::EffectCommitted(EffectCommitted { token, key: self.word() }),
            },
            _ => match self.below(2) {
                0 => StepEvent::CostCorrected(CostCorrected {
                    token,
                    cost: self.forged_cost(),
                    charged: self.forged_cost(),
                    by: self.word(),
                }),
                _ => StepEvent::StepFailed(StepFailed {
                    class: self.class(),
                    rule: self.word(),
                    reason: self.word().into(),
                }),
            },
        }
    }

    /// Any event, with runs, steps and tokens from a small range, some of which exist.
    #[expect(clippy::too_many_lines, reason = "one arm for each event")]
    fn event(&mut self, state: &State) -> Event {
        let run = RunId(1 + self.below(3));
        let tokens: Vec<AttemptToken> = state.dispatched.keys().copied().collect();
        match self.below(30) {
            0 => {
                let (name, policy) = (self.word(), self.policy());
                Event::RunStarted(RunStarted { run, name, policy })
            }
            1 => {
                let header = Box::new(self.plan());
                Event::PlanProposed(PlanProposed {
                    run,
                    version: self.below(4),
                    hash: ContentHash::default(),
                    reason: String::new(),
                    header,
                    step_count: self.pick(&[0, 1, 3, u32::MAX]),
                    provenance: None,
                })
            }
            2 => {
                let steps = draft(&self.plan()).steps;
                Event::PlanSteps(PlanSteps { run, version: self.below(4), steps })
            }
            3 => activation_of(run, self.below(4), self),
            4 => Event::PlanVerdict(PlanVerdict {
                run,
                version: self.below(3),
                verdict: verdict(self.below(3), Ruling::Fail, "ann"),
            }),
            5 => Event::VariableSet(VariableSet {
                run,
                name: self.pick(&["u", "v", "w"]).to_owned(),
                value: Json::from(serde_json::json!(self.below(5))),
                version: self.few(),
                origin: Origin::Fallback { step: self.number() },
                since: 0,
            }),
            6 => Event::BarrierChanged(BarrierChanged {
                run,
                barrier: self.pick(&["g0", "g1", "g2"]).to_owned(),
                change: self.pick(&[
                    BarrierChange::Released,
                    BarrierChange::Broken,
                    BarrierChange::Late,
                    BarrierChange::Overruled,
                ]),
                arrived: 0,
                needed: u32::MAX,
            }),
            7 => Event::CapChanged(CapChanged {
                scope: CapScope::Tag { tag: self.pick(&["gpu", "db"]).to_owned() },
                limit: self.maybe(2, |rng| rng.below(2)),
                by: String::new(),
            }),
            8 => Event::RunEnded(RunEnded {
                run,
                ending: self.pick(&[Ending::Done, Ending::Failed, Ending::Aborted]),
                reason: Text::default(),
            }),
            9 => Event::RunReopened(RunReopened { run, by: String::new() }),
            10 => {
                let cause = PauseCause::StepLimit { step: self.number() };
                Event::RunPaused(RunPaused { run, cause, reason: String::new() })
            }
            11 => Event::RunResumed(RunResumed { run, by: String::new() }),
            12 => Event::BudgetChanged(BudgetChanged {
                run: self.pick(&[None, Some(run)]),
                limits: Some(Limits { wall_seconds: Some(u64::MAX), ..Limits::default() }),
                by: String::new(),
            }),
            13 => Event::QuestionAsked(QuestionAsked { run, asked: self.asked_of() }),
            14 => Event::QuestionAnswered(QuestionAnswered { run, answered: self.answered_to() }),
            15 => Event::QuestionExpired(QuestionExpired { run, expired: self.expired_of() }),
            16 => Event::ReplanRequested(ReplanRequested {
                run,
                trigger: self.forged_trigger(),
                from: Some(self.number()),
                reason: Text::default(),
            }),
            17 => {
                let (by, reason) = (String::new(), String::new());
                Event::ReplanWithdrawn(ReplanWithdrawn { run, by, reason })
            }
            18 => Event::StepsInherited(StepsInherited {
                run,
                steps: vec![InheritedStep {
                    step: self.number(),
                    status: self.pick(&StepStatus::ALL),
                    attempts: u32::MAX,
                    failures: u32::MAX,
                    accepted: None,
                    last_failure: None,
                }],
            }),
            _ => {
                let known = !tokens.is_empty() && !self.one_in(5);
                let token = if known { self.pick(&tokens) } else { AttemptToken(self.few()) };
                let place = state.dispatched.get(&token).filter(|_| !self.one_in(3));
                let place = place.map(|(run, step, _)| (*run, *step));
                let (run, step) = place.unwrap_or_else(|| (run, self.number()));
                let event = self.step_event(token);
                Event::Step(StepRecord { run, step, previous: self.few(), event })
            }
        }
    }
}

fn activation_of(run: RunId, version: u32, rng: &mut TestRng) -> Event {
    let count = 1 + rng.below(5);
    let in_order: Vec<StepNumber> = (1..=count).map(StepNumber).collect();
    let any = rng.numbers();
    Event::PlanActivated(PlanActivated {
        run,
        version,
        numbers: rng.pick(&[in_order.clone(), in_order, any]),
        preserved: rng.numbers(),
        invalidated: rng.numbers(),
        removed: rng.numbers(),
        added: rng.numbers(),
        trusted: vec![],
        untrusted: vec![rng.word()],
        request: rng.few(),
        held: rng.numbers(),
        answers: vec![(rng.word(), rng.pick(&[WAIT, RELEASE]).to_owned())],
        since: rng.pick(&[0, 0, 7, Micros::MAX]),
    })
}

/// For any events in a log, applying, settling and ticking never panic, derived state stays
/// consistent, and a snapshot restores the same state.
#[test]
fn random_events_keep_derived_state_consistent() {
    for seed in 0..400 {
        let mut rng = TestRng(seed);
        let mut ledger = TestLedger::new();
        for name in ["one", "two"] {
            let (name, policy) = (name.to_owned(), rng.policy());
            let started = Command::StartRun {
                name,
                policy,
                reason: String::new(),
                draft: draft(&rng.plan()),
                inputs: BTreeMap::new(),
            };
            ledger.execute(started).unwrap();
        }
        let mut state = ledger.state;
        for _ in 0..120 {
            let event = rng.event(&state);
            let (seq, time) = (state.seq + 1, rng.time());
            if rng.one_in(60) {
                state.lose_record(seq, time);
            } else {
                state.apply(seq, time, &event);
            }
            invariants::check_derived(&state);
            if rng.one_in(10) {
                let run = RunId(1 + rng.below(3));
                for event in settle(&state, run, &mut Evaluator::default()).unwrap_or_default() {
                    state.apply(state.seq + 1, 0, &event);
                }
                invariants::check_derived(&state);
            }
            if rng.one_in(30) {
                let next = state.seq + 1;
                let _ = execute(&mut state, next, u64::MAX, &Command::Tick);
                invariants::check_derived(&state);
            }
        }
        for run in state.runs.keys() {
            let _ =
                decide(&state, u64::MAX, &Command::RetryFailed { run: *run, by: String::new() });
        }
    }
}
