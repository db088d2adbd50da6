//! Concurrent threads and processes that claim the same steps and update the same variables: each
//! step has one winner, and no update is lost.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plan_ledger::internals::sim::{SimDisk, sweep};
use plan_ledger::{
    Environment, ErrorKind, Json, Ledger, LedgerView, Plan, Rejection, RunId, RunPolicy, Step,
    StepNumber, StepStatus, state_hash,
};

use crate::golden::deterministic;
use crate::lab::dir;

/// Independent steps whose leases do not expire during the test.
fn plan(count: u32) -> Plan {
    let step = |number: u32| Step { id: format!("s{number}"), ..Step::default() };
    let mut plan = Plan { steps: (1..=count).map(step).collect(), ..Plan::default() };
    plan.defaults.lease_seconds = Some(1_000_000);
    plan
}

fn simulated() -> Environment {
    Environment { storage: Arc::new(SimDisk::new()), ..deterministic() }
}

/// The winners of a step, and the winner that each loser was told.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Claims {
    winners: Vec<(String, u64)>,
    losers: Vec<(String, u64)>,
}

/// Claims one step and records the result.
fn claim(ledger: &Ledger, run: RunId, step: StepNumber, worker: &str, claims: &mut Claims) {
    match ledger.claim_step(run, step, worker) {
        Ok(task) => {
            assert_eq!(task.number, step);
            claims.winners.push((worker.to_owned(), task.lease_until));
        }
        Err(error) => match error.rejection() {
            Some(Rejection::Leased { step: held, worker, lease_until }) if *held == step => {
                claims.losers.push((worker.clone(), *lease_until));
            }
            _ => panic!("{error}"),
        },
    }
}

fn check(claims: &BTreeMap<u32, Claims>, steps: u32, claimants: usize) {
    assert_eq!(claims.len(), usize::try_from(steps).unwrap());
    for (step, Claims { winners, losers }) in claims {
        let [winner] = winners.as_slice() else { panic!("step {step} was won by {winners:?}") };
        assert_eq!(losers.len(), claimants - 1, "step {step}");
        assert!(losers.iter().all(|each| each == winner), "step {step}: {winner:?}, {losers:?}");
    }
}

/// Of 64 threads, eight claim each of 10,000 steps at the same time. One wins; the others get the
/// winner's name and the end of its lease.
#[test]
fn each_step_has_one_winner_among_64_threads() {
    const STEPS: u32 = 10_000;
    const CLAIMANTS: u32 = 8;
    let ledger = Ledger::create(&dir(), &simulated()).unwrap();
    let run = ledger.start_run("race", &plan(STEPS), RunPolicy::default()).unwrap();
    let next_claim = AtomicU32::new(0);
    let all: Mutex<BTreeMap<u32, Claims>> = Mutex::default();
    std::thread::scope(|scope| {
        for thread in 0..64 {
            let (ledger, next_claim, all) = (&ledger, &next_claim, &all);
            scope.spawn(move || {
                let worker = format!("thread {thread}");
                let mut own: BTreeMap<u32, Claims> = BTreeMap::new();
                loop {
                    let step = next_claim.fetch_add(1, Ordering::Relaxed) / CLAIMANTS + 1;
                    if step > STEPS {
                        break;
                    }
                    claim(ledger, run, StepNumber(step), &worker, own.entry(step).or_default());
                }
                let mut all = all.lock().unwrap();
                for (step, mut claims) in own {
                    let entry = all.entry(step).or_default();
                    entry.winners.append(&mut claims.winners);
                    entry.losers.append(&mut claims.losers);
                }
            });
        }
    });
    check(&all.into_inner().unwrap(), STEPS, usize::try_from(CLAIMANTS).unwrap());
    let state = ledger.state().unwrap();
    assert_eq!(state.runs[&run].count(StepStatus::Dispatched), STEPS);
    assert_eq!(state_hash(&ledger.state_at(ledger.head().seq).unwrap()), state_hash(&state));
}

/// 64 threads that dispatch the next step never get the same step, and leave none.
#[test]
fn concurrent_dispatches_never_return_the_same_step() {
    const STEPS: u32 = 2_000;
    let ledger = Ledger::create(&dir(), &simulated()).unwrap();
    let run = ledger.start_run("race", &plan(STEPS), RunPolicy::default()).unwrap();
    let dispatched: Mutex<Vec<u32>> = Mutex::default();
    std::thread::scope(|scope| {
        for thread in 0..64 {
            let (ledger, dispatched) = (&ledger, &dispatched);
            scope.spawn(move || {
                let worker = format!("thread {thread}");
                while let Some(task) = ledger.dispatch(run, &worker).unwrap() {
                    dispatched.lock().unwrap().push(task.number.0);
                }
            });
        }
    });
    let mut dispatched = dispatched.into_inner().unwrap();
    dispatched.sort_unstable();
    assert_eq!(dispatched, (1..=STEPS).collect::<Vec<_>>());
}

const CHILD: &str = "LEDGER_TEST_RACE";
const PROCESSES: u32 = 8;
const STEPS: u32 = 200;
/// Steps that a process claims before it closes the ledger.
const AT_ONCE: usize = 8;
/// Printed by a child after its first batch of claims. It waits for a line on standard input, so
/// that each child wins some steps however late it starts.
const FIRST_BATCH_DONE: &str = "first batch done";

/// The body of each child process of `each_step_has_one_winner_among_8_processes`; not a test
/// itself.
#[test]
fn child_process_claims_steps() {
    let Ok(which) = std::env::var(CHILD) else { return };
    let (number, folder) = which.split_once(' ').unwrap();
    let number: u32 = number.parse().unwrap();
    let worker = format!("process {number}");
    let order = (0..STEPS).map(|place| (place + number * STEPS / PROCESSES) % STEPS + 1);
    for (batch, steps) in order.collect::<Vec<_>>().chunks(AT_ONCE).enumerate() {
        if batch == 1 {
            println!("\n{FIRST_BATCH_DONE}");
            std::io::stdin().read_line(&mut String::new()).unwrap();
        }
        let ledger = open_when_free(Path::new(folder));
        let run = ledger.state().unwrap().run_named("race").unwrap().id;
        for step in steps {
            let mut claims = Claims::default();
            claim(&ledger, run, StepNumber(*step), &worker, &mut claims);
            let Claims { winners, losers } = claims;
            for (worker, until) in winners {
                println!("\nclaim {step} won {until} {worker}");
            }
            for (worker, until) in losers {
                println!("\nclaim {step} lost {until} {worker}");
            }
        }
        ledger.close().unwrap();
    }
}

/// Opens the ledger, retrying while another process has the lock.
fn open_when_free(folder: &Path) -> Ledger {
    loop {
        match Ledger::open_with(folder, &Environment::system()) {
            Ok((ledger, _)) => return ledger,
            Err(error) if error.kind() == ErrorKind::Locked => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Eight processes open the ledger in turn and claim the same 200 steps: each step has one winner,
/// and the losers get its name.
#[test]
fn each_step_has_one_winner_among_8_processes() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("race.ledger");
    let ledger = Ledger::create(&folder, &Environment::system()).unwrap();
    let run = ledger.start_run("race", &plan(STEPS), RunPolicy::default()).unwrap();
    ledger.close().unwrap();
    let child = |number: u32| {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "concurrent_claims::child_process_claims_steps", "--nocapture"])
            .env(CHILD, format!("{number} {}", folder.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let mut children: Vec<_> = (0..PROCESSES).map(child).collect();
    let mut all: BTreeMap<u32, Claims> = BTreeMap::new();
    let mut outputs: Vec<_> =
        children.iter_mut().map(|child| BufReader::new(child.stdout.take().unwrap())).collect();
    let mut lines: Vec<String> = Vec::new();
    for output in &mut outputs {
        lines
            .extend(output.lines().map(Result::unwrap).take_while(|line| line != FIRST_BATCH_DONE));
    }
    for child in &mut children {
        child.stdin.take().unwrap().write_all(b"\n").unwrap();
    }
    for (mut child, output) in children.into_iter().zip(outputs) {
        lines.extend(output.lines().map(Result::unwrap));
        assert!(child.wait().unwrap().success());
    }
    for line in &lines {
        let Some(claimed) = line.strip_prefix("claim ") else { continue };
        let words: Vec<&str> = claimed.splitn(4, ' ').collect();
        let claims = all.entry(words[0].parse().unwrap()).or_default();
        let list = if words[1] == "won" { &mut claims.winners } else { &mut claims.losers };
        list.push((words[3].to_owned(), words[2].parse().unwrap()));
    }
    let processes = usize::try_from(PROCESSES).unwrap();
    check(&all, STEPS, processes);
    let winners: std::collections::BTreeSet<_> =
        all.values().map(|claims| claims.winners[0].0.clone()).collect();
    assert_eq!(winners.len(), processes, "a process won nothing: {winners:?}");
    let view = LedgerView::open(&folder, &Environment::system()).unwrap();
    let run = view.run(run).unwrap();
    for (step, claims) in &all {
        let attempt = run.step(StepNumber(*step)).unwrap().attempt().cloned().unwrap();
        assert_eq!((attempt.worker, attempt.lease_until), claims.winners[0], "step {step}");
    }
}

/// Counts in shared variables with compare-and-set updates; returns the number of conflicts.
fn count(ledger: &Ledger, run: RunId, threads: u64, updates: u64, variables: u64) -> u64 {
    let conflicts = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let conflicts = &conflicts;
            scope.spawn(move || {
                for update in 0..updates {
                    let name = format!("count {}", (thread + update) % variables);
                    while !count_once(ledger, run, &name) {
                        conflicts.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let state = ledger.state().unwrap();
    let counts = state.runs[&run].variables.values().map(|variable| {
        let value = variable.value.value().as_u64().unwrap();
        assert_eq!(variable.version, value, "the version counts the updates");
        value
    });
    assert_eq!(counts.sum::<u64>(), threads * updates, "updates were lost");
    conflicts.into_inner()
}

/// Whether the update succeeded, that is, no other thread changed the variable.
fn count_once(ledger: &Ledger, run: RunId, name: &str) -> bool {
    let (version, value) = match ledger.state().unwrap().runs[&run].variables.get(name) {
        Some(variable) => (variable.version, variable.value.value().as_u64().unwrap()),
        None => (0, 0),
    };
    let next = Json::new(&serde_json::json!(value + 1));
    match ledger.set_variable(run, name, next, Some(version), "counter") {
        Ok(set) => {
            assert_eq!(set, version + 1);
            true
        }
        Err(error) => match error.rejection() {
            Some(Rejection::VersionDiffers { expected, found }) => {
                assert!(*expected == version && *found > version, "{error}");
                false
            }
            _ => panic!("{error}"),
        },
    }
}

/// Of many concurrent compare-and-set updates none is lost.
#[test]
fn sweep_no_compare_and_set_update_is_lost() {
    let ledger = Ledger::create(&dir(), &simulated()).unwrap();
    let run = ledger.start_run("count", &plan(1), RunPolicy::default()).unwrap();
    let updates = sweep(1_250, 6_250, 6_250);
    let conflicts = count(&ledger, run, 16, updates, 8);
    assert!(conflicts > 0, "no conflict, so the threads never raced");
    let head = ledger.head();
    assert!(head.seq > 16 * updates);
    assert_eq!(state_hash(&ledger.state_at(head.seq).unwrap()), ledger.state_hash().unwrap());
}

/// The same on a real disk, where threads share syncs.
#[test]
fn no_compare_and_set_update_is_lost_on_a_real_disk() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("count.ledger");
    let ledger = Ledger::create(&folder, &Environment::system()).unwrap();
    let run = ledger.start_run("count", &plan(1), RunPolicy::default()).unwrap();
    count(&ledger, run, 8, 50, 2);
    let (head, hash) = (ledger.head(), ledger.state_hash().unwrap());
    ledger.close().unwrap();
    let (again, _) = Ledger::open_with(&folder, &Environment::system()).unwrap();
    assert_eq!((again.head(), again.state_hash().unwrap()), (head, hash));
}
