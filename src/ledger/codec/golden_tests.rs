//! The bytes of every kind of event, fixed by `format/golden/events.txt`.

use std::fmt::Write as _;
use std::path::PathBuf;

use super::event::{decode, encode};
use super::kind::Kind;
use crate::format::Chain;
use crate::log::LoggedRecord;
use crate::plan::*;

fn of_step(event: StepEvent) -> Event {
    Event::Step(StepRecord { run: RunId(1), step: StepNumber(37), previous: 300, event })
}

fn receipt() -> Receipt {
    Receipt {
        outcome: Outcome::Failed {
            class: FailureClass::Transient,
            message: "503".into(),
            payload: Json::new(&serde_json::json!({"retry_after": 2})),
        },
        output: Json::new(&serde_json::json!({"b": 1, "a": [true, null]})).into(),
        variables: vec![("score".into(), Json::new(&serde_json::json!(0.5)))],
        artifacts: vec![Artifact { path: "out.txt".into(), hash: "ab".into() }],
        side_effects: vec!["mail".into()],
        cost: Cost { money_micros: 70_000, tokens: 5 },
        duration: 1_000_000,
        log_tail: "tail".into(),
        disposition: None,
    }
}

fn verdict() -> Verdict {
    Verdict { criterion: 1, ruling: Ruling::Fail, by: "judge".into(), evidence: "no".into() }
}

fn of_plan() -> Vec<Event> {
    let (run, hash) = (RunId(1), ContentHash([0xAB; 32]));
    let policy = RunPolicy {
        approval: ApprovalPolicy::Required,
        text: TextPolicy::Trust,
        on_failure: OnFailure::FailFast,
    };
    let step = Step { id: "3.10".into(), goal: "go".into(), ..Step::default() };
    vec![
        Event::RunStarted(RunStarted { run, name: "demo".into(), policy }),
        Event::PlanProposed(PlanProposed {
            run,
            version: 2,
            hash,
            reason: "why".into(),
            header: Box::new(Plan { title: "t".into(), ..Plan::default() }),
            step_count: 1,
            provenance: None,
        }),
        Event::PlanSteps(PlanSteps {
            run,
            version: 2,
            steps: vec![HashedStep { hash, step: step.into() }],
        }),
        Event::PlanReviewed(PlanReviewed {
            run,
            version: 2,
            hash,
            review: Review::Approved,
            by: "me".into(),
            note: String::new(),
            commands: Some(CommandsApproval { hash, by: "ana".into(), folder: Some("/w".into()) }),
        }),
        Event::PlanActivated(PlanActivated {
            run,
            version: 2,
            numbers: vec![StepNumber(1), StepNumber(300)],
            preserved: vec![StepNumber(1)],
            invalidated: vec![],
            removed: vec![StepNumber(2)],
            added: vec![],
            trusted: vec![],
            untrusted: vec![],
            request: 0,
            held: vec![],
            answers: vec![],
            since: 0,
        }),
        Event::PlanVerdict(PlanVerdict { run, version: 2, verdict: verdict() }),
        Event::VariableSet(VariableSet {
            run,
            name: "x".into(),
            value: Json::new(&serde_json::json!("v")),
            version: 3,
            origin: Origin::Step { step: StepNumber(37), token: AttemptToken(70_000) },
            since: 0,
        }),
        Event::BarrierChanged(BarrierChanged {
            run,
            barrier: "gate".into(),
            change: BarrierChange::Broken,
            arrived: 1,
            needed: 2,
        }),
        Event::CapChanged(CapChanged {
            scope: CapScope::Owner { owner: "dba".into() },
            limit: Some(4),
            by: "me".into(),
        }),
        Event::RunEnded(RunEnded { run, ending: Ending::Failed, reason: "stuck".into() }),
        Event::RunReopened(RunReopened { run, by: "me".into() }),
    ]
}

fn of_steps() -> Vec<Event> {
    let token = AttemptToken(299);
    [
        StepEvent::Dispatched(Dispatched {
            attempt: 2,
            worker: "w".into(),
            lease_until: 1_700_000_000_000_000,
            idempotency_key: "demo/3.10/2".into(),
            reserved: Cost::default(),
            secret_hash: SecretHash([0x9f; 16]),
            process: None,
            second_owner: None,
        }),
        StepEvent::LeaseRenewed(LeaseRenewed { token, lease_until: 7 }),
        StepEvent::AttemptLost(AttemptLost {
            token,
            cause: LostCause::RunnerDied,
            detail: "gone".into(),
            then: AfterLoss::OutcomeUnknown,
        }),
        StepEvent::ReceiptRecorded(ReceiptRecorded { token, receipt: receipt() }),
        StepEvent::ReceiptRefused(ReceiptRefused {
            token,
            reason: "late".into(),
            receipt: Receipt::default(),
        }),
        StepEvent::VerdictRecorded(VerdictRecorded { token, verdict: verdict() }),
        StepEvent::Accepted(Accepted {
            basis: AcceptedBasis::DoneBefore { source: "tasks.json".into() },
        }),
        StepEvent::FailureDecided(FailureDecided {
            token,
            class: FailureClass::Unknown,
            decision: Decision::Fail,
            rule: "fail.attempts_exhausted".into(),
            reason: "3 of 3".into(),
            disposition: Disposition::DidNotHappen,
            then: AfterFailure::Over,
            by: String::new(),
        }),
        StepEvent::Skipped(Skipped { by: "me".into(), reason: "not now".into() }),
        StepEvent::Reopened(Reopened { by: "me".into() }),
        StepEvent::OutcomeResolved(OutcomeResolved {
            token,
            finding: ResolvedOutcome::DidNotHappen,
            by: "me".into(),
            evidence: String::new(),
        }),
    ]
    .map(of_step)
    .into()
}

fn asked() -> QuestionBody {
    QuestionBody {
        subject: QuestionSubject::Gate,
        text: "May it?".into(),
        shown: ContentHash([0xEF; 32]),
        options: vec!["yes".into(), "no".into()],
        to: Some("ann".into()),
        deadline: Some(1_700_000_000_000_000),
        on_timeout: Some(OnTimeout::EscalateTo("bob".into())),
    }
}

fn answered() -> QuestionAnswer {
    QuestionAnswer {
        question: QuestionId(300),
        answer: "yes".into(),
        by: "ann".into(),
        note: "fine".into(),
        shown: ContentHash([0xEF; 32]),
    }
}

fn expired() -> QuestionExpiry {
    QuestionExpiry { question: QuestionId(300), then: Some(OnTimeout::Abort) }
}

fn of_control() -> Vec<Event> {
    let run = RunId(1);
    let limits =
        Limits { money_micros: Some(250_000), wall_seconds: Some(60), ..Limits::default() };
    let inherited = InheritedStep {
        step: StepNumber(2),
        status: StepStatus::Accepted,
        attempts: 2,
        failures: 1,
        accepted: Some(AcceptedBasis::Receipt),
        last_failure: Some((FailureClass::Transient, "503".into())),
    };
    vec![
        Event::RunPaused(RunPaused {
            run,
            cause: PauseCause::RunBudget { part: BudgetPart::Tokens },
            reason: "used up".into(),
        }),
        Event::RunResumed(RunResumed { run, by: "me".into() }),
        Event::BudgetChanged(BudgetChanged {
            run: Some(run),
            limits: Some(limits),
            by: "me".into(),
        }),
        Event::QuestionAsked(QuestionAsked { run, asked: asked() }),
        Event::QuestionAnswered(QuestionAnswered { run, answered: answered() }),
        Event::QuestionExpired(QuestionExpired { run, expired: expired() }),
        Event::ReplanRequested(ReplanRequested {
            run,
            trigger: ReplanTrigger::AssumptionBroken { token: AttemptToken(299) },
            from: Some(StepNumber(2)),
            reason: "no such file".into(),
        }),
        Event::ReplanWithdrawn(ReplanWithdrawn { run, by: "me".into(), reason: "done".into() }),
        Event::FailureSettingsChanged(FailureSettingsChanged {
            run,
            settings: FailureSettings { on_unknown: OnUnknown::Retry, max_replans: Some(3) },
            by: "operator".into(),
        }),
        Event::RunForked(RunForked {
            run: RunId(2),
            parent: run,
            at_seq: 300,
            chain: ContentHash([0xCC; 32]),
            spent: Cost { money_micros: 1, tokens: 2 },
            by: "me".into(),
        }),
        Event::StepsInherited(StepsInherited { run: RunId(2), steps: vec![inherited] }),
    ]
}

fn of_control_steps() -> Vec<Event> {
    let token = AttemptToken(299);
    [
        StepEvent::ConditionJudged(ConditionJudged {
            which: Condition::Pre(1),
            ruling: Ruling::Fail,
            evidence: "score = 3".into(),
        }),
        StepEvent::DelayElapsed(DelayElapsed { due: 7, by: Some("me".into()) }),
        StepEvent::StepAsked(asked()),
        StepEvent::StepAnswered(answered()),
        StepEvent::StepQuestionExpired(expired()),
        StepEvent::EffectIntended(EffectIntended {
            token,
            effect: "mail".into(),
            key: "demo/3.10/2".into(),
        }),
        StepEvent::EffectCommitted(EffectCommitted { token, key: "demo/3.10/2".into() }),
        StepEvent::CostCorrected(CostCorrected {
            token,
            cost: Cost { money_micros: 1, tokens: 2 },
            charged: Cost { money_micros: 3, tokens: 0 },
            by: "me".into(),
        }),
        StepEvent::StepFailed(StepFailed {
            class: FailureClass::AssumptionBroken,
            rule: "precondition.false".into(),
            reason: "it is not so".into(),
        }),
    ]
    .map(of_step)
    .into()
}

/// Events with values in the fields that most events leave empty, and in the later variants.
fn of_rare_values() -> Vec<Event> {
    [of_blob_receipts(), of_rare_fields(), of_rare_variants()].concat()
}

fn of_rare_fields() -> Vec<Event> {
    let token = AttemptToken(299);
    let mut events = vec![Event::PlanActivated(PlanActivated {
        run: RunId(1),
        version: 2,
        numbers: vec![StepNumber(1), StepNumber(3)],
        preserved: vec![StepNumber(1)],
        invalidated: vec![],
        removed: vec![StepNumber(2)],
        added: vec![StepNumber(3)],
        trusted: vec!["x".into()],
        untrusted: vec!["y".into()],
        request: 300,
        held: vec![],
        answers: vec![],
        since: 0,
    })];
    let Event::PlanActivated(activated) = events[0].clone() else { unreachable!() };
    events.push(Event::PlanActivated(PlanActivated {
        held: vec![StepNumber(2)],
        answers: vec![("gate".into(), "release".into())],
        since: 1_700_000_000_000_000,
        ..activated
    }));
    events.push(Event::VariableSet(VariableSet {
        run: RunId(1),
        name: "x".into(),
        value: Json::default(),
        version: 1,
        origin: Origin::Person { who: "me".into() },
        since: 1_700_000_000_000_000,
    }));
    let steps = [
        StepEvent::Dispatched(Dispatched {
            attempt: 2,
            worker: "w".into(),
            lease_until: 1_700_000_000_000_000,
            idempotency_key: "demo/3.10/2".into(),
            reserved: Cost { money_micros: 500, tokens: 0 },
            secret_hash: SecretHash([0x2c; 16]),
            process: Some(WorkerProcess {
                pid: 412,
                start: 86_400,
                machine: "b pid:[1]".into(),
                folder: Some("/w".into()),
            }),
            second_owner: Some("codex".into()),
        }),
        StepEvent::ReceiptRecorded(ReceiptRecorded {
            token,
            receipt: Receipt { disposition: Some(Disposition::Landed), ..receipt() },
        }),
        StepEvent::FailureDecided(FailureDecided {
            token,
            class: FailureClass::Transient,
            decision: Decision::RetryAt { due: 1_700_000_000_000_000 },
            rule: "own".into(),
            reason: "503".into(),
            disposition: Disposition::Landed,
            then: AfterFailure::Over,
            by: "decider".into(),
        }),
        StepEvent::FailureDecided(FailureDecided {
            token,
            class: FailureClass::Unknown,
            decision: Decision::Replan,
            rule: "answer:me".into(),
            reason: "it landed".into(),
            disposition: Disposition::Landed,
            then: AfterFailure::Held,
            by: "me".into(),
        }),
        StepEvent::OutcomeResolved(OutcomeResolved {
            token,
            finding: ResolvedOutcome::Landed,
            by: "probe".into(),
            evidence: "exit status 0".into(),
        }),
    ];
    events.extend(steps.map(of_step));
    events
}

fn of_rare_variants() -> Vec<Event> {
    let run = RunId(1);
    let mut events = vec![
        Event::VariableSet(VariableSet {
            run,
            name: "x".into(),
            value: Json::default(),
            version: 1,
            origin: Origin::Fallback { step: StepNumber(3) },
            since: 0,
        }),
        Event::VariableSet(VariableSet {
            run,
            name: "x".into(),
            value: Json::default(),
            version: 1,
            origin: Origin::Agent { who: "agent:codex/4f2c1d3e".into() },
            since: 0,
        }),
        Event::BarrierChanged(BarrierChanged {
            run,
            barrier: "gate".into(),
            change: BarrierChange::Overruled,
            arrived: 1,
            needed: 2,
        }),
        Event::CapChanged(CapChanged {
            scope: CapScope::Tag { tag: "gpu".into() },
            limit: Some(1),
            by: "me".into(),
        }),
        Event::RunEnded(RunEnded { run, ending: Ending::Aborted, reason: "no".into() }),
    ];
    events.push(Event::HelperEnded(HelperEnded {
        run,
        role: HelperRole::Decider,
        by: "decider:d".into(),
        cost: Cost::default(),
        duration: 1,
    }));
    let accepted = |basis| of_step(StepEvent::Accepted(Accepted { basis }));
    events.push(accepted(AcceptedBasis::FallbackStep { step: StepNumber(3) }));
    events.push(accepted(AcceptedBasis::Fallback { reason: "3 s old".into() }));
    events.push(accepted(AcceptedBasis::Answered { by: "ana".into() }));
    events.push(Event::ReplanRequested(ReplanRequested {
        run,
        trigger: ReplanTrigger::Requested { by: "ana".into() },
        from: Some(StepNumber(2)),
        reason: "a is wrong".into(),
    }));
    events
}

/// Receipts with their output in a blob.
fn of_blob_receipts() -> Vec<Event> {
    let token = AttemptToken(299);
    let blob = BlobOutput {
        hash: ContentHash([0xCD; 32]),
        length: 1 << 20,
        values: vec![("x".into(), Json::new(&serde_json::json!([1])))],
    };
    let receipt = Receipt { output: Output::Blob(blob), ..receipt() };
    [
        StepEvent::ReceiptRecorded(ReceiptRecorded { token, receipt: receipt.clone() }),
        StepEvent::ReceiptRefused(ReceiptRefused { token, reason: "late".into(), receipt }),
    ]
    .map(of_step)
    .into()
}

fn all() -> Vec<Event> {
    [of_plan(), of_steps(), of_rare_values(), of_control(), of_control_steps()].concat()
}

fn render(events: &[Event]) -> String {
    let mut text = String::from(
        "# Payload of one event of every kind: `kind number codec payload`, then the event. All have\n\
         # schema 1.\n",
    );
    for event in events {
        let record = encode(event);
        let codec = match record.codec {
            crate::format::Codec::Bincode => "bincode",
            crate::format::Codec::Json => "json",
            crate::format::Codec::Raw => "raw",
            crate::format::Codec::Detached => "detached",
        };
        let hex: String = record.payload.iter().map(|byte| format!("{byte:02x}")).collect();
        let kind = Kind::of(event);
        assert_eq!(record.schema, 1);
        let (name, number) = (kind.name(), kind.number());
        writeln!(text, "\n{name} {number} {codec} {hex}\n# {event:?}").unwrap();
    }
    text
}

/// Goal: no kind's bytes ever change by accident, such as by reordering an enum (H64).
#[test]
fn golden_bytes_of_every_kind_are_unchanged() {
    let events = all();
    let covered: Vec<_> = events.iter().map(Kind::of).collect();
    let missing: Vec<_> = Kind::ALL
        .iter()
        .filter(|kind| kind.number() < crate::format::SKIPPABLE_KINDS_FROM)
        .filter(|kind| !covered.contains(kind))
        .collect();
    assert!(missing.is_empty(), "kinds without golden bytes: {missing:?}");

    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("format/golden/events.txt");
    let text = render(&events);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "{}", path.display());
}

/// Goal: the golden bytes decode to the events, and a changed byte never panics.
#[test]
fn golden_bytes_decode_and_damaged_bytes_do_not_panic() {
    for event in all() {
        let record = encode(&event);
        let logged = |payload: Vec<u8>| LoggedRecord {
            seq: 1,
            time: 1,
            kind: record.kind,
            codec: record.codec,
            schema: record.schema,
            batch_left: 0,
            payload,
            chain: Chain::GENESIS,
            segment: 0,
            offset: 4096,
            size: 128,
        };
        assert_eq!(decode(&logged(record.payload.clone())).unwrap(), Some(event));
        for place in 0..record.payload.len() {
            for bit in 0..8 {
                let mut payload = record.payload.clone();
                payload[place] ^= 1 << bit;
                if let Ok(Some(event)) = decode(&logged(payload)) {
                    State::default().apply(1, 1, &event);
                }
            }
            assert!(decode(&logged(record.payload[..place].to_vec())).is_err());
        }
        let mut longer = record.payload.clone();
        longer.push(0);
        assert!(decode(&logged(longer)).is_err(), "trailing bytes are refused");
    }
}

/// Goal: a record of a newer program is reported as such, never as damage or as the end of the log.
#[test]
fn unknown_kinds_and_schemas_are_rejected_or_skipped() {
    let logged = |kind, schema| LoggedRecord {
        seq: 9,
        time: 1,
        kind,
        codec: crate::format::Codec::Raw,
        schema,
        batch_left: 0,
        payload: vec![],
        chain: Chain::GENESIS,
        segment: 0,
        offset: 4096,
        size: 128,
    };
    let unsupported = crate::ErrorKind::Unsupported;
    assert_eq!(decode(&logged(999, 1)).unwrap_err().kind(), unsupported);
    assert_eq!(decode(&logged(1, 2)).unwrap_err().kind(), unsupported);
    assert_eq!(decode(&logged(35, 2)).unwrap_err().kind(), unsupported);
    assert_eq!(decode(&logged(0x8123, 5)).unwrap(), None);
}
