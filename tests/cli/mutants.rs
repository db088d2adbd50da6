//! Mutation test: runs the modules of this binary against each mutant of `src/sim/mutants.rs`, one
//! at a time, until a test fails. A mutant that survives is a gap in the tests.
//!
//! Compiled only with `--cfg mutants`; start it with `tests/mutants/run`. `PLAN_LEDGER_MUTANTS`
//! selects the mutants: `all`, names separated by commas, or nothing for a sample.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use plan_ledger::internals::sim::mutants::{CHOICE, Mutant, REACHED};

/// Modules that test the engine, fast ones first.
const ENGINE: &[&str] = &[
    "disk_trace",
    "log_flush",
    "log_files",
    "log_lock",
    "log_fencing",
    "log_round_trip",
    "log_keys",
    "hazards",
    "facade",
    "backups",
    "follow",
    "log_hazards",
    "log_faults",
    "log_crash",
    "group_commit",
    "retention",
    "blobs",
    "snapshots",
    "delta_snapshots",
    "verify",
    "verify_derived",
    "sealed_segments",
    "readers",
    "salvage",
    "log_damage",
    "unreadable_sectors",
    "head_slots",
    "inconsistent_metadata",
    "operator_commands",
    "other_users",
    "replaced_folder",
    "interrupts",
    "run",
    "concurrent_claims",
];

/// Modules that run first for mutants of snapshots, prunes and blobs.
const DERIVED_FILES: &[&str] = &["blobs", "snapshots", "delta_snapshots", "retention"];

/// Modules that run first for mutants of erasures.
const ERASURE: &[&str] = &["erasure_in_simulation", "erasure"];

/// Modules that run first for mutants of the store.
const STORE: &[&str] = &["store_folder"];

/// Modules for mutants of plans (hazards `P ...`).
const PLANS: &[&str] = &[
    "losses",
    "mission",
    "ledger_time",
    "claims",
    "evaluations",
    "workflows",
    "facade",
    "operator_commands",
    "run_reports",
    "run",
    "concurrent_claims",
];

/// Modules for mutants of the server and the runner (hazards `S ...`).
const SERVICE: &[&str] = &[
    "night",
    "other_users",
    "authority",
    "disk_full",
    "repeated_requests",
    "histories",
    "durable_answers",
    "facade",
    "external_workers",
    "socket",
    "acts",
    "concurrent_claims",
    "retention",
    "operator_commands",
    "run",
];

/// The mutants of a run without a selection: every class, and fast to kill.
const SAMPLE: &[Mutant] = &[
    Mutant::SegmentDirEntryUnsynced,
    Mutant::AckBeforeSync,
    Mutant::TornTailTruncated,
    Mutant::MissingNewestSegmentIgnored,
    Mutant::StaleSegmentAccepted,
    Mutant::LinkFollowed,
    Mutant::NonIdempotentStepRedispatched,
    Mutant::BarrierReleasedEarly,
    Mutant::NoOp,
];

/// The modules that the sample runs against: minutes, not an hour.
const SAMPLE_MODULES: &[&str] =
    &["disk_trace", "log_files", "claims", "other_users", "hazards", "facade", "log_fencing"];

/// The test that found each mutant before, `MUTANT TEST` on a line: it runs first, so that most mutants cost
/// one test. `tests/mutants/run all` writes the list.
const KILLERS: &str = include_str!("../mutants/killers.txt");

/// The time limit of one module, which takes a minute at most: longer means that the mutant hangs
/// it. The limit is generous because other work on the machine slows the tests.
const TIMEOUT: Duration = Duration::from_secs(3600);

/// The result of running modules against one mutant.
struct Run {
    /// The test that failed.
    killer: Option<String>,
    /// How many tests passed before it.
    passed: usize,
    /// How often the test process had reached the mutant when a test last panicked.
    hits: Option<u64>,
    /// Tests that failed although no process had reached the mutant.
    unrelated: Vec<String>,
    time: Duration,
}

/// Goal: some test kills each mutant, the mutant without effect survives, and without a mutant every
/// test passes. So each test can fail, and fails for a reason.
#[test]
fn every_mutant_is_killed() {
    let unknown = unknown_modules();
    assert!(unknown.is_empty(), "no such test modules: {}", unknown.join(", "));
    let selection = std::env::var("PLAN_LEDGER_MUTANTS").unwrap_or_default();
    let (mutants, is_sample): (Vec<Mutant>, bool) = match selection.as_str() {
        "" => (SAMPLE.to_vec(), true),
        "all" => (Mutant::ALL.to_vec(), false),
        names => (names.split(',').map(named).collect(), false),
    };
    let mut problems = Vec::new();
    if selection == "all" {
        let baseline = run_modules(None, ENGINE);
        problems.extend(baseline.killer.map(|test| format!("without a mutant, {test} fails")));
    }
    let mut killed = 0;
    for mutant in &mutants {
        let modules = match mutant.hazard() {
            _ if is_sample => SAMPLE_MODULES.to_vec(),
            hazard if hazard.starts_with('P') => PLANS.to_vec(),
            hazard if hazard.starts_with('S') => SERVICE.to_vec(),
            _ => engine_modules(*mutant),
        };
        let mut run = run_against(*mutant, &modules);
        problems.append(&mut run.unrelated);
        println!("{}", report_line(*mutant, &run));
        killed += usize::from(run.killer.is_some());
        if run.killer.is_some() == (*mutant == Mutant::NoOp) {
            problems.push(format!("{}: {}", mutant.name(), mutant.effect()));
        }
    }
    let total = mutants.iter().filter(|mutant| **mutant != Mutant::NoOp).count();
    println!("mutants: total={total} killed={killed}");
    assert!(problems.is_empty(), "unexpected results:\n{}", problems.join("\n"));
}

/// Modules that are named here and no longer exist: their filters would match no test.
fn unknown_modules() -> Vec<&'static str> {
    let main = include_str!("main.rs");
    let listed = [ENGINE, DERIVED_FILES, ERASURE, STORE, PLANS, SERVICE, SAMPLE_MODULES].concat();
    let is_known = |module: &&str| main.lines().any(|line| line == format!("mod {module};"));
    listed.into_iter().filter(|module| !is_known(module)).collect()
}

/// All engine modules, starting with those most likely to kill the mutant.
fn engine_modules(mutant: Mutant) -> Vec<&'static str> {
    let derived = ["Snapshot", "Run", "Prune", "Blob"];
    let is_derived = derived.iter().any(|file| mutant.name().contains(file));
    let is_erasure = mutant.name().contains("Eras") || mutant.hazard() == "H erasure";
    let is_store = mutant.hazard() == "H store";
    let first = match (is_erasure, is_derived) {
        _ if is_store => STORE,
        (true, _) => ERASURE,
        (false, true) => DERIVED_FILES,
        (false, false) => &[],
    };
    let rest = ENGINE.iter().filter(|module| !first.contains(module));
    first.iter().chain(rest).copied().collect()
}

fn named(name: &str) -> Mutant {
    let mutant = Mutant::ALL.iter().copied().find(|mutant| mutant.name() == name);
    mutant.unwrap_or_else(|| panic!("unknown mutant: {name}"))
}

/// One line for programs.
fn report_line(mutant: Mutant, run: &Run) -> String {
    let hits = run.hits.map_or("unknown".to_owned(), |count| count.to_string());
    let end = match &run.killer {
        Some(killer) => format!("killed-by={killer} hits={hits}"),
        None => "survived".to_owned(),
    };
    let (name, hazards) = (mutant.name(), mutant.hazard().replace(' ', "+"));
    let seconds = run.time.as_secs_f64();
    format!("mutant: {name} {hazards} {end} passed-before={} seconds={seconds:.1}", run.passed)
}

/// Run the test that found the mutant before, and the modules if it finds it no more.
fn run_against(mutant: Mutant, modules: &[&str]) -> Run {
    let killer = |line: &'static str| line.split_once(' ').filter(|(it, _)| *it == mutant.name());
    if let Some((_, test)) = KILLERS.lines().find_map(killer) {
        let run = run_each(Some(mutant), &[&[test, "--exact"]]);
        if run.killer.is_some() {
            return run;
        }
    }
    run_modules(Some(mutant), modules)
}

/// Run one module after the other until a test fails.
fn run_modules(mutant: Option<Mutant>, modules: &[&str]) -> Run {
    let filters: Vec<String> = modules.iter().map(|module| format!("{module}::")).collect();
    let filters: Vec<[&str; 1]> = filters.iter().map(|filter| [filter.as_str()]).collect();
    run_each(mutant, &filters.iter().map(<[&str; 1]>::as_slice).collect::<Vec<_>>())
}

/// Run the tests that each of the filters selects, until one fails.
fn run_each(mutant: Option<Mutant>, filters: &[&[&str]]) -> Run {
    let start = Instant::now();
    let (unrelated, time) = (Vec::new(), Duration::ZERO);
    let mut run = Run { killer: None, passed: 0, hits: None, unrelated, time };
    for filter in filters {
        run_selected(mutant, filter, &mut run);
        if run.killer.is_some() {
            break;
        }
    }
    run.time = start.elapsed();
    run
}

/// Run the selected tests until one fails, the process dies, or the time is up.
fn run_selected(mutant: Option<Mutant>, filter: &[&str], run: &mut Run) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mutants");
    fs::create_dir_all(&folder).unwrap();
    let (stderr, reached) = (folder.join("stderr"), folder.join("reached"));
    let _ = fs::remove_file(&reached);
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(filter).arg("--test-threads=2").stdout(Stdio::piped());
    command.stderr(File::create(&stderr).unwrap()).env_remove(CHOICE);
    command.env(REACHED, &reached);
    if let Some(mutant) = mutant {
        command.env(CHOICE, mutant.name());
    }
    let mut child = command.spawn().unwrap();
    let (send, lines) = mpsc::channel();
    let out = BufReader::new(child.stdout.take().unwrap());
    let reading = std::thread::spawn(move || {
        out.lines().map_while(Result::ok).for_each(|line| drop(send.send(line)));
    });
    let deadline = Instant::now() + TIMEOUT;
    let mut is_over = false;
    let killer = loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match lines.recv_timeout(left) {
            Ok(line) => {
                let test = line.strip_prefix("test ").unwrap_or_default();
                // Filters match parts of names: `hazards` also selects `log_hazards`.
                if let Some(test) = test.strip_suffix(" ... FAILED") {
                    break Some(test.to_owned());
                }
                run.passed += usize::from(test.ends_with(" ... ok"));
                is_over |= line.starts_with("test result: ok");
            }
            Err(mpsc::RecvTimeoutError::Timeout) => break Some(format!("{}hangs", filter[0])),
            Err(mpsc::RecvTimeoutError::Disconnected) if is_over => break None,
            Err(mpsc::RecvTimeoutError::Disconnected) => break Some(format!("{}dies", filter[0])),
        }
    };
    let _ = child.kill();
    let _ = child.wait();
    drop(lines);
    // A process that a test left running may keep the pipe open: do not join the reader.
    drop(reading);
    let stderr = fs::read_to_string(&stderr).unwrap_or_default();
    if let Some(test) = &killer
        && let Some(mutant) = mutant
        && !reached.exists()
    {
        run.unrelated.push(format!("{test} fails, but never reached {mutant:?}:\n{stderr}"));
        return;
    }
    let hits = stderr.lines().rev().find_map(|line| line.strip_prefix("mutant: hits "));
    run.hits = hits.and_then(|count| count.parse().ok());
    run.killer = killer;
}
