//! Tens of thousands of random commands on random plans: after every one the books balance, and
//! the log folds into the same state.

use std::collections::{BTreeMap, BTreeSet};

use super::books;
use super::support::*;
use crate::plan::*;

const WORLDS: u64 = 300;
const COMMANDS: u64 = 150;

/// The `SplitMix64` generator: small, and the same on every machine.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `sides`.
    fn below(&mut self, sides: u32) -> u32 {
        u32::try_from(self.roll() % u64::from(sides.max(1))).unwrap()
    }

    fn one_in(&mut self, sides: u32) -> bool {
        self.below(sides) == 0
    }

    fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        let place = self.below(u32::try_from(of.len()).unwrap());
        of[usize::try_from(place).unwrap()].clone()
    }

    fn policy(&mut self) -> RunPolicy {
        RunPolicy {
            approval: self.pick(&[
                ApprovalPolicy::Automatic,
                ApprovalPolicy::Automatic,
                ApprovalPolicy::Required,
            ]),
            text: self.pick(&[TextPolicy::Judge, TextPolicy::Trust]),
            on_failure: self.pick(&[OnFailure::Continue, OnFailure::Continue, OnFailure::FailFast]),
        }
    }

    fn criteria(&mut self) -> Vec<Criterion> {
        let one = |dice: &mut Self| match dice.below(2) {
            0 => Criterion::Text("good".to_owned()),
            _ => Criterion::Command("true".to_owned()),
        };
        (0..self.pick(&[0, 0, 0, 1, 2])).map(|_| one(self)).collect()
    }

    fn plan(&mut self) -> Plan {
        let ids: Vec<String> =
            (0..=self.below(9)).map(|_| format!("s{}", self.below(14))).collect();
        let ids: BTreeSet<String> = ids.into_iter().collect();
        let ids: Vec<String> = ids.into_iter().collect();
        let barriers: Vec<Barrier> = (0..self.below(3)).map(|n| self.barrier(n, &ids)).collect();
        let steps = (0..ids.len()).map(|place| self.step(&ids, place, &barriers)).collect();
        let mut plan = Plan { steps, barriers, ..Plan::default() };
        plan.title = format!("{}", self.below(1_000_000));
        plan.test_criteria = if self.one_in(3) { self.criteria() } else { Vec::new() };
        plan.continues = self.one_in(8);
        plan.caps.run = self.pick(&[None, None, Some(1), Some(3)]);
        if self.one_in(2) {
            plan.caps.owners.insert("x".to_owned(), 1 + self.below(2));
        }
        plan.defaults.owner = self.pick(&[None, Some("y".to_owned())]);
        plan
    }

    fn barrier(&mut self, n: u32, ids: &[String]) -> Barrier {
        let members: Vec<String> = (0..=self.below(4)).map(|_| self.pick(ids)).collect();
        let mut members: Vec<&str> = members.iter().map(String::as_str).collect();
        if self.one_in(40) {
            members.push("nobody");
        }
        let some = BarrierNeeds::AtLeast(self.below(4));
        let needs = self.pick(&[BarrierNeeds::All, BarrierNeeds::Any, some]);
        let on_break = self.pick(&[OnBreak::Fail, OnBreak::Wait, OnBreak::Ask]);
        Barrier { on_break, ..barrier(&format!("g{n}"), &members, needs) }
    }

    fn step(&mut self, ids: &[String], place: usize, barriers: &[Barrier]) -> Step {
        let mut after: Vec<String> = Vec::new();
        for _ in 0..self.below(3) {
            let earlier = &ids[..place];
            if earlier.is_empty() {
                continue;
            }
            let pool = if self.one_in(60) { ids } else { earlier };
            after.push(self.pick(pool));
        }
        if !barriers.is_empty() && self.one_in(3) {
            let waited = self.pick(barriers);
            // Mostly no cycle: a member rarely waits for its own barrier.
            if !waited.members.contains(&ids[place]) || self.one_in(10) {
                after.push(waited.id);
            }
        }
        if self.one_in(100) {
            after.push("nobody".to_owned());
        }
        let after: Vec<&str> = after.iter().map(String::as_str).collect();
        let attempts = 1 + self.below(3);
        Step {
            goal: self.pick(&["one", "one", "one", "two"]).to_owned(),
            owner: self.pick(&[None, Some("x".to_owned()), Some("y".to_owned())]),
            priority: self.pick(&[0, 0, 1, -1]),
            acceptance: self.criteria(),
            outputs: self.pick(&[vec![], vec!["v".to_owned()], vec!["v".into(), "w".into()]]),
            idempotent: self.pick(&[None, Some(Idempotence::No), Some(Idempotence::WithKey)]),
            lease_seconds: self.pick(&[None, Some(5)]),
            retry: Some(RetryPolicy { max_attempts: attempts, ..RetryPolicy::default() }),
            ..step(&ids[place], &after)
        }
    }

    fn verdicts(&mut self) -> Vec<Verdict> {
        let one = |dice: &mut Self, n| {
            let ruling = if dice.one_in(8) { Ruling::Fail } else { Ruling::Pass };
            let by = dice.pick(&["ann", "ann", "ann", "worker-1"]);
            verdict(n, ruling, by)
        };
        match self.below(3) {
            0 => vec![one(self, 0), one(self, 1)],
            _ => vec![{
                let n = self.below(3);
                one(self, n)
            }],
        }
    }

    fn receipt(&mut self) -> Receipt {
        let class = self.pick(&[
            FailureClass::Transient,
            FailureClass::Unknown,
            FailureClass::Deterministic,
        ]);
        match self.below(12) {
            0 | 1 => failed(class),
            2 if self.one_in(3) => Receipt {
                outcome: Outcome::ReplanRequested { reason: "why not".to_owned() },
                ..Receipt::default()
            },
            _ => Receipt {
                output: Json::from(serde_json::json!({ "v": self.below(9) })).into(),
                variables: self.pick(&[vec![], vec![("u".to_owned(), Json::default())]]),
                cost: Cost { money_micros: u64::from(self.below(5)), tokens: 1 },
                ..Receipt::default()
            },
        }
    }
}

/// A command that may or may not make sense for the world as it stands.
fn command(dice: &mut Dice, world: &World) -> Command {
    let runs: Vec<RunId> = world.state.runs.keys().copied().collect();
    let is_open = |run: &RunId| !matches!(world.state.runs[run].status, RunStatus::Ended(_));
    let open: Vec<RunId> = runs.iter().copied().filter(is_open).collect();
    if open.is_empty() && dice.below(3) > 0 {
        return start(dice, world);
    }
    let run = match dice.below(40) {
        0 => RunId(77),
        1..=4 if !runs.is_empty() => dice.pick(&runs),
        _ if !open.is_empty() => dice.pick(&open),
        _ => RunId(1),
    };
    let is_proposed = |run: &Run| run.status == RunStatus::Proposed;
    if world.state.runs.get(&run).is_some_and(is_proposed) && dice.one_in(2) {
        return propose(dice, world, run);
    }
    let steps = world.state.runs.get(&run).map_or(0, |run| run.steps.len());
    let step = StepNumber(1 + dice.below(u32::try_from(steps).unwrap() + 1));
    let by = "ann".to_owned();
    let reason = "because".to_owned();
    let roll = dice.below(64);
    // Mostly, something is dealt where there is nothing to report or to judge.
    let is_idle = world.state.in_flight.is_empty()
        && world.state.runs.values().all(|run| run.reported.is_empty());
    match if is_idle && (21..50).contains(&roll) && dice.below(6) > 0 { 0 } else { roll } {
        0..=15 => Command::Dispatch { run, step: None, worker: "worker-1".to_owned() },
        16..=20 => Command::Dispatch { run, step: Some(step), worker: "worker-2".to_owned() },
        21..=36 => Command::RecordReceipt { token: token(dice, world), receipt: dice.receipt() },
        37..=45 => Command::Judge { token: reported(dice, world), verdicts: dice.verdicts() },
        46..=47 => Command::Renew { token: token(dice, world) },
        48..=49 => {
            let causes = [LostCause::RunnerDied, LostCause::Released, LostCause::LeaseExpired];
            let (cause, detail) = (dice.pick(&causes), reason);
            Command::ReportLost { token: token(dice, world), cause, detail }
        }
        50 => Command::Tick,
        51..=52 => Command::JudgePlan { run, verdicts: dice.verdicts() },
        53 => Command::TakeOver { run, steps: vec![(step, reason.clone()), (step, reason)] },
        54 => Command::Skip { run, step, by, reason },
        55..=56 => {
            let finding = dice.pick(&[Finding::Landed, Finding::DidNotHappen]);
            Command::ResolveDoubt { run, step, finding, by, evidence: String::new() }
        }
        57..=58 => Command::RetryFailed { run, by },
        59 => Command::SetVariable {
            run,
            name: "v".to_owned(),
            value: Json::default(),
            expected_version: dice.pick(&[None, Some(0), Some(1)]),
            by,
        },
        60 => {
            let scopes = [CapScope::Ledger, CapScope::Run(run), CapScope::Owner("x".to_owned())];
            let limit = dice.pick(&[None, None, Some(0), Some(1), Some(2)]);
            Command::SetCap { scope: dice.pick(&scopes), limit, by }
        }
        61 if dice.one_in(4) => Command::CancelRun { run, by, reason },
        61..=62 => propose(dice, world, run),
        _ => start(dice, world),
    }
}

fn start(dice: &mut Dice, world: &World) -> Command {
    let runs = u32::try_from(world.state.runs.len()).unwrap();
    let name = format!("run-{}", if dice.one_in(9) { dice.below(4) } else { runs });
    Command::StartRun { name, policy: dice.policy(), draft: draft(&dice.plan()) }
}

/// A new version, a small change of the active one, or the review of a proposed one.
fn propose(dice: &mut Dice, world: &World, run: RunId) -> Command {
    let known = world.state.runs.get(&run);
    let waiting = known.and_then(|run| run.versions.last()).filter(|each| each.review.is_none());
    if let (Some(known), Some(version)) = (known, waiting)
        && dice.below(10) > 1
    {
        return Command::ReviewPlan {
            run,
            version: u32::try_from(known.versions.len()).unwrap(),
            hash: if dice.one_in(10) { ContentHash::default() } else { version.hash },
            review: dice.pick(&[Review::Approved, Review::Approved, Review::Rejected]),
            by: "ann".to_owned(),
            note: String::new(),
        };
    }
    let plan = match known.and_then(Run::plan) {
        Some(active) if dice.below(3) > 0 && !active.steps.is_empty() => {
            let mut next = active.clone();
            let place = usize::try_from(dice.below(u32::try_from(next.steps.len()).unwrap()));
            next.steps[place.unwrap()].goal = format!("goal {}", dice.below(3));
            next
        }
        _ => dice.plan(),
    };
    Command::ProposePlan { run, draft: draft(&plan), reason: "better".to_owned(), trigger: None }
}

/// A token: mostly one in flight, sometimes one that is over, sometimes none at all.
fn token(dice: &mut Dice, world: &World) -> AttemptToken {
    let live: Vec<AttemptToken> = world.state.in_flight.keys().copied().collect();
    let ever: Vec<AttemptToken> = world.state.dealt.keys().copied().collect();
    match dice.below(20) {
        0 => AttemptToken(u64::from(dice.below(300))),
        1 | 2 if !ever.is_empty() => dice.pick(&ever),
        _ if !live.is_empty() => dice.pick(&live),
        _ => AttemptToken(0),
    }
}

fn reported(dice: &mut Dice, world: &World) -> AttemptToken {
    let steps = world.state.runs.values().flat_map(|run| {
        run.reported.iter().filter_map(|number| run.step(*number)?.attempt.as_ref())
    });
    let tokens: Vec<AttemptToken> = steps.map(|attempt| attempt.token).collect();
    if tokens.is_empty() { token(dice, world) } else { dice.pick(&tokens) }
}

/// What must hold of the events, over the whole life of a world.
#[derive(Default)]
struct Watch {
    live: BTreeMap<(RunId, StepNumber), AttemptToken>,
    passed: BTreeMap<AttemptToken, BTreeSet<u32>>,
    last_token: BTreeMap<(RunId, StepNumber), AttemptToken>,
    ids: BTreeMap<RunId, Vec<String>>,
    seen: BTreeMap<&'static str, u32>,
}

impl Watch {
    fn step_event(&mut self, state: &State, seq: u64, record: &StepRecord) {
        let key = (record.run, record.step);
        let run = &state.runs[&record.run];
        match &record.event {
            StepEvent::Dispatched(_) => {
                let token = AttemptToken(seq);
                assert_eq!(self.live.insert(key, token), None, "one winner per claim");
                self.last_token.insert(key, token);
                check_caps(state, run, record.step);
                *self.seen.entry("dispatched").or_default() += 1;
            }
            StepEvent::AttemptLost(lost) => {
                assert_eq!(self.live.remove(&key), Some(lost.token));
            }
            StepEvent::ReceiptRecorded(recorded) => {
                assert_eq!(self.live.remove(&key), Some(recorded.token));
            }
            StepEvent::ReceiptRefused(_) => *self.seen.entry("refused").or_default() += 1,
            StepEvent::VerdictRecorded(judged) if judged.verdict.ruling == Ruling::Pass => {
                self.passed.entry(judged.token).or_default().insert(judged.verdict.criterion);
            }
            StepEvent::Accepted(accepted) => {
                *self.seen.entry("accepted").or_default() += 1;
                self.check_accepted(run, key, &accepted.basis);
            }
            _ => {}
        }
    }

    fn check_accepted(&self, run: &Run, key: (RunId, StepNumber), basis: &AcceptedBasis) {
        let criteria = run.plan_step(key.1).unwrap().acceptance.len();
        match basis {
            AcceptedBasis::Receipt => assert_eq!(criteria, 0),
            AcceptedBasis::Verdicts | AcceptedBasis::WorkersWord => {
                let passed = &self.passed[&self.last_token[&key]];
                assert!((0..u32::try_from(criteria).unwrap()).all(|n| passed.contains(&n)));
            }
            AcceptedBasis::DoneBefore { .. }
            | AcceptedBasis::Landed { .. }
            | AcceptedBasis::StoodIn { .. }
            | AcceptedBasis::Fallback { .. } => {}
        }
    }

    fn after(&mut self, state: &State, first: u64, events: &[Event]) {
        for (seq, event) in (first..).zip(events) {
            match event {
                Event::Step(record) => self.step_event(state, seq, record),
                Event::PlanActivated(change) if change.version > 1 => {
                    *self.seen.entry("replanned").or_default() += 1;
                }
                Event::Barrier(_) => *self.seen.entry("barrier").or_default() += 1,
                Event::RunEnded(end) if end.ending == Ending::Done => {
                    *self.seen.entry("done").or_default() += 1;
                }
                _ => {}
            }
        }
        for run in state.runs.values() {
            let ids = self.ids.entry(run.id).or_default();
            let now: Vec<String> = run.steps.iter().map(|step| step.id.clone()).collect();
            assert!(now.starts_with(ids), "a step number is fixed and never reused");
            *ids = now;
        }
    }
}

fn check_caps(state: &State, run: &Run, number: StepNumber) {
    let holds = |scope: CapScope, used: usize| {
        let limit = state.caps.get(&scope).map_or(u32::MAX, |limit| *limit);
        assert!(used <= usize::try_from(limit).unwrap(), "cap of {scope}");
    };
    let caps = &run.plan().unwrap().caps;
    let used = |run: &Run, owner: Option<&str>| {
        let is_his =
            |step: &&StepState| owner.is_none_or(|owner| step.owner.as_deref() == Some(owner));
        let flying = run.steps.iter().filter(|step| step.status == StepStatus::Dispatched);
        flying.filter(is_his).count()
    };
    holds(CapScope::Ledger, state.runs.values().map(|run| used(run, None)).sum());
    holds(CapScope::Run(run.id), used(run, None));
    assert!(used(run, None) <= usize::try_from(caps.run.unwrap_or(u32::MAX)).unwrap());
    if let Some(owner) = run.step(number).unwrap().owner.as_deref() {
        let all = state.runs.values().map(|run| used(run, Some(owner))).sum();
        holds(CapScope::Owner(owner.to_owned()), all);
        let limit = caps.owners.get(owner).copied().unwrap_or(u32::MAX);
        assert!(used(run, Some(owner)) <= usize::try_from(limit).unwrap());
    }
}

fn play(seed: u64, watch: &mut Watch) {
    let mut dice = Dice(seed);
    let mut world = World::new();
    let mut prefixes = BTreeMap::new();
    for _ in 0..COMMANDS {
        world.now += u64::from(dice.below(3)) * SECOND;
        let command = command(&mut dice, &world);
        let before = dice.one_in(16).then(|| format!("{:?}", world.state));
        let first = world.state.seq + 1;
        if let Ok(events) = world.ask(command) {
            assert!(events.len() < 200, "settling ends soon");
            watch.after(&world.state, first, &events);
        } else {
            let after = before.as_ref().map(|_| format!("{:?}", world.state));
            assert_eq!(before, after, "a refusal changes nothing");
        }
        books::check(&world.state);
        if dice.one_in(20) {
            prefixes.insert(world.state.seq, format!("{:?}", world.state));
        }
    }
    prefixes.insert(world.state.seq, format!("{:?}", world.state));
    let mut replayed = State::default();
    for (seq, time, event) in &world.log {
        replayed.apply(*seq, *time, event);
        if let Some(live) = prefixes.get(seq) {
            assert_eq!(&format!("{replayed:?}"), live, "at record {seq}");
        }
    }
    fold_in_disorder(&mut dice, &world.log);
}

/// No order of events, however absurd, makes the fold or what stands on it panic.
fn fold_in_disorder(dice: &mut Dice, log: &[(u64, Micros, Event)]) {
    let mut state = State::default();
    for _ in 0..log.len() {
        let (seq, time, event) = dice.pick(log);
        state.apply(seq, time, &event);
    }
    for (seq, time, event) in log {
        if !dice.one_in(10) {
            state.apply(*seq, *time, event);
        }
    }
    let seq = state.seq + 1;
    let _ = execute(&mut state, seq, u64::MAX, &Command::Tick);
    for run in state.runs.keys() {
        let _ = settle(&state, *run);
    }
}

#[test]
fn random_commands_keep_the_books_balanced() {
    let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
    for seed in 0..WORLDS {
        let mut watch = Watch::default();
        let played = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            play(seed, &mut watch);
        }));
        assert!(played.is_ok(), "seed {seed}");
        for (what, count) in watch.seen {
            *seen.entry(what).or_default() += count;
        }
    }
    // The dice must reach what they are to test.
    for (what, least) in [
        ("dispatched", 3_000),
        ("accepted", 1_500),
        ("refused", 500),
        ("barrier", 500),
        ("done", 150),
        ("replanned", 500),
    ] {
        assert!(seen.get(what).is_some_and(|count| *count >= least), "{what}: {seen:?}");
    }
}

#[test]
fn the_size_of_a_plan_does_not_slow_a_step_down() {
    let count = 100_000;
    let members: Vec<String> = (0..count).map(|n| format!("s{n}")).collect();
    let mut steps: Vec<Step> = members.iter().map(|id| step(id, &[])).collect();
    steps.push(step("end", &["all"]));
    let members: Vec<&str> = members.iter().map(String::as_str).collect();
    let all = barrier("all", &members, BarrierNeeds::All);
    let large = Plan { barriers: vec![all], ..plan(steps) };
    let mut world = World::with(&large, trust());
    for _ in 0..=count {
        let events = world.ask(dispatch(None)).unwrap();
        assert_eq!(events.len(), 1);
        let token = AttemptToken(world.state.seq);
        world.report(token, Receipt::default());
    }
    assert_eq!(world.run().status, RunStatus::Ended(Ending::Done));
}
