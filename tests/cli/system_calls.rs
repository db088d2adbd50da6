//! The real program on a real kernel: in which order it asks the system for things, and what it
//! makes of a system that does less at once than it was asked to.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use plan_ledger::plan::StepStatus;

use super::command::{Place, ids, passed_over, start};

/// Steps that fill more than one segment, one of them with an output that becomes a blob.
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

/// A call that the kernel has answered.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Call {
    Write(PathBuf),
    Sync(PathBuf),
    Rename(PathBuf, PathBuf),
    /// A worker, or a process of a worker.
    Start,
}

/// What strace wrote, in the order in which the calls were answered: the process, and the call.
fn calls(text: &str, folder: &Path) -> Vec<(String, Call)> {
    let mut unfinished: Vec<(String, String)> = Vec::new();
    let mut calls = Vec::new();
    for line in text.lines() {
        let Some((process, rest)) = line.split_once(' ') else { continue };
        let rest = rest.trim_start();
        if let Some(begun) = rest.strip_suffix(" <unfinished ...>") {
            unfinished.push((process.to_owned(), begun.to_owned()));
            continue;
        }
        let whole = if rest.starts_with("<... ") {
            let begun = unfinished.iter().rposition(|(other, _)| other == process);
            let Some(begun) = begun else { continue };
            let (_, begun) = unfinished.remove(begun);
            format!("{begun}{}", rest.split_once("resumed>").map_or("", |(_, end)| end))
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
    // `-y` puts the path of an open file in angle brackets.
    let open = || {
        let path = arguments.split_once('<')?.1.split_once('>')?.0;
        Some(folder.join(path))
    };
    let quoted: Vec<&str> = arguments.split('"').skip(1).step_by(2).collect();
    match name {
        "pwrite64" | "write" => Some(Call::Write(open()?)),
        "fdatasync" | "fsync" => Some(Call::Sync(open()?)),
        "rename" | "renameat" | "renameat2" => {
            Some(Call::Rename(folder.join(quoted.first()?), folder.join(quoted.get(1)?)))
        }
        "execve" => Some(Call::Start),
        _ => None,
    }
}

/// Run `ledger` under strace; `None` where there is none, or it may not trace.
fn traced(place: &Place, words: &[&str]) -> Option<Vec<(String, Call)>> {
    let told = place.path("trace");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-y", "-s", "4096", "-e"]);
    strace.arg("trace=pwrite64,write,fdatasync,fsync,rename,renameat,renameat2,execve");
    strace.arg("-o").arg(&told).arg(env!("CARGO_BIN_EXE_ledger")).args(words);
    strace.current_dir(place.path("")).env("TALLY", place.path("tally"));
    let can_trace = Command::new("strace").args(["-o", "/dev/null", "true"]).output();
    if !can_trace.is_ok_and(|output| output.status.success()) {
        passed_over("strace is not installed, or may not trace");
        return None;
    }
    start(&mut strace).end().code(0);
    let text = String::from_utf8_lossy(&std::fs::read(&told).unwrap()).into_owned();
    Some(calls(&text, &place.path("").canonicalize().unwrap()))
}

/// A name as it will be when the file has its own, and the folder above, too.
fn drafts(path: &Path) -> PathBuf {
    PathBuf::from(path.to_string_lossy().replace(".new-ledger.tmp", "").replace(".tmp", ""))
}

fn is_segment(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "seg")
}

/// Whether a file is the ledger's own, and not its workers' scratch.
fn is_of_ledger(path: &Path) -> bool {
    let is_ledger = |folder: &&Path| drafts(folder).extension().is_some_and(|it| it == "ledger");
    let ledger = path.ancestors().find(is_ledger);
    ledger.is_some_and(|ledger| !path.starts_with(ledger.join("work")))
}

/// What is not durable, seen from outside.
#[derive(Default)]
struct Shadow {
    /// Files with bytes that were not synced.
    dirty: BTreeSet<PathBuf>,
    /// Folders with names that were not synced.
    unnamed: BTreeSet<PathBuf>,
    /// The segment that records are written to.
    active: Option<PathBuf>,
    renamed: Vec<PathBuf>,
    acks: usize,
}

impl Shadow {
    fn see(&mut self, call: &Call) {
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
            // It says that everything is durable: so it must be.
            if let Some(active) = &self.active {
                assert!(!self.dirty.contains(active), "HEAD before {}", active.display());
            }
        }
        let is_record = is_segment(path) && self.active.as_deref() == Some(path);
        if is_record || path.ends_with("HEAD") {
            let log = |folder: &PathBuf| !folder.ends_with("snap");
            let unnamed: Vec<_> = self.unnamed.iter().filter(|folder| log(folder)).collect();
            // HEAD is made in the draft of a new ledger before the draft has its name.
            assert!(unnamed.is_empty(), "{} before {unnamed:?} was synced", path.display());
        }
        if is_of_ledger(path) {
            self.dirty.insert(path.to_owned());
        }
    }

    fn rename(&mut self, from: &Path, to: &Path) {
        let below = |path: &PathBuf| path.starts_with(from) && !path.ends_with("LOCK");
        let dirty: Vec<_> = self.dirty.iter().filter(|path| below(path)).collect();
        assert!(dirty.is_empty(), "{} got its name, and {dirty:?} is dirty", to.display());
        if to.extension().is_some_and(|extension| extension == "ledger") {
            for folder in [from.to_owned(), from.join("log")] {
                assert!(!self.unnamed.contains(&folder), "{} unsynced", folder.display());
            }
            self.active = self.active.as_deref().map(drafts);
        }
        if is_segment(to) {
            self.active = Some(to.to_owned());
        }
        self.unnamed.insert(to.parent().unwrap().to_owned());
        self.renamed.push(to.to_owned());
    }

    fn acknowledged(&mut self, what: &str) {
        let active = self.active.as_ref().filter(|active| self.dirty.contains(*active));
        assert!(active.is_none(), "{what}, and {active:?} is not synced");
        assert!(self.unnamed.is_empty(), "{what}, and {:?} is not synced", self.unnamed);
        self.acks += 1;
    }
}

/// Goal: the order of system calls is the promise (H19, H20, H21, H28, H41, H52): create, write,
/// fdatasync, rename, fsync of the folder, and only then HEAD and whatever follows from an
/// acknowledgement, such as that a worker is started.
/// Method: strace of the real program: a new ledger, a rotation, a blob, a snapshot.
#[test]
fn the_kernel_is_asked_in_the_order_that_the_promise_needs() {
    let place = Place::new();
    place.write("plan.yaml", plan());
    let run = ["run", "plan.yaml", "--ledger", "a.ledger", "--max-parallel", "1"];
    let Some(calls) = traced(&place, &run) else { return };
    let mut shadow = Shadow::default();
    // The first start is the program's own.
    let first = calls.iter().position(|(_, call)| *call == Call::Start).unwrap();
    let own = &calls[first].0;
    for (place, (process, call)) in calls.iter().enumerate().skip(first + 1) {
        let is_worker = process != own && *call == Call::Start;
        let is_first = !calls[..place].iter().any(|(other, _)| other == process);
        // What a worker starts itself follows from nothing.
        if *call != Call::Start || (is_worker && is_first) {
            shadow.see(call);
        }
    }
    let count = |part: &str| {
        shadow.renamed.iter().filter(|path| path.to_string_lossy().contains(part)).count()
    };
    assert!(shadow.acks >= 24, "each worker was waited for: {}", shadow.acks);
    assert!(count(".seg") >= 2, "a segment was made, and a rotation: {:?}", shadow.renamed);
    assert!(count("/blob/") == 1, "a blob: {:?}", shadow.renamed);
    assert!(shadow.renamed.contains(&place.path("a.ledger").canonicalize().unwrap()));

    let calls = traced(&place, &["snapshot", "a.ledger"]).unwrap();
    let mut shadow = Shadow::default();
    calls.iter().filter(|(_, call)| *call != Call::Start).for_each(|(_, call)| shadow.see(call));
    let made = shadow.renamed.iter().any(|path| path.to_string_lossy().contains("/snap/"));
    assert!(made, "a snapshot: {:?}", shadow.renamed);
    assert!(shadow.unnamed.is_empty(), "{:?}", shadow.unnamed);
}

/// The library of `tests/shim`, compiled; `None` where there is no compiler.
fn shim(place: &Place) -> Option<PathBuf> {
    let library = place.path("unreliable.so");
    let source =
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("tests/shim/unreliable.c");
    let made = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .args([library.as_os_str(), source.as_os_str(), "-ldl".as_ref()])
        .output();
    if !made.is_ok_and(|output| output.status.success()) {
        passed_over("there is no C compiler");
        return None;
    }
    Some(library)
}

/// Goal: calls that a signal interrupts, and reads and writes that do half of what they were asked
/// to, change nothing (H39): the run ends, each step is done once, and every byte is right.
/// Method: a C library in front of the real one strikes the n-th call of a kind, for the first ones
/// one by one, and then every second and every third one.
#[test]
fn h39_short_and_interrupted_calls_change_nothing() {
    let place = Place::new();
    let Some(library) = shim(&place) else { return };
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
            let mut struck = 0;
            for (nth, every) in [(1, 0), (2, 0), (3, 0), (5, 0), (8, 0), (13, 0), (1, 2), (2, 3)] {
                let strike = [call, how, &nth.to_string(), &every.to_string()];
                struck += struck_run(&place, &library, strike);
            }
            assert!(struck > 0, "{call} was never {how}");
        }
    }
}

/// One run with calls that are struck; how many were.
fn struck_run(place: &Place, library: &Path, [call, how, nth, every]: [&str; 4]) -> usize {
    let story = format!("{call} {how}, from {nth}, every {every}");
    for name in ["tally", "told"] {
        let _ = std::fs::remove_file(place.path(name));
    }
    let _ = std::fs::remove_dir_all(place.path("x.ledger"));
    let mut command = place.command(&["run", "plan.yaml", "--ledger", "x.ledger", "--quiet"]);
    command.env("LD_PRELOAD", library).env("UNRELIABLE_TOLD", place.path("told"));
    command.env("UNRELIABLE_CALL", call).env("UNRELIABLE_HOW", how);
    command.env("UNRELIABLE_NTH", nth).env("UNRELIABLE_EVERY", every);
    let ended = start(&mut command).end();
    assert_eq!(ended.status.code(), Some(0), "{story}: {ended:#?}");
    assert_eq!(place.tally(), ["a", "b"], "{story}");
    let verified = place.ledger("verify x.ledger --level replay");
    assert_eq!(verified.status.code(), Some(0), "{story}: {verified:#?}");
    let state = super::command::state_of(&place.path("x.ledger"));
    let run = state.run_named("plan").unwrap();
    assert_eq!(ids(run, StepStatus::Accepted).len(), 2, "{story}");
    place.read("told").len()
}
