//! No answer, of a read or a rejection, depends on a state that may not become durable: for
//! each kind of request, through the library and through the socket.
//! | Method: the record of a first request is written and waits in front of its sync; a second
//! request is judged on the resulting state, which shows in a clock that counts its reads. Then
//! the sync succeeds, or fails, or the machine crashes.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use plan_ledger::internals::sim::{
    FaultAction, FaultEffect, FaultRule, Loss, Operation, OsError, SimDisk,
};
use plan_ledger::{Clock, Environment, ErrorKind, Json, Ledger, Plan, RunId, RunPolicy, Step};
use plan_ledger_cli::requests::{ClaimRequest, Request, SetRequest};
use plan_ledger_cli::server::{SOCKET_NAME, while_serving};
use serde_json::json;

use super::disk_trace::{Call, Traced};
use super::golden::deterministic;
use super::log_fencing::eventually;
use super::log_flush::{Gate, Opened, is_segment};
use super::socket::requested;

/// The answer to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Done,
    /// Rejected, by the state: another request was first.
    Refused,
    /// The outcome is unknown.
    Unknown,
    /// The ledger accepts no more requests.
    Broken,
}

impl Answer {
    fn by<T>(answer: Result<Option<T>, plan_ledger::Error>) -> Self {
        match answer {
            Ok(Some(_)) => Self::Done,
            Ok(None) => Self::Refused,
            Err(error) => Self::of_kind(error.kind().name(), &error.to_string()),
        }
    }

    fn of_kind(kind: &str, message: &str) -> Self {
        let is = |wanted: ErrorKind| kind == wanted.name();
        match kind {
            "rejected" => Self::Refused,
            _ if is(ErrorKind::OutcomeUnknown) => Self::Unknown,
            _ if is(ErrorKind::Poisoned) => Self::Broken,
            _ => panic!("{kind}: {message}"),
        }
    }
}

/// The result of the sync that the first request waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Succeeds,
    Fails,
    PowerIsLost,
}

/// A clock that stands still and counts its reads: it is read just before a command is judged.
#[derive(Debug, Clone, Default)]
struct Counting(Arc<AtomicU64>);

impl Clock for Counting {
    fn now(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst);
        1_700_000_000_000_000
    }
}

/// A ledger with a run of one step, and the gate in front of its log's syncs.
struct Table {
    ledger: Ledger,
    run: RunId,
    disk: SimDisk,
    gate: Gate,
    clock: Counting,
}

const DIR: &str = "a.ledger";

impl Table {
    fn new() -> Self {
        let (gate, clock) = (Gate::default(), Counting::default());
        let watch = gate.clone();
        let traced = Traced::watched(move |call| match call {
            Call::Sync(path) if is_segment(path) => watch.pass(),
            _ => {}
        });
        let disk = traced.disk.clone();
        let (storage, own) = (Arc::new(traced), Arc::new(clock.clone()));
        let environment = Environment { storage, clock: own, ..deterministic() };
        let ledger = Ledger::create(Path::new(DIR), &environment).unwrap();
        let steps = vec![Step { id: "s1".to_owned(), ..Step::default() }];
        let plan = Plan { steps, ..Plan::default() };
        let run = ledger.start_run("r", &plan, RunPolicy::default()).unwrap();
        gate.close();
        Self { ledger, run, disk, gate, clock }
    }
}

/// Two equal requests, the second while the first waits for its sync; returns both answers.
/// `looks`: how often the clock is read until the second request is judged.
fn both(
    table: &Table,
    ask: impl Fn(&str) -> Answer + Sync,
    looks: u64,
    end: End,
) -> (Answer, Answer) {
    let Table { disk, gate, clock, .. } = table;
    let before = gate.arrived();
    std::thread::scope(|scope| {
        let _opened = Opened(gate.clone());
        let ((sender, first), (other, second)) = (channel(), channel());
        let ask = &ask;
        scope.spawn(move || sender.send(ask("ana")));
        eventually("the first one is at the gate", || gate.arrived() == before + 1);
        let so_far = clock.0.load(Ordering::SeqCst);
        scope.spawn(move || other.send(ask("bob")));
        eventually("the second one is judged", || clock.0.load(Ordering::SeqCst) >= so_far + looks);
        // A wrong answer would come at once. If this wait is too short, the answer is the same later.
        std::thread::sleep(Duration::from_millis(20));
        let early = (first.try_recv(), second.try_recv());
        assert!(early.0.is_err() && early.1.is_err(), "told before the sync: {early:?}");
        match end {
            End::Succeeds => {}
            End::Fails => {
                let failure = FaultAction::Error(OsError::Io, FaultEffect::Nothing);
                disk.inject(FaultRule::next(failure).of(Operation::Sync));
            }
            End::PowerIsLost => disk.lose_power(Loss::Everything),
        }
        gate.open();
        (first.recv().unwrap(), second.recv().unwrap())
    })
}

/// Check both answers against the disk, after it lost everything that it may lose.
fn check(table: Table, told: (Answer, Answer), end: End, again: impl Fn(&Ledger, RunId) -> Answer) {
    let Table { ledger, run, disk, .. } = table;
    drop(ledger);
    disk.lose_power(Loss::Everything);
    let environment = Environment { storage: Arc::new(disk), ..deterministic() };
    let (ledger, _) = Ledger::open_with(Path::new(DIR), &environment).unwrap();
    let (expected, is_taken) = match end {
        End::Succeeds => ((Answer::Done, Answer::Refused), Answer::Refused),
        // Nothing of the first request is left, so its step is free again.
        End::Fails | End::PowerIsLost => ((Answer::Unknown, Answer::Broken), Answer::Done),
    };
    assert_eq!(told, expected, "{end:?}");
    assert_eq!(again(&ledger, run), is_taken, "{end:?}");
}

const ENDS: [End; 3] = [End::Succeeds, End::Fails, End::PowerIsLost];

fn set(ledger: &Ledger, run: RunId, by: &str) -> Answer {
    let value = Json::new(&json!(by));
    Answer::by(ledger.set_variable(run, "v", value, Some(0), by).map(Some))
}

fn dispatch(ledger: &Ledger, run: RunId, worker: &str) -> Answer {
    Answer::by(ledger.dispatch(run, worker))
}

/// Goal: a rejection that depends on another request is answered only after that request is
/// durable, and never if it fails: a claimed step, and a changed version.
#[test]
fn rejection_waits_until_its_state_is_durable() {
    for end in ENDS {
        let table = Table::new();
        let told = both(&table, |by| set(&table.ledger, table.run, by), 1, end);
        check(table, told, end, |ledger, run| set(ledger, run, "cleo"));

        let table = Table::new();
        // What is due is recorded first.
        let told = both(&table, |worker| dispatch(&table.ledger, table.run, worker), 2, end);
        check(table, told, end, |ledger, run| dispatch(ledger, run, "cleo"));
    }
}

/// A request, how often the clock is read until it is judged, and the same without a socket.
type Asked<'a> = (&'a (dyn Fn(&str) -> Request + Sync), u64, fn(&Ledger, RunId, &str) -> Answer);

/// Goal: the same through the socket, where one thread judges the requests of many clients: a
/// claimed step, by its name and as the next one, and a changed version.
#[test]
fn rejection_through_the_socket_waits_until_its_state_is_durable() {
    let claim = |step: Option<&str>, worker: &str| -> Request {
        let (step, worker) = (step.map(str::to_owned), worker.to_owned());
        ClaimRequest { step, worker, ..ClaimRequest::new(plan_ledger::plan::Secret([7; 16])) }
            .into()
    };
    let set_act = |by: &str| -> Request {
        let (name, value, by) = ("v".to_owned(), json!(by), by.to_owned().into());
        SetRequest { run: None.into(), name, value, if_version: Some(0), by }.into()
    };
    let ways: [Asked<'_>; 3] = [
        (&|worker| claim(Some("s1"), worker), 2, dispatch),
        (&|worker| claim(None, worker), 2, dispatch),
        (&set_act, 1, set),
    ];
    for (end, (request, looks, again)) in
        ENDS.into_iter().flat_map(|end| ways.map(|way| (end, way)))
    {
        let (table, folder) = (Table::new(), tempfile::tempdir().unwrap());
        let ask = |who: &str| {
            let answer = requested(&folder.path().join(SOCKET_NAME), &request(who));
            let line = &answer.lines[0];
            match (answer.code, line["type"].as_str(), line["kind"].as_str()) {
                (0, ..) => Answer::Done,
                (_, Some("nothing"), _) => Answer::Refused,
                (_, _, Some(kind)) => Answer::of_kind(kind, &line.to_string()),
                _ => panic!("{answer:?}"),
            }
        };
        let complain = |complaint: &str| panic!("{complaint}");
        let told =
            while_serving(&table.ledger, folder.path(), complain, || both(&table, ask, looks, end));
        check(table, told, end, |ledger, run| again(ledger, run, "cleo"));
    }
    let pairs = ENDS.len() * ways.len();
    println!("measured: socket over a simulated disk: {pairs} pairs of requests during a sync");
}
