//! Models of the protocol, whose traces are replayed against the real code: commit, fence and the window of
//! keys with two writers; and claims.
//!
//! A model is a small state machine that knows only what the specification says. From each state that was
//! reached, each action is tried: its trace is replayed from the start on a simulated disk, and what the real
//! code answers, and what is in the log then, must be among what the model allows. Where the specification
//! leaves the outcome open, as after a crash during a commit, the model allows several, and the search goes on
//! from the one that happened. A model with a wrong rule must be refuted, so the comparison can fail.

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Debug;

use plan_ledger::internals::sim::{Loss, SimDisk, sweep};
use plan_ledger::internals::storage::Storage as _;
use plan_ledger::log::{
    Batch, BatchKey, Durability, KIND_BATCH_KEY, Log, LogItem, LogOptions, RecordStatus,
    SegmentSizes,
};
use plan_ledger::plan::{LostCause, StepStatus};
use plan_ledger::{Ack, Error, ErrorKind, Rejection, Task};
use serde_json::json;

use super::lab::{at, dir, options, reader, record};
use super::scenario::{Scenario, receipt};

/// A state machine, and how to replay a trace of it.
trait Model: Sized + Ord + Clone + Debug {
    type Action: Copy + Debug;

    fn actions(&self) -> Vec<Self::Action>;

    /// What may be observed after an action, and the state that follows.
    fn next(&self, action: Self::Action) -> Vec<(String, Self)>;

    /// What is observed after each action of a trace.
    fn replay(trace: &[Self::Action]) -> Vec<String>;
}

/// How much was explored.
#[derive(Debug)]
struct Explored {
    states: usize,
    traces: usize,
}

/// Replay a trace to each state within `depth` actions of the start, followed by each action.
fn explore<M: Model>(start: &M, depth: usize) -> Result<Explored, String> {
    let mut seen = BTreeSet::from([start.clone()]);
    let mut open = VecDeque::from([(start.clone(), Vec::new())]);
    let mut traces = 0;
    while let Some((state, trace)) = open.pop_front() {
        for action in state.actions() {
            let trace: Vec<_> = trace.iter().copied().chain([action]).collect();
            let observed = M::replay(&trace).pop().unwrap_or_default();
            traces += 1;
            let allowed = state.next(action);
            let Some((_, next)) = allowed.iter().find(|(allowed, _)| *allowed == observed) else {
                let allowed: Vec<_> = allowed.iter().map(|(allowed, _)| allowed).collect();
                return Err(format!("{trace:?}: observed {observed}, allowed {allowed:?}"));
            };
            if trace.len() < depth && seen.insert(next.clone()) {
                open.push_back((next.clone(), trace));
            }
        }
    }
    Ok(Explored { states: seen.len(), traces })
}

/// A batch: its key, and the request that the key names.
type Request = (u8, u8);

const REQUESTS: [Request; 3] = [(1, 1), (1, 2), (2, 1)];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    /// A writer opens the log; an earlier handle of it is dropped.
    Open(usize),
    /// A writer appends a batch and waits.
    Append(usize, Request),
    /// A writer writes a batch into the file and does not wait.
    Write(usize, Request),
    /// The machine stops before the n-th call of an append, and the first writer opens the log. Whether
    /// the disk keeps what was not synced.
    Crash(Request, u64, bool),
    /// The processes are killed, and the first writer opens the log.
    Kill,
    /// The power fails, the disk keeps nothing that was not synced, and the first writer opens the log.
    PowerLoss,
    /// Another program removes LOCK.
    RemoveLock,
}

/// A wrong rule, to see that the comparison finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum WrongRule {
    /// A key stands for any request.
    KeyNamesNothing,
    /// A power loss takes nothing that was only written.
    WritesAreDurable,
    /// A writer that lost the lock continues.
    TakeoverIgnored,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Writer {
    Closed,
    Open,
    /// It has noticed that it lost the right to write.
    Fenced,
}

/// Two writers on one log.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Commits {
    /// The batches in the file.
    log: Vec<Request>,
    /// How many of them are known to be durable.
    durable: usize,
    writers: [Writer; 2],
    /// How much of the log each writer knows.
    known: [usize; 2],
    /// The writer that has the lock.
    holder: Option<usize>,
    wrong: Option<WrongRule>,
}

impl Commits {
    fn new(wrong: Option<WrongRule>) -> Self {
        let writers = [Writer::Open, Writer::Closed];
        Self { log: Vec::new(), durable: 0, writers, known: [0; 2], holder: Some(0), wrong }
    }

    fn observed(&self, answer: &str) -> String {
        let (durable, others) = self.log.split_at(self.durable);
        format!("{answer}, durable {durable:?}, written {others:?}")
    }

    fn told(self, answer: &str) -> (String, Self) {
        (self.observed(answer), self)
    }

    /// A restart: everything in the file becomes durable when the first writer opens it.
    fn restarted(mut self, keeps: usize) -> Self {
        self.log.truncate(keeps);
        self.durable = self.log.len();
        self.known = [self.log.len(), 0];
        Self { writers: [Writer::Open, Writer::Closed], holder: Some(0), ..self }
    }

    fn submit(&self, writer: usize, request: Request, waits: bool) -> (String, Self) {
        let mut next = self.clone();
        if self.writers[writer] == Writer::Fenced {
            return next.told("fenced");
        }
        let known = &self.log[..self.known[writer]];
        let is_owner =
            self.holder == Some(writer) || self.wrong == Some(WrongRule::TakeoverIgnored);
        let found = known.iter().position(|(key, _)| *key == request.0);
        if let Some(found) = found {
            let is_same = known[found] == request || self.wrong == Some(WrongRule::KeyNamesNothing);
            if !is_same {
                return next.told("key reused");
            }
            if waits && found >= self.durable {
                next.durable = next.log.len();
            }
            return next.told(&format!("done {found}"));
        }
        if !is_owner {
            next.writers[writer] = Writer::Fenced;
            return next.told("fenced");
        }
        next.log.push(request);
        next.known[writer] = next.log.len();
        if waits {
            next.durable = next.log.len();
        }
        let answer = format!("done {}", next.log.len() - 1);
        next.told(&answer)
    }
}

impl Model for Commits {
    type Action = Step;

    fn actions(&self) -> Vec<Step> {
        let mut actions = vec![Step::Kill, Step::PowerLoss];
        for writer in [0, 1] {
            if self.writers[writer] == Writer::Closed || self.holder != Some(writer) {
                actions.push(Step::Open(writer));
            }
            if self.writers[writer] != Writer::Closed {
                actions.extend(REQUESTS.map(|request| Step::Append(writer, request)));
                // What a writer wrote and then lost the lock is unknown to it: a model of its own.
                if self.holder == Some(writer) {
                    actions.extend(REQUESTS.map(|request| Step::Write(writer, request)));
                }
            }
        }
        if self.holder.is_some() && self.durable == self.log.len() {
            actions.push(Step::RemoveLock);
        }
        if self.holder == Some(0) {
            for call in 1..=9 {
                for keeps in [false, true] {
                    actions.push(Step::Crash((1, 1), call, keeps));
                    actions.push(Step::Crash((2, 1), call, keeps));
                }
            }
        }
        actions
    }

    fn next(&self, action: Step) -> Vec<(String, Self)> {
        let next = self.clone();
        match action {
            Step::Append(writer, request) => vec![self.submit(writer, request, true)],
            Step::Write(writer, request) => vec![self.submit(writer, request, false)],
            Step::RemoveLock => vec![Self { holder: None, ..next }.told("removed")],
            Step::Kill => {
                let all = self.log.len();
                vec![next.restarted(all).told("opened")]
            }
            Step::PowerLoss => {
                let keeps = match self.wrong {
                    Some(WrongRule::WritesAreDurable) => self.log.len(),
                    _ => self.durable,
                };
                vec![next.restarted(keeps).told("opened")]
            }
            Step::Open(writer) if self.holder.is_some_and(|holder| holder != writer) => {
                // Its own handle, if it has one, is dropped first.
                let mut next = next;
                next.writers[writer] = Writer::Closed;
                vec![next.told("locked")]
            }
            Step::Open(writer) => {
                let mut next = next;
                next.durable = next.log.len();
                next.writers[writer] = Writer::Open;
                next.known[writer] = next.log.len();
                next.holder = Some(writer);
                vec![next.told("opened")]
            }
            Step::Crash(request, _, keeps) => {
                // The crash may be before, in or after the commit, and the append may fail before it.
                let (_, done) = self.submit(0, request, true);
                let kept = if keeps { self.log.len() } else { self.durable };
                let all = done.log.len();
                let without = next.restarted(kept);
                vec![without.told("opened"), done.restarted(all).told("opened")]
            }
        }
    }

    fn replay(trace: &[Step]) -> Vec<String> {
        let mut replay = CommitReplay::new();
        trace.iter().map(|action| replay.act(*action)).collect()
    }
}

/// The real log.
struct CommitReplay {
    disk: SimDisk,
    handles: [Option<Log>; 2],
}

impl CommitReplay {
    fn new() -> Self {
        let disk = SimDisk::new();
        let log = Log::create(&dir(), Self::options(&disk), at(0)).unwrap();
        Self { disk, handles: [Some(log), None] }
    }

    fn options(disk: &SimDisk) -> LogOptions {
        // Small files, so that a replay takes little time.
        let segments = SegmentSizes { first: 16 << 10, largest: 16 << 10 };
        LogOptions { segments, ..options(disk) }
    }

    fn batch((key, request): Request) -> Batch {
        let key = BatchKey::new(&[key]).unwrap().for_request(&[request]);
        Batch { key: Some(key), ..Batch::new(vec![record(u64::from(request), 40)], at(1)) }
    }

    fn submit(&self, writer: usize, request: Request, waits: bool) -> Result<Ack, Error> {
        let log = self.handles[writer].as_ref().unwrap();
        let durability = if waits { Durability::Sync } else { Durability::Buffered };
        let ticket = log.submit(&Batch { durability, ..Self::batch(request) })?;
        let first = ticket.first_seq();
        let ack = if waits { log.wait(ticket)? } else { log.last_submitted() };
        Ok(Ack { seq: first, ..ack })
    }

    fn act(&mut self, action: Step) -> String {
        let answer = match action {
            Step::Append(writer, request) => self.answer(self.submit(writer, request, true)),
            Step::Write(writer, request) => self.answer(self.submit(writer, request, false)),
            Step::RemoveLock => {
                self.disk.remove(&dir().join("LOCK")).unwrap();
                "removed".to_owned()
            }
            Step::Open(writer) => self.open(writer),
            Step::Kill => {
                self.disk.kill_process();
                self.restart()
            }
            Step::PowerLoss => {
                self.disk.kill_process();
                self.disk.lose_power(Loss::Everything);
                self.restart()
            }
            Step::Crash(request, call, keeps) => {
                self.disk.crash_at(self.disk.calls() + call);
                // An error, or an answer before the machine stopped.
                let _ = self.submit(0, request, true);
                self.disk.crash_at(u64::MAX);
                self.disk.lose_power(if keeps { Loss::Nothing } else { Loss::Everything });
                self.restart()
            }
        };
        let (durable, written) = self.content();
        format!("{answer}, durable {durable:?}, written {written:?}")
    }

    fn answer(&self, result: Result<Ack, Error>) -> String {
        match result {
            Ok(ack) => {
                let place = self.keys().iter().position(|(seq, ..)| *seq == ack.seq);
                place.map_or("done, and not in the log".to_owned(), |at| format!("done {at}"))
            }
            Err(error) => match error.kind() {
                ErrorKind::Fenced => "fenced".to_owned(),
                ErrorKind::KeyReused => "key reused".to_owned(),
                _ => error.to_string(),
            },
        }
    }

    fn open(&mut self, writer: usize) -> String {
        self.handles[writer] = None;
        match Log::open(&dir(), Self::options(&self.disk), at(2)) {
            Ok((log, _)) => {
                self.handles[writer] = Some(log);
                "opened".to_owned()
            }
            Err(error) if error.kind() == ErrorKind::Locked => "locked".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    /// The handles of processes that are gone.
    fn restart(&mut self) -> String {
        self.handles = [None, None];
        self.open(0)
    }

    /// The keys in the log, with their records and requests.
    fn keys(&self) -> Vec<(u64, u8, [u8; 32], RecordStatus)> {
        let items = reader(&self.disk).walk(1).map(Result::unwrap).collect::<Vec<_>>();
        let keys = items.into_iter().filter_map(|item| match item {
            LogItem::Record(record, status) if record.kind == KIND_BATCH_KEY => {
                let key = BatchKey::from_payload(&record.payload).unwrap();
                Some((record.seq, key.as_bytes()[0], *key.request(), status))
            }
            _ => None,
        });
        keys.collect()
    }

    fn content(&self) -> (Vec<Request>, Vec<Request>) {
        let request_of = |key: u8, hash: &[u8; 32]| {
            let is = |request: &u8| {
                BatchKey::new(&[key]).unwrap().for_request(&[*request]).request() == hash
            };
            (key, (1..=2).find(is).unwrap())
        };
        let (mut durable, mut written) = (Vec::new(), Vec::new());
        for (_, key, hash, status) in self.keys() {
            let list =
                if status == RecordStatus::Unacknowledged { &mut written } else { &mut durable };
            list.push(request_of(key, &hash));
        }
        (durable, written)
    }
}

/// Every order of commits, written batches, repeated and reused keys, crashes at each call of a commit, power
/// losses, takeovers and fenced writers, within a number of actions.
#[test]
fn sweep_commits_fences_and_keys_are_those_of_the_model() {
    let explored = explore(&Commits::new(None), sweep(3, 4, 7)).unwrap();
    assert!(explored.states > 20, "{explored:?}");
    println!("measured: models: {} traces of commits, fences and keys", explored.traces);
    println!("measured: models: {} states of commits, fences and keys", explored.states);
    for wrong in
        [WrongRule::KeyNamesNothing, WrongRule::WritesAreDurable, WrongRule::TakeoverIgnored]
    {
        let refuted = explore(&Commits::new(Some(wrong)), 4);
        assert!(refuted.is_err(), "{wrong:?} was not refuted: {refuted:?}");
    }
}

/// The seconds of a lease, and of a wait.
const LEASE: u32 = 60;
const WAIT: u32 = 30;
/// Attempts of the step.
const ATTEMPTS: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Act {
    Claim(&'static str),
    /// The attempt with that number reports an output.
    Report(usize, u8),
    Renew(usize),
    Release(usize),
    Wait,
    PowerLoss,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum WrongClaim {
    /// A claim ends a second later.
    LeaseIsLonger,
    /// A second, different receipt replaces the first.
    ReceiptReplaced,
}

/// One step, and the claims of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Claims {
    attempts: usize,
    /// The attempt that holds the step: its worker, and the seconds that its lease has left.
    held: Option<(&'static str, u32)>,
    /// The attempt that reported, and its output.
    done: Option<(usize, u8)>,
    wrong: Option<WrongClaim>,
}

impl Claims {
    fn new(wrong: Option<WrongClaim>) -> Self {
        Self { attempts: 0, held: None, done: None, wrong }
    }

    /// Whether an attempt holds the step.
    fn holds(&self, attempt: usize) -> bool {
        self.held.is_some() && attempt + 1 == self.attempts
    }
}

impl Model for Claims {
    type Action = Act;

    fn actions(&self) -> Vec<Act> {
        let mut actions = vec![Act::Wait, Act::PowerLoss];
        if self.attempts < ATTEMPTS || self.held.is_some() || self.done.is_some() {
            actions.extend([Act::Claim("ana"), Act::Claim("bob")]);
        }
        for attempt in 0..self.attempts {
            actions.extend([Act::Report(attempt, 1), Act::Report(attempt, 2)]);
            actions.extend([Act::Renew(attempt), Act::Release(attempt)]);
        }
        actions
    }

    fn next(&self, action: Act) -> Vec<(String, Self)> {
        let mut next = self.clone();
        let answer = match action {
            Act::Claim(_) if self.done.is_some() => "nothing to claim".to_owned(),
            Act::Claim(worker) => match self.held {
                Some((holder, left)) => format!("held by {holder} for {left}"),
                None => {
                    (next.attempts, next.held) = (self.attempts + 1, Some((worker, LEASE)));
                    format!("attempt {}", self.attempts)
                }
            },
            Act::Report(attempt, output) => match self.done {
                Some((first, same)) if first == attempt && same == output => "done".to_owned(),
                Some((first, _))
                    if first == attempt && self.wrong == Some(WrongClaim::ReceiptReplaced) =>
                {
                    next.done = Some((attempt, output));
                    "done".to_owned()
                }
                None if self.holds(attempt) => {
                    (next.held, next.done) = (None, Some((attempt, output)));
                    "done".to_owned()
                }
                _ => "stale".to_owned(),
            },
            Act::Renew(attempt) if self.holds(attempt) => {
                next.held = self.held.map(|(worker, _)| (worker, LEASE));
                format!("renewed for {LEASE}")
            }
            Act::Release(attempt) if self.holds(attempt) => {
                next.held = None;
                "released".to_owned()
            }
            Act::Renew(_) | Act::Release(_) => "stale".to_owned(),
            Act::Wait => {
                let extra = u32::from(self.wrong == Some(WrongClaim::LeaseIsLonger));
                next.held = self.held.and_then(|(worker, left)| {
                    (left + extra > WAIT).then(|| (worker, left - WAIT.min(left)))
                });
                "waited".to_owned()
            }
            Act::PowerLoss => "opened".to_owned(),
        };
        let held = next.held.map(|(worker, _)| worker);
        vec![(format!("{answer}; held by {held:?}, done {:?}", next.done), next)]
    }

    fn replay(trace: &[Act]) -> Vec<String> {
        let mut replay = ClaimReplay::new();
        trace.iter().map(|action| replay.act(*action)).collect()
    }
}

/// The real ledger.
struct ClaimReplay {
    scenario: Scenario,
    tasks: Vec<Task>,
}

impl ClaimReplay {
    fn new() -> Self {
        let step = json!({ "id": "a", "goal": "a", "outputs": ["v"], "lease_seconds": LEASE,
            "retry": { "max_attempts": ATTEMPTS + 1, "backoff_seconds": 0 } });
        Self { scenario: Scenario::begin(&json!({ "steps": [step] })), tasks: Vec::new() }
    }

    /// The seconds until a moment.
    fn left(&self, until: u64) -> u64 {
        (until - self.scenario.now()) / 1_000_000
    }

    fn refused(&self, error: &Error) -> String {
        match error.rejection() {
            Some(Rejection::StaleToken(_)) => "stale".to_owned(),
            Some(Rejection::Leased { worker, lease_until, .. }) => {
                format!("held by {worker} for {}", self.left(*lease_until))
            }
            Some(_) if self.done().is_some() => "nothing to claim".to_owned(),
            _ => error.to_string(),
        }
    }

    fn done(&self) -> Option<(usize, u8)> {
        let value = self.scenario.run().variables.get("v")?.value.clone();
        let number: u8 = value.as_str().parse().ok()?;
        Some((usize::from(number / 10), number % 10))
    }

    fn act(&mut self, action: Act) -> String {
        let answer = match action {
            Act::Claim(worker) => {
                let number = self.scenario.number("a");
                let claimed = self.scenario.ledger().claim_step(self.scenario.run, number, worker);
                match claimed {
                    Ok(task) => {
                        self.tasks.push(task);
                        format!("attempt {}", self.tasks.len() - 1)
                    }
                    Err(error) => self.refused(&error),
                }
            }
            Act::Report(attempt, output) => {
                let token = self.tasks[attempt].token;
                let value = attempt * 10 + usize::from(output);
                let reported = self.scenario.ledger().record_receipt(token, receipt(&json!(value)));
                reported.map_or_else(|error| self.refused(&error), |_| "done".to_owned())
            }
            Act::Renew(attempt) => {
                let renewed = self.scenario.ledger().renew(self.tasks[attempt].token);
                renewed.map_or_else(
                    |error| self.refused(&error),
                    |until| format!("renewed for {}", self.left(until)),
                )
            }
            Act::Release(attempt) => {
                let token = self.tasks[attempt].token;
                let released =
                    self.scenario.ledger().report_lost(token, LostCause::Released, "not mine");
                released.map_or_else(|error| self.refused(&error), |_| "released".to_owned())
            }
            Act::Wait => {
                self.scenario.wait(u64::from(WAIT));
                "waited".to_owned()
            }
            Act::PowerLoss => {
                self.scenario.lose_power();
                "opened".to_owned()
            }
        };
        let step = self.scenario.step("a");
        let held = step.attempt().filter(|_| step.status == StepStatus::Dispatched);
        let held = held.map(|attempt| attempt.worker.clone());
        format!("{answer}; held by {held:?}, done {:?}", self.done())
    }
}

/// Every order of claims by two workers, receipts, renewals, releases, waits and power losses of one step.
#[test]
fn sweep_claims_are_those_of_the_model() {
    let explored = explore(&Claims::new(None), sweep(5, 7, 12)).unwrap();
    assert!(explored.states > 10, "{explored:?}");
    println!("measured: models: {} traces of claims", explored.traces);
    println!("measured: models: {} states of claims", explored.states);
    for wrong in [WrongClaim::LeaseIsLonger, WrongClaim::ReceiptReplaced] {
        let refuted = explore(&Claims::new(Some(wrong)), 6);
        assert!(refuted.is_err(), "{wrong:?} was not refuted: {refuted:?}");
    }
}
