//! Many at once: threads and processes that want the same step, and the same variable.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plan_ledger::plan::{Json, Rejection, StepNumber, StepStatus};
use plan_ledger::sim::SimDisk;
use plan_ledger::{
    Environment, ErrorKind, Ledger, LedgerView, Plan, RunId, RunPolicy, Step, state_hash,
};

use crate::golden::deterministic;
use crate::lab::dir;

/// Steps that depend on nothing, and whose attempts nobody loses.
fn plan(count: u32) -> Plan {
    let step = |number: u32| Step { id: format!("s{number}"), ..Step::default() };
    let mut plan = Plan { steps: (1..=count).map(step).collect(), ..Plan::default() };
    plan.defaults.lease_seconds = Some(1_000_000);
    plan
}

fn simulated() -> Environment {
    Environment { storage: Arc::new(SimDisk::new()), ..deterministic() }
}

/// Who got a step, and what everybody else was told: who has it.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Claims {
    winners: Vec<(String, u64)>,
    told: Vec<(String, u64)>,
}

/// One claim of a named step; whatever it came to.
fn claim(ledger: &Ledger, run: RunId, step: StepNumber, worker: &str, claims: &mut Claims) {
    match ledger.claim(run, step, worker) {
        Ok(task) => {
            assert_eq!(task.number, step);
            claims.winners.push((worker.to_owned(), task.lease_until));
        }
        Err(error) => match error.rejection() {
            Some(Rejection::HeldBy { step: held, worker, lease_until }) if *held == step => {
                claims.told.push((worker.clone(), *lease_until));
            }
            _ => panic!("{error}"),
        },
    }
}

fn check(claims: &BTreeMap<u32, Claims>, steps: u32, claimants: usize) {
    assert_eq!(claims.len(), usize::try_from(steps).unwrap());
    for (step, Claims { winners, told }) in claims {
        let [winner] = winners.as_slice() else { panic!("step {step} was won by {winners:?}") };
        assert_eq!(told.len(), claimants - 1, "step {step}");
        assert!(told.iter().all(|each| each == winner), "step {step}: {winner:?}, {told:?}");
    }
}

/// Goal: of those who want the same step at the same time exactly one gets it, and every other is
/// told who has it, and until when.
/// Method: 64 threads; of 10,000 steps each is wanted by the eight threads that come by next.
#[test]
fn of_64_threads_and_10_000_steps_each_step_has_one_winner() {
    const STEPS: u32 = 10_000;
    const CLAIMANTS: u32 = 8;
    let ledger = Ledger::create(&dir(), &simulated()).unwrap();
    let run = ledger.start_run("race", &plan(STEPS), RunPolicy::default()).unwrap();
    let turn = AtomicU32::new(0);
    let all: Mutex<BTreeMap<u32, Claims>> = Mutex::default();
    std::thread::scope(|scope| {
        for thread in 0..64 {
            let (ledger, turn, all) = (&ledger, &turn, &all);
            scope.spawn(move || {
                let worker = format!("thread {thread}");
                let mut own: BTreeMap<u32, Claims> = BTreeMap::new();
                loop {
                    let step = turn.fetch_add(1, Ordering::Relaxed) / CLAIMANTS + 1;
                    if step > STEPS {
                        break;
                    }
                    claim(ledger, run, StepNumber(step), &worker, own.entry(step).or_default());
                }
                let mut all = all.lock().unwrap();
                for (step, mut claims) in own {
                    let entry = all.entry(step).or_default();
                    entry.winners.append(&mut claims.winners);
                    entry.told.append(&mut claims.told);
                }
            });
        }
    });
    check(&all.into_inner().unwrap(), STEPS, usize::try_from(CLAIMANTS).unwrap());
    let state = ledger.state().unwrap();
    assert_eq!(state.runs[&run].count(StepStatus::Dispatched), STEPS);
    assert_eq!(state_hash(&ledger.state_at(ledger.head().seq).unwrap()), state_hash(&state));
}

/// Goal: whoever takes what comes next gets what nobody else got, until there is no more.
#[test]
fn of_64_threads_that_take_what_comes_next_no_two_get_the_same() {
    const STEPS: u32 = 2_000;
    let ledger = Ledger::create(&dir(), &simulated()).unwrap();
    let run = ledger.start_run("race", &plan(STEPS), RunPolicy::default()).unwrap();
    let dealt: Mutex<Vec<u32>> = Mutex::default();
    std::thread::scope(|scope| {
        for thread in 0..64 {
            let (ledger, dealt) = (&ledger, &dealt);
            scope.spawn(move || {
                let worker = format!("thread {thread}");
                while let Some(task) = ledger.dispatch(run, &worker).unwrap() {
                    dealt.lock().unwrap().push(task.number.0);
                }
            });
        }
    });
    let mut dealt = dealt.into_inner().unwrap();
    dealt.sort_unstable();
    assert_eq!(dealt, (1..=STEPS).collect::<Vec<_>>());
}

const CHILD: &str = "LEDGER_TEST_RACE";
const PROCESSES: u32 = 8;
const STEPS: u32 = 200;
/// So many steps are claimed before the ledger is left to the next process.
const AT_ONCE: usize = 8;
/// What a child says when it has been at the ledger once; it goes on when it is told to. So each
/// has won something, however late the system starts it.
const FIRST_TURN_DONE: &str = "first turn done";

/// Not a test of its own: what each child process of the next one does.
#[test]
fn child_that_claims() {
    let Ok(which) = std::env::var(CHILD) else { return };
    let (number, folder) = which.split_once(' ').unwrap();
    let number: u32 = number.parse().unwrap();
    let worker = format!("process {number}");
    let order = (0..STEPS).map(|place| (place + number * STEPS / PROCESSES) % STEPS + 1);
    for (turn, steps) in order.collect::<Vec<_>>().chunks(AT_ONCE).enumerate() {
        if turn == 1 {
            println!("\n{FIRST_TURN_DONE}");
            std::io::stdin().read_line(&mut String::new()).unwrap();
        }
        let ledger = open_when_free(Path::new(folder));
        let run = ledger.state().unwrap().run_named("race").unwrap().id;
        for step in steps {
            let mut claims = Claims::default();
            claim(&ledger, run, StepNumber(*step), &worker, &mut claims);
            let Claims { winners, told } = claims;
            for (who, until) in winners {
                println!("\nclaim {step} won {until} {who}");
            }
            for (who, until) in told {
                println!("\nclaim {step} told {until} {who}");
            }
        }
        ledger.close().unwrap();
    }
}

/// The ledger, once nobody else has it.
fn open_when_free(folder: &Path) -> Ledger {
    loop {
        match Ledger::open(folder, &Environment::system()) {
            Ok((ledger, _)) => return ledger,
            Err(error) if error.kind() == ErrorKind::Locked => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Goal: processes that open the ledger one after another, and all want the same steps: one gets
/// each, and the others are told who.
#[test]
fn of_8_processes_and_200_steps_each_step_has_one_winner() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("race.ledger");
    let ledger = Ledger::create(&folder, &Environment::system()).unwrap();
    let run = ledger.start_run("race", &plan(STEPS), RunPolicy::default()).unwrap();
    ledger.close().unwrap();
    let child = |number: u32| {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "concurrent_claims::child_that_claims", "--nocapture"])
            .env(CHILD, format!("{number} {}", folder.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let mut children: Vec<_> = (0..PROCESSES).map(child).collect();
    let mut all: BTreeMap<u32, Claims> = BTreeMap::new();
    let mut said: Vec<_> =
        children.iter_mut().map(|child| BufReader::new(child.stdout.take().unwrap())).collect();
    let mut lines: Vec<String> = Vec::new();
    for said in &mut said {
        lines.extend(said.lines().map(Result::unwrap).take_while(|line| line != FIRST_TURN_DONE));
    }
    for child in &mut children {
        child.stdin.take().unwrap().write_all(b"\n").unwrap();
    }
    for (mut child, said) in children.into_iter().zip(said) {
        lines.extend(said.lines().map(Result::unwrap));
        assert!(child.wait().unwrap().success());
    }
    for line in &lines {
        let Some(claimed) = line.strip_prefix("claim ") else { continue };
        let words: Vec<&str> = claimed.splitn(4, ' ').collect();
        let claims = all.entry(words[0].parse().unwrap()).or_default();
        let list = if words[1] == "won" { &mut claims.winners } else { &mut claims.told };
        list.push((words[3].to_owned(), words[2].parse().unwrap()));
    }
    let processes = usize::try_from(PROCESSES).unwrap();
    check(&all, STEPS, processes);
    let winners: std::collections::BTreeSet<_> =
        all.values().map(|claims| claims.winners[0].0.clone()).collect();
    assert_eq!(winners.len(), processes, "each has its first turn: {winners:?}");
    let view = LedgerView::open(&folder, &Environment::system()).unwrap();
    let run = view.run(run).unwrap();
    for (step, claims) in &all {
        let attempt = run.step(StepNumber(*step)).unwrap().attempt().cloned().unwrap();
        assert_eq!((attempt.worker, attempt.lease_until), claims.winners[0], "step {step}");
    }
}

/// Threads that count in shared variables: each reads a value, and sets the next one if nobody
/// came between. How often somebody did.
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
        assert_eq!(variable.version, value, "set as often as it was counted up");
        value
    });
    assert_eq!(counts.sum::<u64>(), threads * updates, "updates were lost");
    conflicts.into_inner()
}

/// Whether nobody came between.
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

/// Goal: of 100,000 updates by many threads at once, each bound to the version that it read, not
/// one is lost.
#[test]
fn of_100_000_updates_that_are_bound_to_a_version_none_is_lost() {
    let ledger = Ledger::create(&dir(), &simulated()).unwrap();
    let run = ledger.start_run("count", &plan(1), RunPolicy::default()).unwrap();
    let conflicts = count(&ledger, run, 16, 6_250, 8);
    assert!(conflicts > 0, "nobody ever came between: no race");
    let head = ledger.head();
    assert!(head.seq > 100_000);
    assert_eq!(state_hash(&ledger.state_at(head.seq).unwrap()), ledger.state_hash().unwrap());
}

/// Goal: the same on a real disk, where a sync takes its time and is shared.
#[test]
fn of_updates_on_a_real_disk_none_is_lost() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("count.ledger");
    let ledger = Ledger::create(&folder, &Environment::system()).unwrap();
    let run = ledger.start_run("count", &plan(1), RunPolicy::default()).unwrap();
    count(&ledger, run, 8, 50, 2);
    let (head, hash) = (ledger.head(), ledger.state_hash().unwrap());
    ledger.close().unwrap();
    let (again, _) = Ledger::open(&folder, &Environment::system()).unwrap();
    assert_eq!((again.head(), again.state_hash().unwrap()), (head, hash));
}
