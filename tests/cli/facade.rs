//! The ledger's interface: concurrent use, exact replay, and the effect of rejected or failed
//! writes.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use plan_ledger::internals::sim::{Fault, FaultEffect, SimDisk};
use plan_ledger::plan::{BarrierNeeds, Origin, StepEvent};
use plan_ledger::{
    BatchKey, Command, Environment, ErrorKind, Event, Json, Ledger, LostCause, Plan, Receipt,
    Rejection, RunId, RunPolicy, RunStatus, State, Step, state_hash,
};

use crate::golden::deterministic;
use crate::lab::LOOKS;

/// Steps of which each tenth waits for the nine before it, and a barrier over the first five.
/// A receipt with an output, which every step declares.
fn done() -> Receipt {
    Receipt { output: Json::new(&serde_json::json!(1)).into(), ..Receipt::default() }
}

fn plan(count: usize) -> Plan {
    let id = |number: usize| format!("s{number}");
    let step = |number: usize| {
        let after = match number % 10 {
            9 => (number - 9..number).map(id).collect(),
            _ if number >= 10 => vec!["first".to_owned()],
            _ => Vec::new(),
        };
        Step { id: id(number), after, outputs: vec![format!("v{number}")], ..Step::default() }
    };
    let barrier = plan_ledger::plan::Barrier {
        id: "first".to_owned(),
        members: (0..5).map(id).collect(),
        needs: BarrierNeeds::AtLeast(3),
        ..Default::default()
    };
    Plan { steps: (0..count).map(step).collect(), barriers: vec![barrier], ..Plan::default() }
}

fn on_disk(disk: &SimDisk) -> Environment {
    Environment { storage: Arc::new(disk.clone()), ..deterministic() }
}

fn work(ledger: &Ledger, run: RunId, worker: &str) -> Option<u32> {
    let task = ledger.dispatch(run, worker).unwrap()?;
    let output = Json::new(&serde_json::json!(task.step.id));
    ledger.record_receipt(task.token, Receipt { output: output.into(), ..done() }).unwrap();
    Some(task.number.0)
}

/// Story: each dispatch read the log for what the twelve steps before it had produced, which took
/// most of the time of a run.
/// Method: in a chain, the dispatch of the last step costs as many disk calls as that of the first
/// one; a process that reads the log is told the same.
#[test]
fn dispatch_tells_what_is_finished_without_reading_the_log() {
    const STEPS: usize = 40;
    let disk = SimDisk::new();
    let dir = Path::new("chain.ledger");
    let ledger = Ledger::create(dir, &on_disk(&disk)).unwrap();
    let step = |number: usize| {
        let after = number.checked_sub(1).map(|before| format!("s{before}"));
        Step { id: format!("s{number}"), after: after.into_iter().collect(), ..Step::default() }
    };
    let plan = Plan { steps: (0..STEPS).map(step).collect(), ..Plan::default() };
    let run = ledger.start_run("chain", &plan, RunPolicy::default()).unwrap();
    let mut costs = Vec::new();
    let told = loop {
        let before = disk.calls();
        let task = ledger.dispatch(run, "w").unwrap().unwrap();
        costs.push(disk.calls() - before);
        if costs.len() == STEPS {
            ledger.report_lost(task.token.seq, LostCause::Released, "test").unwrap();
            break task.finished;
        }
        let text = if costs.len() % 3 == 0 { "x".repeat(2000) } else { task.step.id };
        let output = Json::new(&serde_json::json!(text)).into();
        ledger.record_receipt(task.token, Receipt { output, ..Receipt::default() }).unwrap();
    };
    assert_eq!(costs[0], costs[STEPS - 1], "{costs:?}");
    let sizes: Vec<(usize, u64)> =
        told.steps.iter().map(|step| (step.output.len(), step.output_bytes)).collect();
    assert_eq!((sizes.len(), &sizes[..3]), (12, &[(1000, 2002), (5, 5), (5, 5)][..]));
    ledger.close().unwrap();
    let ledger = Ledger::open_with(dir, &on_disk(&disk)).unwrap().0;
    assert_eq!(ledger.dispatch(run, "w").unwrap().unwrap().finished, told);
}

/// Story: a receipt that exceeds a record was applied, rejected by the log, and the whole state
/// had to be folded again before other commands ran.
/// Method: a command costs the same number of disk calls before and after such rejections.
#[test]
fn oversized_payload_causes_no_new_fold() {
    let disk = SimDisk::new();
    let ledger = Ledger::create(Path::new("a.ledger"), &on_disk(&disk)).unwrap();
    let run = ledger.start_run("r", &plan(30), RunPolicy::default()).unwrap();
    (0..10).for_each(|_| assert!(work(&ledger, run, "w").is_some()));
    let token = ledger.dispatch(run, "w").unwrap().unwrap().token;
    let set = |value: &str| {
        let (before, value) = (disk.calls(), Json::new(&serde_json::json!(value)));
        let done = ledger.set_variable(run, "v", value, None, "me");
        (done.map_err(|error| error.kind()).is_ok(), disk.calls() - before)
    };
    let usual = set("x");
    assert!(usual.0);
    let large = "x".repeat(17 << 20);
    assert_eq!(set(&large), (false, 0));
    assert_eq!(set("y"), usual);
    let before = disk.calls();
    let receipt = Receipt { log_tail: large.into(), ..done() };
    let error = ledger.record_receipt(token, receipt).unwrap_err();
    assert_eq!((error.kind(), disk.calls()), (ErrorKind::TooLarge, before), "{error}");
    assert_eq!(set("z"), usual);
    ledger.record_receipt(token, done()).unwrap();
}

/// Goal: threads that share a handle get different steps, and every step has one winner.
#[test]
fn eight_threads_never_win_the_same_step() {
    const STEPS: usize = 200;
    let folder = tempfile::tempdir().unwrap();
    let ledger = Ledger::create(&folder.path().join("a.ledger"), &Environment::system()).unwrap();
    let run = ledger.start_run("threads", &plan(STEPS), RunPolicy::default()).unwrap();
    let done: Mutex<BTreeMap<u32, Vec<usize>>> = Mutex::default();
    let is_over = || matches!(ledger.state().unwrap().runs[&run].status, RunStatus::Ended(_));
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (done, ledger) = (&done, &ledger);
            scope.spawn(move || {
                while !is_over() {
                    match work(ledger, run, &format!("thread-{thread}")) {
                        Some(step) => done.lock().unwrap().entry(step).or_default().push(thread),
                        None => std::thread::yield_now(),
                    }
                }
            });
        }
    });
    let done = done.into_inner().unwrap();
    assert_eq!(done.len(), STEPS);
    assert!(done.values().all(|winners| winners.len() == 1), "{done:?}");
    assert_eq!(ledger.state_at(ledger.head().seq).map(|state| state_hash(&state)).unwrap(), {
        ledger.state_hash().unwrap()
    });
}

/// Goal: the state folded from the start equals the live state, at the last record of every
/// commit and after reopening.
#[test]
fn replay_equals_the_live_state_at_every_commit() {
    let disk = SimDisk::new();
    let dir = Path::new("a.ledger");
    let ledger = Ledger::create(dir, &on_disk(&disk)).unwrap();
    let mut live = BTreeMap::new();
    let run = ledger.start_run("replay", &plan(40), RunPolicy::default()).unwrap();
    live.insert(ledger.head().seq, ledger.state_hash().unwrap());
    while let Some(task) = ledger.dispatch(run, "worker").unwrap() {
        live.insert(ledger.head().seq, ledger.state_hash().unwrap());
        let count = Json::new(&serde_json::json!(task.number.0));
        ledger.set_variable(run, "count", count, None, "me").unwrap();
        live.insert(ledger.head().seq, ledger.state_hash().unwrap());
        ledger.record_receipt(task.token, done()).unwrap();
        live.insert(ledger.head().seq, ledger.state_hash().unwrap());
    }
    assert!(live.len() > 80, "{}", live.len());
    for (seq, hash) in &live {
        assert_eq!(state_hash(&ledger.state_at(*seq).unwrap()), *hash, "at {seq}");
    }
    let last = ledger.head();
    let beyond = ledger.state_at(last.seq + 1).unwrap_err();
    assert_eq!(beyond.kind(), ErrorKind::OutOfRange);
    assert_eq!(ledger.replay(last.seq - 3).unwrap().len(), 4);
    ledger.close().unwrap();
    let (again, _) = Ledger::open_with(dir, &on_disk(&disk)).unwrap();
    assert_eq!((again.head(), again.state_hash().unwrap()), (last, live[&last.seq]));
}

/// Goal: a full disk rejects a command and changes nothing; with free space, the same handle
/// continues.
#[test]
fn full_disk_rejects_and_changes_nothing() {
    let disk = SimDisk::new();
    let ledger = Ledger::create(Path::new("a.ledger"), &on_disk(&disk)).unwrap();
    let run = ledger.start_run("full", &plan(20), RunPolicy::default()).unwrap();
    disk.set_capacity(1_100_000);
    let large = Json::new(&serde_json::json!("x".repeat(300_000)));
    let mut version = 0;
    let error = loop {
        let before = ledger.state_hash().unwrap();
        match ledger.set_variable(run, "v", large.clone(), Some(version), "me") {
            Ok(next) => version = next,
            Err(error) => {
                assert_eq!(ledger.state_hash().unwrap(), before, "refused, and yet in the state");
                break error;
            }
        }
    };
    assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}");
    assert!(version >= 2, "{version}");
    disk.set_capacity(u64::MAX);
    assert_eq!(ledger.set_variable(run, "v", large, Some(version), "me").unwrap(), version + 1);
}

/// Goal: after a failed sync nothing is acknowledged and the handle rejects writes; reopening
/// finds the record or does not, and state and log agree.
#[test]
fn failed_sync_poisons_the_handle_until_reopened() {
    for effect in [FaultEffect::Nothing, FaultEffect::Everything] {
        let disk = SimDisk::new();
        let dir = Path::new("a.ledger");
        let ledger = Ledger::create(dir, &on_disk(&disk)).unwrap();
        let run = ledger.start_run("sync", &plan(20), RunPolicy::default()).unwrap();
        let acked = ledger.head();
        // The next calls are the write of the records and their sync.
        disk.fail_at(Fault { call: disk.calls() + LOOKS + 2, kind: io::ErrorKind::Other, effect });
        let value = Json::new(&serde_json::json!(1));
        let error = ledger.set_variable(run, "v", value.clone(), None, "me").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
        let refused = ledger.set_variable(run, "v", value.clone(), None, "me").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Poisoned);
        drop(ledger);
        disk.kill_process();
        let (ledger, report) = Ledger::open_with(dir, &on_disk(&disk)).unwrap();
        assert_ne!(report.verdict, "clean", "a poisoned end is fenced");
        assert!(ledger.head().seq > acked.seq, "the note, at least");
        let state = ledger.state().unwrap();
        let replayed = ledger.state_at(ledger.head().seq).unwrap();
        assert_eq!(state_hash(&replayed), state_hash(&state));
        ledger.set_variable(run, "w", value, Some(0), "me").unwrap();
    }
}

/// Goal: commands of several threads share syncs, and the state is the fold of the log.
#[test]
fn concurrent_commands_share_syncs() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("a.ledger");
    let ledger = Ledger::create(&dir, &Environment::system()).unwrap();
    let run = ledger.start_run("threads", &plan(20), RunPolicy::default()).unwrap();
    let set = |thread: u64, number: u64| {
        let value = Json::new(&serde_json::json!([thread, number]));
        ledger.set_variable(run, &format!("v{thread}"), value, Some(number), "me")
    };
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (set, ledger) = (&set, &ledger);
            scope.spawn(move || {
                for number in 0..60 {
                    assert_eq!(set(thread, number).unwrap(), number + 1);
                    // The state that a thread sees is durable and contains its own results.
                    let state = ledger.state().unwrap();
                    assert!(state.seq <= ledger.head().seq);
                    let seen = state.runs[&run].variables[&format!("v{thread}")].version;
                    assert_eq!(seen, number + 1);
                    assert_eq!(set(thread, number).unwrap_err().kind(), ErrorKind::Rejected);
                }
            });
        }
    });
    let head = ledger.head();
    assert_eq!(state_hash(&ledger.state_at(head.seq).unwrap()), ledger.state_hash().unwrap());
    let hash = ledger.state_hash().unwrap();
    ledger.close().unwrap();
    let (again, _) = Ledger::open_with(&dir, &Environment::system()).unwrap();
    assert_eq!((again.head(), again.state_hash().unwrap()), (head, hash));
}

/// Goal: a command under a key is executed once, whatever happened to the first answer: in the
/// same handle, after a crash at any call, and after reopening; its commit is the same.
#[test]
fn keyed_command_is_executed_once() {
    let story = |disk: &SimDisk| {
        let dir = Path::new("a.ledger");
        let (ledger, _) = Ledger::open_or_create(dir, &on_disk(disk)).ok()?;
        let run = match ledger.state().unwrap().run_named("once") {
            Some(run) => run.id,
            None => ledger.start_run("once", &plan(20), RunPolicy::default()).ok()?,
        };
        let (name, origin) = ("v".to_owned(), Origin::person("me"));
        let value = Json::new(&serde_json::json!(1));
        let command = Command::SetVariable { run, name, value, expected_version: None, origin };
        let commit = ledger.execute_once(&BatchKey::new(b"request 1").unwrap(), &command).ok()?;
        Some((ledger, run, command, commit))
    };
    let calm = SimDisk::new();
    let (ledger, _, command, first) = story(&calm).unwrap();
    assert_eq!(first.events.len(), 1);
    assert_eq!(first.events[0].0, first.ack.seq);
    let again = ledger.execute_once(&BatchKey::new(b"request 1").unwrap(), &command).unwrap();
    assert_eq!((again.ack, &again.events), (first.ack, &first.events));
    // A command without events is remembered too; the state skips its key.
    let nothing = BatchKey::new(b"request 2").unwrap();
    let idle = ledger.execute_once(&nothing, &Command::Tick).unwrap();
    assert!(idle.events.is_empty());
    assert_eq!(ledger.execute_once(&nothing, &Command::Tick).unwrap().ack, idle.ack);
    assert_eq!(ledger.state().unwrap().seq, idle.ack.seq);
    let replayed = ledger.state_at(idle.ack.seq).unwrap();
    assert_eq!(state_hash(&replayed), ledger.state_hash().unwrap());
    drop(ledger);

    for call in 1..=calm.calls() {
        let disk = SimDisk::new();
        disk.crash_at(call);
        let before = story(&disk).map(|(_, _, _, commit)| commit);
        disk.crash_at(u64::MAX);
        disk.lose_power(plan_ledger::internals::sim::Loss::Some(call));
        let (ledger, run, _, commit) = story(&disk).unwrap();
        assert_eq!(ledger.state().unwrap().runs[&run].variables["v"].version, 1, "call {call}");
        if let Some(before) = before {
            assert_eq!((before.ack, before.events), (commit.ack, commit.events), "call {call}");
        }
        let replayed = ledger.state_at(ledger.head().seq).unwrap();
        assert_eq!(state_hash(&replayed), ledger.state_hash().unwrap(), "call {call}");
    }
}

/// Goal: a failed sync is reported to every waiter; then the state contains exactly the durable
/// records.
#[test]
fn failed_sync_is_reported_to_all_waiters() {
    let mut failed = 0;
    for call in 1..=12 {
        let disk = SimDisk::new();
        let ledger = Ledger::create(Path::new("a.ledger"), &on_disk(&disk)).unwrap();
        let run = ledger.start_run("sync", &plan(20), RunPolicy::default()).unwrap();
        let kind = io::ErrorKind::Other;
        disk.fail_at(Fault { call: disk.calls() + call, kind, effect: FaultEffect::Nothing });
        let answers: Vec<_> = std::thread::scope(|scope| {
            let set = |thread: u64| {
                let ledger = &ledger;
                scope.spawn(move || {
                    let value = Json::new(&serde_json::json!(thread));
                    ledger.set_variable(run, &format!("v{thread}"), value, None, "me")
                })
            };
            let threads: Vec<_> = (0..6).map(set).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let state = ledger.state().unwrap();
        for (thread, answer) in answers.iter().enumerate() {
            if answer.is_ok() {
                assert!(state.runs[&run].variables.contains_key(&format!("v{thread}")));
            }
        }
        failed += answers.iter().filter(|answer| answer.is_err()).count();
        // Threads whose calls were all shared may have left the failure to this reader.
        let replay = || ledger.state_at(ledger.head().seq);
        let replayed = replay().or_else(|_| replay()).unwrap();
        if answers.iter().all(Result::is_ok) {
            assert_eq!(state_hash(&replayed), state_hash(&state), "call {call}");
        }
        assert_eq!(
            state_hash(&ledger.state().unwrap()),
            state_hash(&state),
            "call {call}: it changes"
        );
    }
    assert!(failed > 6, "{failed}");
}

/// Goal: a receipt and the next claim are one commit: after a crash at any disk call there are
/// both or neither, and replay equals the live state.
#[test]
fn receipt_and_next_dispatch_are_one_commit() {
    let dir = Path::new("a.ledger");
    let story = |disk: &SimDisk| {
        let (ledger, _) = Ledger::open_or_create(dir, &on_disk(disk)).ok()?;
        let run = match ledger.state().unwrap().run_named("steps") {
            Some(run) => run.id,
            None => ledger.start_run("steps", &plan(10), RunPolicy::default()).ok()?,
        };
        let mut task = ledger.dispatch(run, "worker").ok()?;
        while let Some(held) = task {
            let receipt = done();
            let reported =
                ledger.record_receipt_and_dispatch(held.token, receipt, "worker").ok()?;
            assert_eq!(reported.0, plan_ledger::StepStatus::Accepted);
            task = reported.1;
        }
        Some((ledger, run))
    };
    let calm = SimDisk::new();
    let (ledger, run) = story(&calm).unwrap();
    let records = ledger.replay(1).unwrap();
    let dispatched = records.iter().filter(|record| {
        matches!(&record.event, Some(Event::Step(step))
        if matches!(step.event, StepEvent::Dispatched(_)))
    });
    assert_eq!(dispatched.count(), 10);
    assert!(matches!(ledger.state().unwrap().runs[&run].status, RunStatus::Ended(_)));
    drop(ledger);
    for call in 1..=calm.calls() {
        let disk = SimDisk::new();
        disk.crash_at(call);
        let _ = story(&disk);
        disk.crash_at(u64::MAX);
        disk.lose_power(plan_ledger::internals::sim::Loss::Some(call));
        let Ok((ledger, _)) = Ledger::open_with(dir, &on_disk(&disk)) else { continue };
        let state = ledger.state().unwrap();
        let Some(run) = state.run_named("steps") else { continue };
        let accepted = run.count(plan_ledger::StepStatus::Accepted);
        if accepted > 0 && accepted < 10 {
            assert_eq!(run.in_flight, 1, "call {call}: reported without the next claim");
        }
        let replayed = ledger.state_at(ledger.head().seq).unwrap();
        assert_eq!(state_hash(&replayed), ledger.state_hash().unwrap(), "call {call}");
    }
}

/// Goal: a late receipt is kept as rejected, and dispatches nothing although a step is ready.
#[test]
fn late_receipt_dispatches_nothing() {
    let ledger = Ledger::create(Path::new("a.ledger"), &on_disk(&SimDisk::new())).unwrap();
    let run = ledger.start_run("steps", &plan(10), RunPolicy::default()).unwrap();
    let held = ledger.dispatch(run, "worker").unwrap().unwrap();
    ledger.record_receipt(held.token, done()).unwrap();
    let before = ledger.state().unwrap();
    assert!(!before.runs[&run].lanes.is_empty() && before.in_flight.is_empty());
    let other = Receipt { duration: 7, ..done() };
    let late = ledger.record_receipt_and_dispatch(held.token, other, "worker");
    assert!(matches!(late.unwrap_err().rejection(), Some(Rejection::StaleToken(_))));
    let after = ledger.state().unwrap();
    assert!(after.in_flight.is_empty(), "a step was dispatched");
    assert!(after.runs[&run].ready().eq(before.runs[&run].ready()));
}

/// Goal: the returned state is durable, all of it; if it cannot be read, that is an error.
/// Story: after its folder was moved away, a ledger rejected a command, could not read its log
/// again to undo it, and showed the state as if the command had been executed.
/// Method: the folder of the segments is moved, too, since the ledger has its own folder open.
#[test]
fn unreadable_state_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let (path, moved) = (folder.path().join("a.ledger"), folder.path().join("b.ledger"));
    let ledger = Ledger::create(&path, &Environment::system()).unwrap();
    let run = ledger.start_run("moved", &plan(5), RunPolicy::default()).unwrap();
    std::fs::rename(&path, &moved).unwrap();
    let (log, hidden) = (moved.join("log"), moved.join("hidden"));
    std::fs::rename(&log, &hidden).unwrap();
    let value = || Json::new(&serde_json::json!(1));
    let error = ledger.set_variable(run, "v", value(), None, "me").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fenced, "{error}");
    let error = ledger.state().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NotALedger | ErrorKind::Io), "{error}");
    std::fs::rename(&hidden, &log).unwrap();
    assert!(ledger.state().unwrap().runs[&run].variables.is_empty());
}

/// Goal: a handle reads the ledger that it opened, and no other.
/// Story: if another ledger came to be under the same path, as by a relative path and another
/// working folder, the old handle returned its records.
#[test]
fn replaced_ledger_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let (path, moved) = (folder.path().join("a.ledger"), folder.path().join("b.ledger"));
    let ledger = Ledger::create(&path, &Environment::system()).unwrap();
    ledger.start_run("own", &plan(5), RunPolicy::default()).unwrap();
    std::fs::rename(&path, &moved).unwrap();
    let other = Ledger::create(&path, &Environment::system()).unwrap();
    other.start_run("other", &plan(5), RunPolicy::default()).unwrap();
    let last = ledger.head().seq;
    for state in [ledger.state().unwrap(), ledger.state_at(last).unwrap().into()] {
        assert!(state.run_named("own").is_some() && state.run_named("other").is_none());
    }
    assert!(ledger.replay(1).is_ok(), "its folder is open");
    // A blob that no record of the other ledger names.
    let stray = path.join("blob/00").join("0".repeat(64));
    std::fs::create_dir_all(stray.parent().unwrap()).unwrap();
    std::fs::write(&stray, "of the other").unwrap();
    assert_eq!(ledger.collect_blobs().map_or(0, |it| it.blobs), 0);
    assert!(stray.exists(), "the blobs of the other ledger stay");
}

/// Goal: a forked process does not wait for a thread of its parent: every call is rejected.
/// Story: a thread of the parent had the lock when another thread forked. The child inherited
/// the locked lock, and its first call never returned.
#[test]
fn forked_process_does_not_wait_for_parent_threads() {
    let disk = SimDisk::new();
    let ledger = Ledger::create(Path::new("a.ledger"), &on_disk(&disk)).unwrap();
    let run = ledger.start_run("forked", &plan(5), RunPolicy::default()).unwrap();
    let (inside, is_inside) = std::sync::mpsc::channel();
    let (go, may_go) = std::sync::mpsc::channel::<()>();
    let may_go = Mutex::new(may_go);
    std::thread::scope(|scope| {
        let holding = scope.spawn(|| {
            let make = |_: &State| {
                inside.send(()).unwrap();
                may_go.lock().unwrap().recv().unwrap();
                Ok::<_, plan_ledger::Error>(Command::Tick)
            };
            ledger.transact(None, |transaction| transaction.run_with(make)).wait()
        });
        is_inside.recv().unwrap();
        disk.enter_child_process();
        let (told, tell) = std::sync::mpsc::channel();
        let in_child = scope.spawn(|| {
            let told = told;
            told.send(ledger.execute(&Command::Tick).map(drop)).unwrap();
            told.send(ledger.state().map(drop)).unwrap();
            told.send(ledger.tick()).unwrap();
            told.send(ledger.dispatch(run, "w").map(drop)).unwrap();
            told.send(ledger.snapshot::<State>().map(drop)).unwrap();
            told.send(ledger.collect_blobs().map(drop)).unwrap();
        });
        let answers: Vec<_> =
            (0..6).map(|_| tell.recv_timeout(std::time::Duration::from_secs(60))).collect();
        // Before the assertions: a waiting thread would keep the test from ending.
        go.send(()).unwrap();
        in_child.join().unwrap();
        drop(holding.join().unwrap());
        for answer in answers {
            let error = answer.expect("it waited").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Fenced, "{error}");
        }
    });
}
