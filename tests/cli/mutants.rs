//! Mutation test: runs the modules of this binary against each mutant of `src/sim/mutants.rs`, one
//! at a time, until a test fails. A mutant that survives is a gap in the tests.
//!
//! Compiled only with `--cfg mutants`; start it with `tests/mutants/run`. `PLAN_LEDGER_MUTANTS`
//! selects the mutants: `all`, names separated by commas, or nothing for a sample.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};
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
const STORE: &[&str] = &["store_folder", "store_modes", "store_retention", "store_snapshots"];

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
/// one test. `tests/mutants/run all` writes the list. A new mutant gets a line with its test.
const KILLERS: &str = include_str!("../mutants/killers.txt");

/// The time limit of one module, which takes a minute or two: longer means that the mutant hangs it. The
/// limit is generous because other work on the machine slows the tests.
const TIMEOUT: Duration = Duration::from_secs(1200);

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
    let earlier = Earlier::read();
    let (problems, killed) = (Mutex::new(Vec::new()), AtomicUsize::new(0));
    let count = |mutant: Mutant, is_killed: bool| {
        killed.fetch_add(usize::from(is_killed), Ordering::Relaxed);
        if is_killed == (mutant == Mutant::NoOp) {
            problems.lock().unwrap().push(format!("{}: {}", mutant.name(), mutant.effect()));
        }
    };
    let (done, open): (Vec<_>, Vec<_>) =
        mutants.iter().copied().partition(|mutant| earlier.line(*mutant).is_some());
    for mutant in done {
        let line = earlier.line(mutant).unwrap();
        println!("{line}");
        count(mutant, line.contains(" killed-by="));
    }
    let finish = |mutant: Mutant, run: Run| {
        let line = report_line(mutant, &run);
        println!("{line}");
        if run.unrelated.is_empty() {
            earlier.append(&line);
        }
        count(mutant, run.killer.is_some());
        problems.lock().unwrap().extend(run.unrelated);
    };
    // One test for each mutant, on all processors.
    let (next, rest) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for worker in 0..std::thread::available_parallelism().map_or(1, NonZeroUsize::get) {
            let (next, rest, open, finish) = (&next, &rest, &open, &finish);
            scope.spawn(move || {
                while let Some(mutant) = open.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match run_killer(*mutant, worker) {
                        Some(run) => finish(*mutant, run),
                        None => rest.lock().unwrap().push(*mutant),
                    }
                }
            });
        }
    });
    // The mutants that no test is known to find, or that it finds no more.
    for mutant in rest.into_inner().unwrap() {
        let modules = match mutant.hazard() {
            _ if is_sample => SAMPLE_MODULES.to_vec(),
            "none" => every_module(),
            hazard if hazard.starts_with('P') => PLANS.to_vec(),
            hazard if hazard.starts_with('S') => SERVICE.to_vec(),
            _ => engine_modules(mutant),
        };
        finish(mutant, run_modules(mutant, &modules));
    }
    let total = mutants.iter().filter(|mutant| **mutant != Mutant::NoOp).count();
    println!("mutants: total={total} killed={}", killed.into_inner());
    let problems = problems.into_inner().unwrap();
    assert!(problems.is_empty(), "unexpected results:\n{}", problems.join("\n"));
}

/// Every module, also those of the tests that found mutants before. Without an effect, a mutant must survive all of
/// them: so without a mutant, every test passes.
fn every_module() -> Vec<&'static str> {
    let mut modules = Vec::new();
    let killers = KILLERS.lines().filter_map(|line| line.split_once(' ')?.1.split("::").next());
    for module in
        [ENGINE, DERIVED_FILES, ERASURE, STORE, PLANS, SERVICE].concat().into_iter().chain(killers)
    {
        if !modules.contains(&module) {
            modules.push(module);
        }
    }
    modules
}

/// The lines of an interrupted run, in the file that `PLAN_LEDGER_MUTANTS_FOUND` names: its mutants are not
/// run again, and new lines are appended.
struct Earlier {
    path: Option<PathBuf>,
    lines: Vec<String>,
}

impl Earlier {
    fn read() -> Self {
        let path = std::env::var_os("PLAN_LEDGER_MUTANTS_FOUND").map(PathBuf::from);
        let text = path.as_ref().and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
        // A line without an end was interrupted.
        let lines = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
        Self { lines: lines.map(str::to_owned).collect(), path }
    }

    fn line(&self, mutant: Mutant) -> Option<&str> {
        let start = format!("mutant: {} ", mutant.name());
        self.lines.iter().map(String::as_str).find(|line| line.starts_with(&start))
    }

    fn append(&self, line: &str) {
        let Some(path) = &self.path else { return };
        let mut file = File::options().create(true).append(true).open(path).unwrap();
        // In one call: several threads append.
        file.write_all(format!("{line}\n").as_bytes()).unwrap();
    }
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

/// Run the test that found the mutant before; `None` if it finds it no more.
fn run_killer(mutant: Mutant, worker: usize) -> Option<Run> {
    let killer = |line: &'static str| line.split_once(' ').filter(|(it, _)| *it == mutant.name());
    let (_, test) = KILLERS.lines().find_map(killer)?;
    let run = run_each(mutant, worker, &[&[test, "--exact"]]);
    run.killer.is_some().then_some(run)
}

/// Run one module after the other until a test fails.
fn run_modules(mutant: Mutant, modules: &[&str]) -> Run {
    let filters: Vec<String> = modules.iter().map(|module| format!("{module}::")).collect();
    let filters: Vec<[&str; 1]> = filters.iter().map(|filter| [filter.as_str()]).collect();
    run_each(mutant, 0, &filters.iter().map(<[&str; 1]>::as_slice).collect::<Vec<_>>())
}

/// Run the tests that each of the filters selects, until one fails.
fn run_each(mutant: Mutant, worker: usize, filters: &[&[&str]]) -> Run {
    let start = Instant::now();
    let (unrelated, time) = (Vec::new(), Duration::ZERO);
    let mut run = Run { killer: None, passed: 0, hits: None, unrelated, time };
    for filter in filters {
        run_selected(mutant, worker, filter, &mut run);
        if run.killer.is_some() {
            break;
        }
    }
    run.time = start.elapsed();
    run
}

/// Run the selected tests until one fails, the process dies, or the time is up.
fn run_selected(mutant: Mutant, worker: usize, filter: &[&str], run: &mut Run) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mutants").join(worker.to_string());
    fs::create_dir_all(&folder).unwrap();
    let (stderr, reached) = (folder.join("stderr"), folder.join("reached"));
    let _ = fs::remove_file(&reached);
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(filter).arg("--test-threads=2").stdout(Stdio::piped());
    command.stderr(File::create(&stderr).unwrap());
    command.env(CHOICE, mutant.name());
    // A process that may write no files cannot write this one. NoOp must survive such tests, too.
    if mutant != Mutant::NoOp {
        command.env(REACHED, &reached);
    }
    let mut child = command.spawn().unwrap();
    let (send, lines) = mpsc::channel();
    let out = BufReader::new(child.stdout.take().unwrap());
    let reading = std::thread::spawn(move || {
        out.lines().map_while(Result::ok).for_each(|line| drop(send.send(line)));
    });
    let (deadline, name) = (Instant::now() + TIMEOUT, filter[0].trim_end_matches("::"));
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
            Err(mpsc::RecvTimeoutError::Timeout) => break Some(format!("{name}::hangs")),
            Err(mpsc::RecvTimeoutError::Disconnected) if is_over => break None,
            Err(mpsc::RecvTimeoutError::Disconnected) => break Some(format!("{name}::dies")),
        }
    };
    let _ = child.kill();
    let _ = child.wait();
    drop(lines);
    // A process that a test left running may keep the pipe open: do not join the reader.
    drop(reading);
    let stderr = fs::read_to_string(&stderr).unwrap_or_default();
    if let Some(test) = &killer
        && !reached.exists()
    {
        run.unrelated.push(format!("{test} fails, but never reached {mutant:?}:\n{stderr}"));
        return;
    }
    let hits = stderr.lines().rev().find_map(|line| line.strip_prefix("mutant: hits "));
    run.hits = hits.and_then(|count| count.parse().ok());
    run.killer = killer;
}
