//! The state at any record is the same from the start, from a snapshot, and live.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plan_ledger::internals::format::SnapshotName;
use plan_ledger::internals::ledger::Kind;
use plan_ledger::internals::sim::SimDisk;
use plan_ledger::internals::storage::Storage;
use plan_ledger::log::LogReader;
use plan_ledger::plan::*;
use plan_ledger::{BackgroundWork, Clock, Environment, ErrorKind, Ledger, LedgerView, state_hash};

use crate::golden::deterministic;
use crate::lab::{dir, mix};

/// A clock that advances a tenth of a second per call, so that leases expire.
#[derive(Debug)]
struct FastClock(AtomicU64);

impl Clock for FastClock {
    fn now(&self) -> u64 {
        self.0.fetch_add(100_000, Ordering::Relaxed)
    }
}

pub(crate) fn environment(disk: &SimDisk, every: u64) -> Environment {
    Environment {
        storage: Arc::new(disk.clone()),
        clock: Arc::new(FastClock(AtomicU64::new(1_700_000_000_000_000))),
        snapshot_every: Some(every),
        ..deterministic()
    }
}

/// Numbers that depend only on the seed.
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn below(&mut self, sides: usize) -> usize {
        self.0 += 1;
        usize::try_from(mix(self.0) % u64::try_from(sides.max(1)).unwrap()).unwrap()
    }

    pub(crate) fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }

    fn plan(&mut self) -> Plan {
        let count = 2 + self.below(3);
        let ids: Vec<String> = (0..count).map(|number| format!("s{number}")).collect();
        let barrier = Barrier {
            id: "gate".to_owned(),
            members: ids.iter().take(1 + self.below(2)).cloned().collect(),
            needs: self.pick(&[BarrierNeeds::All, BarrierNeeds::Any, BarrierNeeds::AtLeast(1)]),
            on_break: self.pick(&[OnBreak::Fail, OnBreak::Wait]),
            ..Barrier::default()
        };
        let steps = (0..count).map(|place| self.step(&ids, place)).collect();
        let mut plan = Plan { title: format!("t{}", self.below(999)), steps, ..Plan::default() };
        plan.barriers = vec![barrier];
        plan.caps.owners.insert("x".to_owned(), 1);
        plan
    }

    fn step(&mut self, ids: &[String], place: usize) -> Step {
        let after = match self.below(4) {
            0 if place > 0 => vec![ids[self.below(place)].clone()],
            1 if place > 1 => vec!["gate".to_owned()],
            _ => Vec::new(),
        };
        let criteria = [vec![], vec![], vec![Criterion::Text("good".to_owned())]];
        Step {
            id: ids[place].clone(),
            goal: format!("goal {}", self.below(3)),
            owner: self.pick(&[None, Some("x".to_owned()), Some("y".to_owned())]),
            priority: self.pick(&[0, 0, 1, -7]),
            after,
            acceptance: self.pick(&criteria),
            outputs: self.pick(&[vec![], vec!["v".to_owned()]]),
            idempotent: self.pick(&[None, Some(Idempotence::No)]),
            lease_seconds: self.pick(&[None, Some(2)]),
            retry: Some(Box::new(RetryPolicy { max_attempts: 60, ..RetryPolicy::default() })),
            ..Step::default()
        }
    }

    /// Mostly failures: the state stays small while the history grows.
    fn receipt(&mut self) -> Receipt {
        let class = match self.below(30) {
            0 => FailureClass::Deterministic,
            _ => FailureClass::Transient,
        };
        let outcome = match self.below(12) {
            0..11 => Outcome::Failed { class, message: "503".to_owned(), payload: Json::default() },
            _ => Outcome::Succeeded,
        };
        let output = Json::new(&serde_json::json!({ "n": self.below(100) }));
        Receipt { outcome, output: Output::Inline(output), ..Receipt::default() }
    }

    /// Execute something that may or may not be allowed.
    fn act(&mut self, ledger: &Ledger) {
        let state = ledger.state().unwrap();
        let open = |run: &&Run| !matches!(run.status, RunStatus::Ended(_));
        let runs: Vec<RunId> = state.runs.values().filter(open).map(|run| run.id).collect();
        if runs.is_empty() || (runs.len() < 4 && self.below(400) == 0) {
            let policy = RunPolicy {
                approval: self.pick(&[ApprovalPolicy::Automatic, ApprovalPolicy::Required]),
                text: self.pick(&[TextPolicy::Judge, TextPolicy::Trust]),
                on_failure: OnFailure::Continue,
            };
            let name = format!("run {}", state.runs.len());
            ledger.start_run(&name, &self.plan(), policy).unwrap();
            return;
        }
        let run = &state.runs[&self.pick(&runs)];
        let (run, command) = (run.id, self.command(&state, run));
        // Keeping a state makes the ledger clone it.
        drop(state);
        ignore_rejection(match command {
            Some(command) => ledger.execute(&command).map(drop),
            None => ledger.propose(run, &self.plan(), "better").map(drop),
        });
    }

    /// A command; `None` for a new plan.
    fn command(&mut self, state: &State, run: &Run) -> Option<Command> {
        let by = "ann".to_owned();
        let step = StepNumber(u32::try_from(1 + self.below(run.steps.len())).unwrap());
        let flying: Vec<AttemptToken> = state.in_flight.keys().copied().collect();
        let token = flying.get(self.below(flying.len())).copied().unwrap_or(AttemptToken(1));
        let reported = run.reported.first().and_then(|number| run.step(*number));
        let verdicts =
            vec![Verdict { criterion: 0, ruling: Ruling::Pass, by: by.clone(), ..verdict() }];
        if let Some(version) = run.versions.last().filter(|each| each.review.is_none())
            && run.status == RunStatus::Proposed
        {
            return Some(Command::ReviewPlan {
                run: run.id,
                version: u32::try_from(run.versions.len()).unwrap(),
                hash: version.hash,
                review: self.pick(&[Review::Approved, Review::Approved, Review::Rejected]),
                by,
                note: String::new(),
            })
            .filter(|_| self.below(8) > 0);
        }
        if let Some(attempt) = reported.and_then(|step| step.attempt())
            && self.below(2) == 0
        {
            return Some(Command::Judge { token: attempt.token, verdicts });
        }
        if let Some(step) = run.outcome_unknown.first().copied() {
            let finding = self.pick(&[ResolvedOutcome::Landed, ResolvedOutcome::DidNotHappen]);
            return Some(Command::ResolveOutcome {
                run: run.id,
                step,
                finding,
                by,
                evidence: String::new(),
            });
        }
        let run = run.id;
        Some(match self.below(100) {
            0..7 => Command::Dispatch {
                process: None,
                secret: SecretHash::default(),
                run,
                step: None,
                worker: "w".to_owned(),
                route: Route::default(),
                lease: None,
            },
            7..14 => {
                Command::RecordReceipt { proof: Proof::LockHolder, token, receipt: self.receipt() }
            }
            14..40 => Command::Renew { proof: Proof::LockHolder, token, lease: None },
            40..84 => {
                let value = Json::new(&serde_json::json!(self.below(9)));
                let name = self.pick(&["v".to_owned(), "w".to_owned()]);
                let origin = Origin::person(by);
                Command::SetVariable { run, name, value, expected_version: None, origin }
            }
            84 => {
                let (cause, detail) = (LostCause::RunnerDied, "gone".to_owned());
                Command::ReportLost { proof: Proof::LockHolder, token, cause, detail }
            }
            85 if self.below(10) == 0 => Command::Skip { run, step, by, reason: "no".to_owned() },
            86..88 => Command::RetryFailed { run, by },
            88..92 => {
                let limit = self.pick(&[None, Some(1), Some(3)]);
                Command::SetCap { scope: CapScope::Run { run }, limit, by }
            }
            92 if self.below(80) == 0 => {
                Command::CancelRun { run, by, reason: "enough".to_owned() }
            }
            93 if self.below(6) == 0 => return None,
            _ => Command::Tick,
        })
    }
}

fn verdict() -> Verdict {
    let (by, evidence) = (String::new(), String::new());
    Verdict { criterion: 0, ruling: Ruling::Pass, by, evidence: evidence.into() }
}

pub(crate) fn ignore_rejection(result: Result<(), plan_ledger::Error>) {
    if let Err(error) = result {
        assert!(matches!(error.kind(), ErrorKind::Rejected | ErrorKind::BadPlan), "{error}");
    }
}

/// Play until the log has this many records; returns the hash of the live state after every
/// command.
pub(crate) fn play(ledger: &Ledger, seed: u64, records: u64) -> BTreeMap<u64, ContentHash> {
    let mut rng = Rng(seed << 32);
    let mut live = BTreeMap::new();
    while ledger.head().seq < records {
        rng.act(ledger);
        let state = ledger.state().unwrap();
        live.entry(state.seq).or_insert_with(|| state_hash(&state));
    }
    live
}

/// The records of the state's snapshots.
pub(crate) fn snapshot_seqs(disk: &SimDisk) -> Vec<u64> {
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let list = LogReader::open(&storage, &dir()).unwrap().snapshots().unwrap();
    assert!(list.unknown.is_empty() && list.temporary.is_empty(), "{list:?}");
    list.names.iter().map(|name| name.seq).collect()
}

/// The name of the state's snapshot at a record.
fn name_of(disk: &SimDisk, seq: u64) -> SnapshotName {
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let list = LogReader::open(&storage, &dir()).unwrap().snapshots().unwrap();
    list.names.into_iter().find(|name| name.seq == seq).unwrap()
}

/// Goal: the live state, a fold from the start, and a fold from a snapshot are equal at every
/// record.
/// Method: a random history of 20,000 records with a snapshot every 500. One fold from the
/// start with a hash at every record; then from each snapshot to the next with a hash at every
/// record, and from each to the very end.
#[test]
fn state_is_the_same_from_any_origin_at_every_record() {
    const RECORDS: u64 = 20_000;
    const EVERY: u64 = 500;
    let disk = SimDisk::new();
    let environment = environment(&disk, EVERY);
    let ledger = Ledger::create(&dir(), &environment).unwrap();
    let live = play(&ledger, 1, RECORDS);
    assert_eq!(ledger.warnings(), Vec::<String>::new());
    let kinds = kinds_of(&ledger);
    assert!(kinds.len() > 18, "the history is too plain: {kinds:?}");
    expect_same_from_any_origin(&disk, &environment, ledger, &live);
}

/// What a runner and a person do besides, once for each open run.
fn set_failures_and_report_helper(ledger: &Ledger, live: &mut BTreeMap<u64, ContentHash>) {
    let (by, cost) = ("me".to_owned(), Cost { money_micros: 2, tokens: 1 });
    for run in ledger.state().unwrap().runs.open().collect::<Vec<_>>() {
        let (by, settings) = (by.clone(), FailureSettings::default());
        let settings = FailureSettings { on_unknown: OnUnknown::Retry, ..settings };
        let set = Command::SetFailureSettings { run, settings, by: by.clone() };
        let report = Command::ReportHelper { run, role: HelperRole::Judge, by, cost, duration: 5 };
        for command in [set, report] {
            ignore_rejection(ledger.execute(&command).map(drop));
            live.insert(ledger.head().seq, state_hash(&ledger.state().unwrap()));
        }
    }
}

/// Goal: the same for everything that can happen to runs: every kind of event, in any order.
/// Method: random commands of all kinds and a snapshot every 100 records; three histories, and
/// more until every kind of event has occurred.
#[test]
fn state_is_the_same_from_any_origin_for_every_event() {
    let is_of_runs = |kind: &&Kind| kind.number() < OF_LOG;
    let mut missing: BTreeSet<Kind> = Kind::ALL.iter().filter(is_of_runs).copied().collect();
    for seed in 1..=12 {
        let disk = SimDisk::new();
        let environment = environment(&disk, 100);
        let ledger = Ledger::create(&dir(), &environment).unwrap();
        let mut live = crate::random_commands::play(&ledger, seed, 1_500);
        set_failures_and_report_helper(&ledger, &mut live);
        for kind in kinds_of(&ledger) {
            missing.remove(&kind);
        }
        expect_same_from_any_origin(&disk, &environment, ledger, &live);
        if seed >= 3 && missing.is_empty() {
            return;
        }
    }
    panic!("nothing of these ever happened: {missing:?}");
}

/// Kinds from this number on are notes.
const OF_LOG: u16 = 0x8000;

/// The kinds of events in a ledger.
fn kinds_of(ledger: &Ledger) -> BTreeSet<Kind> {
    let events = ledger.replay(1).unwrap();
    events.iter().filter_map(|each| each.event.as_ref().map(Kind::of)).collect()
}

/// A run that is folded without the others is the same, except for the effects of the ledger's
/// caps.
fn runs_by_themselves(view: &LedgerView, seq: u64) {
    let state = view.state_at(seq).unwrap();
    let what = |run: &Run| {
        let said = (&run.steps, &run.variables, &run.barriers, &run.questions, &run.timers);
        let counted = (&run.lanes, &run.counts, run.in_flight, &run.account, run.status);
        format!("{said:?} {counted:?} {:?}", run.active_version())
    };
    for (id, run) in state.runs.iter() {
        let alone = view.state_of_run(*id, seq).unwrap().unwrap();
        assert!(alone.runs.len() == 1 && what(&alone.runs[id]) == what(run), "{id} at {seq}");
    }
}

/// At every record the live state, a fold from the start, and a fold from each snapshot are
/// equal.
fn expect_same_from_any_origin(
    disk: &SimDisk,
    environment: &Environment,
    ledger: Ledger,
    live: &BTreeMap<u64, ContentHash>,
) {
    let every = environment.snapshot_every.unwrap();
    let last = ledger.head().seq;
    let events = ledger.replay(1).unwrap();
    let mut state = State::default();
    let mut from_start = BTreeMap::new();
    for recorded in &events {
        fold(&mut state, recorded);
        from_start.insert(recorded.seq, state_hash(&state));
    }
    assert_eq!(u64::try_from(from_start.len()).unwrap(), last, "a gap");
    for (seq, hash) in live {
        assert_eq!(from_start[seq], *hash, "live at {seq}");
    }

    let view = LedgerView::open(&dir(), environment).unwrap();
    let made = snapshot_seqs(disk);
    assert_eq!(made, (1..=last / every).map(|seq| seq * every).collect::<Vec<_>>());
    for seq in made {
        // Exactly at a snapshot nothing is folded: this is the content of the file.
        view.check_snapshot(&name_of(disk, seq)).unwrap();
        let mut state = view.state_at(seq).unwrap();
        assert_eq!(from_start[&seq], state_hash(&state), "the snapshot at {seq}");
        for recorded in &events[usize::try_from(seq).unwrap()..] {
            fold(&mut state, recorded);
            if recorded.seq <= seq + every || recorded.seq == last {
                let hash = state_hash(&state);
                assert_eq!(from_start[&recorded.seq], hash, "{} from {seq}", recorded.seq);
            }
        }
    }
    // And through the public interface.
    for seq in [0, 1, every - 1, every + 1, 7 * every + 3, last - 1, last] {
        let hash = state_hash(&ledger.state_at(seq).unwrap());
        assert_eq!(from_start.get(&seq).copied().unwrap_or(state_hash(&State::default())), hash);
    }
    assert_eq!(ledger.state_at(last + 1).unwrap_err().kind(), ErrorKind::OutOfRange);
    for seq in (1..=last).step_by(usize::try_from(last / 20).unwrap()) {
        runs_by_themselves(&view, seq);
    }
    ledger.close().unwrap();
    let (ledger, report) = Ledger::open_with(&dir(), environment).unwrap();
    assert_eq!(report.notes, Vec::<String>::new());
    assert_eq!(report.from_snapshot, Some(last / every * every));
    assert_eq!((report.notes, ledger.state_hash().unwrap()), (Vec::new(), from_start[&last]));
}

fn fold(state: &mut State, recorded: &plan_ledger::RecordedEvent) {
    plan_ledger::Projection::apply(state, recorded);
}

/// Goal: a state from a snapshot continues like the live one: it also has what is derived and
/// not hashed.
/// Method: at every snapshot, both decide the rest of the commands again.
#[test]
fn ledger_opened_from_a_snapshot_decides_the_same() {
    let disk = SimDisk::new();
    let ledger = Ledger::create(&dir(), &environment(&disk, 50)).unwrap();
    play(&ledger, 2, 400);
    ledger.close().unwrap();
    let mut outcomes = Vec::new();
    for keep in [true, false] {
        let disk = disk.fork();
        if !keep {
            for path in disk.files(&dir().join("snap")) {
                disk.remove(&path).unwrap();
            }
        }
        // No snapshot is made from here on: the two differ only in the origin of their state.
        let environment = Environment { snapshot_every: None, ..environment(&disk, 50) };
        let (ledger, report) = Ledger::open_with(&dir(), &environment).unwrap();
        assert_eq!(report.from_snapshot, keep.then_some(400));
        play(&ledger, 3, 900);
        let names: Vec<_> =
            ledger.state().unwrap().runs.values().map(|run| run.step_named("s1")).collect();
        outcomes.push((ledger.head(), ledger.state_hash().unwrap(), names));
    }
    assert_eq!(outcomes[0], outcomes[1]);
}

/// Goal: the snapshot thread makes the same snapshots, and each has its note when the ledger is
/// closed.
#[test]
fn snapshot_thread_makes_the_snapshots() {
    let disk = SimDisk::new();
    let environment =
        Environment { background_work: BackgroundWork::Thread, ..environment(&disk, 200) };
    let ledger = Ledger::create(&dir(), &environment).unwrap();
    play(&ledger, 4, 1100);
    ledger.close().unwrap();
    assert_eq!(snapshot_seqs(&disk), [200, 400, 600, 800, 1000]);
    let reader = crate::lab::reader(&disk);
    let notes = reader.records(1).filter_map(|record| {
        plan_ledger::log::SnapshotNote::from_record(&record.unwrap()).map(|note| note.seq)
    });
    assert_eq!(notes.collect::<Vec<_>>(), [200, 400, 600, 800, 1000]);
    let (ledger, report) = Ledger::open_with(&dir(), &environment).unwrap();
    assert_eq!((report.from_snapshot, report.notes), (Some(1000), Vec::new()));
    assert_eq!(ledger.warnings(), Vec::<String>::new());
}
