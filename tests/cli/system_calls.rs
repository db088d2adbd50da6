//! The real program on a real kernel: the order of its system calls, and short, interrupted calls.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use plan_ledger::StepStatus;

use super::command::{Place, ids, report_skipped, start};

/// A plan whose outputs fill more than one segment, one of them large enough for a blob.
fn plan() -> String {
    let step = |n: usize| {
        let size = if n == 7 { 100_000 } else { 60_000 };
        format!(
            "  - {{id: s{n}, command: 'echo $LEDGER_STEP >> $TALLY; \
             head -c {size} /dev/zero | tr \"\\0\" x'}}\n"
        )
    };
    format!("steps:\n{}", (0..24).map(step).collect::<String>())
}

/// A completed system call.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Call {
    Write(PathBuf),
    Sync(PathBuf),
    Rename(PathBuf, PathBuf),
    /// A worker, or a child process of one.
    Start,
}

/// Parses strace output: process and call, in the order of completion.
fn calls(text: &str, folder: &Path) -> Vec<(String, Call)> {
    let mut unfinished: Vec<(String, String)> = Vec::new();
    let mut calls = Vec::new();
    for line in text.lines() {
        let Some((process, rest)) = line.split_once(' ') else { continue };
        let rest = rest.trim_start();
        if let Some(call) = rest.strip_suffix(" <unfinished ...>") {
            unfinished.push((process.to_owned(), call.to_owned()));
            continue;
        }
        let whole = if rest.starts_with("<... ") {
            let call = unfinished.iter().rposition(|(other, _)| other == process);
            let Some(call) = call else { continue };
            let (_, call) = unfinished.remove(call);
            format!("{call}{}", rest.split_once("resumed>").map_or("", |(_, end)| end))
        } else {
            rest.to_owned()
        };
        calls.extend(call(&whole, folder).map(|call| (process.to_owned(), call)));
    }
    calls
}

fn call(line: &str, folder: &Path) -> Option<Call> {
    let (name, rest) = line.split_once('(')?;
    let (arguments, answer) = rest.rsplit_once(" = ")?;
    if answer.starts_with('-') {
        return None;
    }
    // With `-y`, strace prints the path of an open file in angle brackets.
    let open = || {
        let path = arguments.split_once('<')?.1.split_once('>')?.0;
        Some(folder.join(path))
    };
    let quoted: Vec<&str> = arguments.split('"').skip(1).step_by(2).collect();
    match name {
        "pwrite64" | "write" => Some(Call::Write(open()?)),
        "fdatasync" | "fsync" => Some(Call::Sync(open()?)),
        "rename" => Some(Call::Rename(folder.join(quoted.first()?), folder.join(quoted.get(1)?))),
        "renameat" | "renameat2" => {
            // The open folders before the names.
            let mut parts = arguments.split(", ");
            let mut path = || {
                let at = parts.next()?.split_once('<').map_or("", |(_, path)| path);
                let name = parts.next()?.trim_end_matches(')').trim_matches('"');
                Some(folder.join(at.strip_suffix('>').unwrap_or_default()).join(name))
            };
            Some(Call::Rename(path()?, path()?))
        }
        "execve" => Some(Call::Start),
        _ => None,
    }
}

/// Runs `ledger` under strace; `None` if strace is missing or may not trace.
fn traced(place: &Place, words: &[&str]) -> Option<Vec<(String, Call)>> {
    let trace = place.path("trace");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-y", "-s", "4096", "-e"]);
    strace.arg("trace=pwrite64,write,fdatasync,fsync,rename,renameat,renameat2,execve");
    strace.arg("-o").arg(&trace).arg(env!("CARGO_BIN_EXE_ledger")).args(words);
    strace.current_dir(place.path("")).env("TALLY", place.path("tally"));
    match Command::new("strace").args(["-o", "/dev/null", "true"]).output() {
        Ok(output) if output.status.success() => {}
        found => {
            report_skipped(
                found.map_or("strace is not installed", |_| "strace may not trace here"),
            );
            return None;
        }
    }
    start(&mut strace).end().code(0);
    let text = String::from_utf8_lossy(&std::fs::read(&trace).unwrap()).into_owned();
    Some(calls(&text, &place.path("").canonicalize().unwrap()))
}

/// The final name of a file that still has a temporary name, or is in a temporary folder.
fn final_name(path: &Path) -> PathBuf {
    let path = path.to_string_lossy();
    let path = match path.split_once(".new-ledger.tmp") {
        // Before it are a full stop and 16 random digits.
        Some((before, rest)) => format!("{}{rest}", &before[..before.len() - 17]),
        None => path.into_owned(),
    };
    PathBuf::from(path.replace(".tmp", ""))
}

fn is_segment(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "seg")
}

/// Whether a file belongs to the ledger itself, not to its workers' scratch folder.
fn is_of_ledger(path: &Path) -> bool {
    let is_ledger =
        |folder: &&Path| final_name(folder).extension().is_some_and(|it| it == "ledger");
    let ledger = path.ancestors().find(is_ledger);
    ledger.is_some_and(|ledger| !path.starts_with(ledger.join("work")))
}

/// Tracks what is not durable yet, as an observer of the system calls.
#[derive(Default)]
struct DurabilityTracker {
    /// Files with unsynced bytes.
    dirty: BTreeSet<PathBuf>,
    /// Folders with unsynced names.
    unnamed: BTreeSet<PathBuf>,
    /// The segment that receives records.
    active: Option<PathBuf>,
    renamed: Vec<PathBuf>,
    acks: usize,
}

impl DurabilityTracker {
    fn observe(&mut self, call: &Call) {
        match call {
            Call::Write(path) => self.write(path),
            Call::Sync(path) => {
                self.dirty.remove(path);
                self.unnamed.remove(path);
            }
            Call::Rename(from, to) => self.rename(from, to),
            Call::Start => self.acknowledged("a worker is started"),
        }
    }

    fn write(&mut self, path: &Path) {
        if path.ends_with("HEAD") {
            // HEAD declares the log durable, so it must be.
            if let Some(active) = &self.active {
                assert!(!self.dirty.contains(active), "HEAD before {}", active.display());
            }
        }
        let is_record = is_segment(path) && self.active.as_deref() == Some(path);
        if is_record || path.ends_with("HEAD") {
            let log = |folder: &PathBuf| !folder.ends_with("snap");
            let unnamed: Vec<_> = self.unnamed.iter().filter(|folder| log(folder)).collect();
            // HEAD is created before the folder of a new ledger gets its final name.
            assert!(unnamed.is_empty(), "{} before {unnamed:?} was synced", path.display());
        }
        if is_of_ledger(path) {
            self.dirty.insert(path.to_owned());
        }
    }

    fn rename(&mut self, from: &Path, to: &Path) {
        // The files of workers and those in the user's state folder prove nothing, and may be lost.
        if !is_of_ledger(to) {
            return;
        }
        let below = |path: &PathBuf| path.starts_with(from) && !path.ends_with("LOCK");
        let dirty: Vec<_> = self.dirty.iter().filter(|path| below(path)).collect();
        assert!(dirty.is_empty(), "{} was renamed before {dirty:?} was synced", to.display());
        if to.extension().is_some_and(|extension| extension == "ledger") {
            for folder in [from.to_owned(), from.join("log")] {
                assert!(!self.unnamed.contains(&folder), "{} unsynced", folder.display());
            }
            self.active = self.active.as_deref().map(final_name);
        }
        if is_segment(to) {
            self.active = Some(to.to_owned());
        }
        self.unnamed.insert(to.parent().unwrap().to_owned());
        self.renamed.push(to.to_owned());
    }

    fn acknowledged(&mut self, what: &str) {
        let active = self.active.as_ref().filter(|active| self.dirty.contains(*active));
        assert!(active.is_none(), "{what}, but {active:?} is not synced");
        assert!(self.unnamed.is_empty(), "{what}, but {:?} is not synced", self.unnamed);
        self.acks += 1;
    }
}

/// System calls come in the order that durability requires (H19, H20, H21, H28, H41, H52): create,
/// write, fdatasync, rename, fsync of the folder, and only then HEAD and anything that depends on
/// an acknowledgement, such as the start of a worker.
///
/// Traces the real program while it creates a ledger, a second segment, a blob and a snapshot.
#[test]
fn system_calls_follow_the_durability_order() {
    let place = Place::new();
    place.write("plan.yaml", plan());
    let run = ["run", "plan.yaml", "--ledger", "a.ledger", "--max-parallel", "1"];
    let Some(calls) = traced(&place, &run) else { return };
    let mut tracker = DurabilityTracker::default();
    // The first execve is the program itself.
    let first = calls.iter().position(|(_, call)| *call == Call::Start).unwrap();
    let own = &calls[first].0;
    for (place, (process, call)) in calls.iter().enumerate().skip(first + 1) {
        let is_worker = process != own && *call == Call::Start;
        let is_first = !calls[..place].iter().any(|(other, _)| other == process);
        // Processes that a worker starts depend on no acknowledgement.
        if *call != Call::Start || (is_worker && is_first) {
            tracker.observe(call);
        }
    }
    let count = |part: &str| {
        tracker.renamed.iter().filter(|path| path.to_string_lossy().contains(part)).count()
    };
    assert!(tracker.acks >= 24, "too few acknowledgements: {}", tracker.acks);
    assert!(count(".seg") >= 2, "too few segments: {:?}", tracker.renamed);
    assert!(count("/blob/") == 1, "no blob: {:?}", tracker.renamed);
    assert!(tracker.renamed.contains(&place.path("a.ledger").canonicalize().unwrap()));

    let calls = traced(&place, &["snapshot", "a.ledger"]).unwrap();
    let mut tracker = DurabilityTracker::default();
    calls
        .iter()
        .filter(|(_, call)| *call != Call::Start)
        .for_each(|(_, call)| tracker.observe(call));
    let made = tracker.renamed.iter().any(|path| path.to_string_lossy().contains("/snap/"));
    assert!(made, "no snapshot: {:?}", tracker.renamed);
    assert!(tracker.unnamed.is_empty(), "{:?}", tracker.unnamed);
}

/// A compiled library of `tests/shim`; `None` without a C compiler.
pub(crate) fn shim(place: &Place, name: &str) -> Option<PathBuf> {
    let library = place.path(&format!("{name}.so"));
    let shims = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/shim"));
    let source = shims.join(format!("{name}.c"));
    let made = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .args([library.as_os_str(), source.as_os_str(), "-ldl".as_ref()])
        .output();
    let Ok(made) = made else {
        report_skipped("cc is not installed");
        return None;
    };
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    Some(library)
}

/// Interrupted calls and short reads and writes change nothing (H39): the run ends, each step is
/// done once, and every byte is correct.
///
/// A preloaded C library fails the n-th call of each type, first single calls, then every second
/// and third one.
#[test]
fn h39_short_and_interrupted_calls_change_nothing() {
    let place = Place::new();
    let Some(library) = shim(&place, "unreliable") else { return };
    let large = "head -c 100000 /dev/zero | tr \"\\0\" x";
    let steps = format!(
        "steps:\n  - {{id: a, command: 'echo a >> $TALLY; {large}'}}\n  \
         - {{id: b, after: [a], command: 'echo b >> $TALLY'}}\n"
    );
    place.write("plan.yaml", steps);
    let kinds = [
        ("write", &["eintr", "short"][..]),
        ("read", &["eintr", "short"]),
        ("pwrite", &["eintr", "short"]),
        ("pread", &["eintr", "short"]),
        ("fsync", &["eintr"]),
        ("fdatasync", &["eintr"]),
        ("ftruncate", &["eintr"]),
        ("open", &["eintr"]),
    ];
    for (call, ways) in kinds {
        for how in ways {
            let mut injected = 0;
            for (nth, every) in [(1, 0), (2, 0), (3, 0), (5, 0), (8, 0), (13, 0), (1, 2), (2, 3)] {
                let fault = [call, how, &nth.to_string(), &every.to_string()];
                injected += run_with_faults(&place, &library, fault);
            }
            assert!(injected > 0, "{call} was never {how}");
        }
    }
}

/// One run with failing calls; returns how many failed.
fn run_with_faults(place: &Place, library: &Path, [call, how, nth, every]: [&str; 4]) -> usize {
    let case = format!("{call} {how}, from {nth}, every {every}");
    for name in ["tally", "injected"] {
        let _ = std::fs::remove_file(place.path(name));
    }
    let _ = std::fs::remove_dir_all(place.path("x.ledger"));
    let words = "run plan.yaml --ledger x.ledger --quiet --accept-rollback";
    let mut command = place.command(&words.split(' ').collect::<Vec<_>>());
    command.env("LD_PRELOAD", library).env("UNRELIABLE_LOG", place.path("injected"));
    command.env("UNRELIABLE_CALL", call).env("UNRELIABLE_HOW", how);
    command.env("UNRELIABLE_NTH", nth).env("UNRELIABLE_EVERY", every);
    let ended = start(&mut command).end();
    assert_eq!(ended.status.code(), Some(0), "{case}: {ended:#?}");
    assert_eq!(place.tally(), ["a", "b"], "{case}");
    let verified = place.ledger("verify x.ledger --level replay");
    assert_eq!(verified.status.code(), Some(0), "{case}: {verified:#?}");
    let state = super::command::state_of(&place.path("x.ledger"));
    let run = state.run_named("plan").unwrap();
    assert_eq!(ids(run, StepStatus::Accepted).len(), 2, "{case}");
    place.read("injected").len()
}

/// Story: on a file system whose locks exclude no writer, twelve clients left 142 duplicate winners and a
/// ledger that could not be written.
/// Goal: there a ledger is opened for writing only if the command line allows it. Readers need no lock.
#[test]
fn locks_that_exclude_no_writer_need_permission() {
    let place = Place::new();
    place.ledger("init").code(0);
    let Some(library) = shim(&place, "unlocked") else { return };
    let unlocked = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        start(place.command(&words).env("LD_PRELOAD", &library)).end()
    };
    let words =
        ["locks do not exclude other writers here", "`ledger serve", "--allow-unsafe-locks"];
    for line in ["note one", "serve", "init --ledger other.ledger"] {
        unlocked(line).code(6).complains(&words);
    }
    assert!(!place.path("other.ledger").exists());
    unlocked("verify").code(0);
    unlocked("status").code(0);
    for line in ["note two --allow-unsafe-locks", "--allow-unsafe-locks note three"] {
        unlocked(line).code(0);
    }
    unlocked("init --ledger other.ledger --allow-unsafe-locks").code(0);
    let records = place.ledger("inspect .ledger records --json").code(0);
    let is_there = |text: &str| records.out.contains(text);
    assert!(!is_there("one") && is_there("two") && is_there("three"), "{records:?}");
    place.ledger("note four").code(0);
    place.ledger("verify --level replay").code(0);
}
