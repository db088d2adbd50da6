//! The bug zoo: each bug of `src/zoo.rs` is let loose in the tests of the laboratory, one at a time,
//! until one of them fails. A bug that all of them let pass is a gap in the tests.
//!
//! Only in a build with `--cfg bug_zoo`. `PLAN_LEDGER_ZOO` says which bugs: `all`, names with
//! commas between them, or nothing for a sample.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use plan_ledger::zoo::{Bug, CHOICE, TOLD};

/// The laboratory: modules of this binary, the quick ones first.
const LABORATORY: &[&str] = &[
    "trace",
    "turns",
    "log_files",
    "log_lock",
    "log_stop",
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
    "based",
    "verify",
    "verify_derived",
    "sealed",
    "readers",
    "salvage",
    "log_damage",
    "rare",
    "operator_commands",
    "run",
    "concurrent_claims",
];

/// Where bugs of snapshots, prunes and blobs are looked for first.
const BESIDE_THE_LOG: &[&str] = &["blobs", "snapshots", "based", "retention"];

/// The same for bugs of plans.
const OF_PLANS: &[&str] = &[
    "claims",
    "workflows",
    "facade",
    "operator_commands",
    "histories",
    "run",
    "concurrent_claims",
];

/// The same for bugs of serving others.
const OF_SERVICE: &[&str] = &[
    "answers",
    "facade",
    "external_workers",
    "socket",
    "acts",
    "concurrent_claims",
    "retention",
    "operator_commands",
    "run",
];

/// What is tried where nobody says what: bugs of all kinds that are found soon.
const SAMPLE: &[Bug] = &[
    Bug::SegmentNameUnsynced,
    Bug::AckBeforeSync,
    Bug::HeadBeforeSync,
    Bug::SyncRetried,
    Bug::TornTailCut,
    Bug::NewestMissingIgnored,
    Bug::StaleSegmentAccepted,
    Bug::OwnershipUnchecked,
    Bug::HarmfulRedealt,
    Bug::BarrierReleasedEarly,
    Bug::Harmless,
];

/// What the sample is tried with: minutes, not an hour.
const SAMPLED: &[&str] = &["trace", "log_files", "claims", "hazards", "facade", "log_stop"];

/// How long a module of tests may take that takes a minute at most: beyond, the bug hangs it. So long
/// because a hunt gives way to whatever else the machine does.
const PATIENCE: Duration = Duration::from_secs(3600);

/// What became of a bug.
struct Verdict {
    /// The test that found it.
    killer: Option<String>,
    /// How many tests had passed before.
    passed: usize,
    /// How often the bug had been come upon in the test's own process when a test last panicked.
    acted: Option<u64>,
    /// Tests that failed for another reason.
    others: Vec<String>,
    time: Duration,
}

/// Goal: every seeded bug is found, the one that does nothing is not, and where there is none
/// nothing fails: so each of these tests can fail, and fails for a reason.
#[test]
fn every_seeded_bug_is_found() {
    let wanted = std::env::var("PLAN_LEDGER_ZOO").unwrap_or_default();
    let (bugs, is_sample): (Vec<Bug>, bool) = match wanted.as_str() {
        "" => (SAMPLE.to_vec(), true),
        "all" => (Bug::ALL.to_vec(), false),
        names => (names.split(',').map(named).collect(), false),
    };
    let mut wrong = Vec::new();
    if wanted == "all" {
        let calm = hunt(None, LABORATORY);
        wrong.extend(calm.killer.map(|killer| format!("no bug, and {killer} fails")));
    }
    let mut killed = 0;
    for bug in &bugs {
        let rooms = match bug.hazard() {
            _ if is_sample => SAMPLED.to_vec(),
            hazard if hazard.starts_with('P') => OF_PLANS.to_vec(),
            hazard if hazard.starts_with('S') => OF_SERVICE.to_vec(),
            _ => laboratory(*bug),
        };
        let mut verdict = hunt(Some(*bug), &rooms);
        wrong.append(&mut verdict.others);
        println!("{}", line(*bug, &verdict));
        killed += usize::from(verdict.killer.is_some());
        if verdict.killer.is_some() == (*bug == Bug::Harmless) {
            wrong.push(format!("{}: {}", bug.name(), bug.does()));
        }
    }
    println!("zoo: bugs={} killed={killed}", bugs.iter().filter(|b| **b != Bug::Harmless).count());
    assert!(wrong.is_empty(), "not as it should be:\n{}", wrong.join("\n"));
}

/// All of the laboratory, and first where such a bug is at home.
fn laboratory(bug: Bug) -> Vec<&'static str> {
    let beside = ["Snapshot", "Run", "Glance", "Prune", "Blob"];
    let is_beside = beside.iter().any(|kind| bug.name().starts_with(kind));
    let near = if is_beside { BESIDE_THE_LOG } else { &[] };
    let rest = LABORATORY.iter().filter(|room| !near.contains(room));
    near.iter().chain(rest).copied().collect()
}

fn named(name: &str) -> Bug {
    Bug::ALL.iter().copied().find(|bug| bug.name() == name).expect("the name of a bug")
}

/// One line for programs.
fn line(bug: Bug, verdict: &Verdict) -> String {
    let acted = verdict.acted.map_or("unknown".to_owned(), |count| count.to_string());
    let end = match &verdict.killer {
        Some(killer) => format!("killed-by={killer} acted={acted}"),
        None => "survived".to_owned(),
    };
    let (name, hazards) = (bug.name(), bug.hazard().replace(' ', "+"));
    let seconds = verdict.time.as_secs_f64();
    format!("zoo: {name} {hazards} {end} passed-before={} seconds={seconds:.1}", verdict.passed)
}

/// Let a bug loose in one module after the other, until a test fails.
fn hunt(bug: Option<Bug>, rooms: &[&str]) -> Verdict {
    let begun = Instant::now();
    let (others, time) = (Vec::new(), Duration::ZERO);
    let mut verdict = Verdict { killer: None, passed: 0, acted: None, others, time };
    for room in rooms {
        search(bug, room, &mut verdict);
        if verdict.killer.is_some() {
            break;
        }
    }
    verdict.time = begun.elapsed();
    verdict
}

/// Run the tests of a module until one fails, the process dies, or it hangs.
fn search(bug: Option<Bug>, room: &str, verdict: &mut Verdict) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("zoo");
    fs::create_dir_all(&folder).unwrap();
    let (told, acted) = (folder.join("stderr"), folder.join("acted"));
    let _ = fs::remove_file(&acted);
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([&format!("{room}::"), "--test-threads=2"]).stdout(Stdio::piped());
    command.stderr(File::create(&told).unwrap()).env_remove(CHOICE);
    command.env(TOLD, &acted);
    if let Some(bug) = bug {
        command.env(CHOICE, bug.name());
    }
    let mut child = command.spawn().unwrap();
    let (send, lines) = mpsc::channel();
    let out = BufReader::new(child.stdout.take().unwrap());
    let reading = std::thread::spawn(move || {
        out.lines().map_while(Result::ok).for_each(|line| drop(send.send(line)));
    });
    let deadline = Instant::now() + PATIENCE;
    let mut is_over = false;
    let killer = loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match lines.recv_timeout(left) {
            Ok(line) => {
                let test = line.strip_prefix("test ").unwrap_or_default();
                // Filters are parts of names: `hazards` is one of `log_hazards`, too.
                if let Some(test) = test.strip_suffix(" ... FAILED") {
                    break Some(test.to_owned());
                }
                verdict.passed += usize::from(test.ends_with(" ... ok"));
                is_over |= line.starts_with("test result: ok");
            }
            Err(mpsc::RecvTimeoutError::Timeout) => break Some(format!("{room}:hangs")),
            Err(mpsc::RecvTimeoutError::Disconnected) if is_over => break None,
            Err(mpsc::RecvTimeoutError::Disconnected) => break Some(format!("{room}:dies")),
        }
    };
    let _ = child.kill();
    let _ = child.wait();
    drop(lines);
    // A process that a test left behind may hold the pipe: nobody waits for it.
    drop(reading);
    let told = fs::read_to_string(&told).unwrap_or_default();
    if let Some(other) = &killer
        && bug.is_some()
        && !acted.exists()
    {
        verdict.others.push(format!("{other} fails, and not for {bug:?}:\n{told}"));
        return;
    }
    let acted = told.lines().rev().find_map(|line| line.strip_prefix("zoo: acted "));
    verdict.acted = acted.and_then(|count| count.parse().ok());
    verdict.killer = killer;
}
