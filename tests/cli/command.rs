//! How the tests use the `ledger` binary the way its users do: a folder of their own, a command
//! line, an exit code, two streams, and a limit to their patience.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use plan_ledger::plan::{Run, State, StepStatus};
use plan_ledger::{Environment, LedgerView};

/// No command of these tests takes longer, unless it hangs.
const PATIENCE: Duration = Duration::from_secs(180);

/// How often a process is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// A folder in which one test works.
pub(crate) struct Place {
    folder: tempfile::TempDir,
}

/// What a command came to.
#[derive(Debug)]
pub(crate) struct Ended {
    args: Vec<String>,
    pub(crate) status: ExitStatus,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// A command that runs, its streams going to files.
pub(crate) struct Running {
    args: Vec<String>,
    child: Child,
    streams: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// With a ledger, in which that plan was proposed as run `plan`.
    pub(crate) fn planned(plan: &str) -> Self {
        let place = Self::new();
        place.write("plan.yaml", plan);
        place.ledger("init").code(0);
        place.ledger("plan propose plan.yaml").code(0);
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// `ledger`, to be run in this folder. Workers find `$TALLY` there.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = ledger();
        command.args(args).current_dir(self.folder.path()).stdin(Stdio::null());
        command.env("TALLY", self.path("tally"));
        command
    }

    /// `ledger` and these words, parted at spaces, to its end.
    pub(crate) fn ledger(&self, line: &str) -> Ended {
        self.ledger_with(&line.split_whitespace().collect::<Vec<_>>())
    }

    pub(crate) fn ledger_with(&self, args: &[&str]) -> Ended {
        start(&mut self.command(args)).end()
    }

    /// What the workers wrote, one line each.
    pub(crate) fn tally(&self) -> Vec<String> {
        self.read("tally").lines().map(str::to_owned).collect()
    }

    /// The ledger of this folder, folded by somebody who only reads.
    pub(crate) fn state(&self) -> State {
        state_of(&self.path(".ledger"))
    }

    /// Everything below the folder, and the content of what is a file.
    pub(crate) fn snapshot(&self) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        let mut found = BTreeMap::new();
        let mut folders = vec![self.folder.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                let kind = path.symlink_metadata().unwrap().file_type();
                let content = kind.is_file().then(|| fs::read(&path).unwrap());
                if kind.is_dir() {
                    folders.push(path.clone());
                }
                found.insert(path, content);
            }
        }
        found
    }
}

/// `ledger`, which heeds Ctrl-C as one does that somebody started by hand: tests in the background of a
/// script are started to ignore it, and whatever they start would ignore it, too.
fn ledger() -> Command {
    if !has_signal("self", "SigIgn", SIGINT) {
        return Command::new(PROGRAM);
    }
    let mut command = Command::new("env");
    command.args([HEEDING, PROGRAM]);
    command
}

const PROGRAM: &str = env!("CARGO_BIN_EXE_ledger");
const HEEDING: &str = "--default-signal=INT";

pub(crate) const SIGINT: u32 = 2;
pub(crate) const SIGTERM: u32 = 15;

/// Whether a signal is in one of the masks that the system tells of a process, if there is one.
pub(crate) fn has_signal(process: &str, mask: &str, signal: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let mut lines = status.lines().filter_map(|line| line.strip_prefix(mask)?.strip_prefix(':'));
    lines.any(|mask| u64::from_str_radix(mask.trim(), 16).unwrap() >> (signal - 1) & 1 == 1)
}

/// Start a command, its streams going to files so that nobody has to empty pipes.
pub(crate) fn start(command: &mut Command) -> Running {
    let streams = tempfile::tempdir().unwrap();
    let file = |name: &str| File::create(streams.path().join(name)).unwrap();
    let args = command.get_args().map(|arg| arg.to_string_lossy().into_owned());
    let args = args.filter(|arg| ![HEEDING, PROGRAM].contains(&arg.as_str())).collect();
    let child = command.stdout(file("out")).stderr(file("err")).spawn().unwrap();
    Running { args, child, streams }
}

impl Running {
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has said so on its standard error, so far.
    pub(crate) fn complained(&self, words: &str) -> bool {
        self.words("err").contains(words)
    }

    pub(crate) fn is_over(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub(crate) fn end(mut self) -> Ended {
        let give_up = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                let (out, err) = (self.words("out"), self.words("err"));
                return Ended { args: self.args, status, out, err };
            }
            if Instant::now() >= give_up {
                self.child.kill().unwrap();
                self.child.wait().unwrap();
                panic!("it does not end\n{}\n{}", self.words("out"), self.words("err"));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// SIGKILL, unless it has ended by itself.
    pub(crate) fn kill(mut self) -> Ended {
        if !self.is_over() {
            self.child.kill().unwrap();
        }
        self.end()
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    /// Whether standard output has these words by now.
    pub(crate) fn said(&self, words: &str) -> bool {
        self.words("out").contains(words)
    }

    fn words(&self, stream: &str) -> String {
        String::from_utf8_lossy(&fs::read(self.streams.path().join(stream)).unwrap()).into_owned()
    }
}

impl Ended {
    /// Asserts the exit code, and shows everything if it is another one.
    #[track_caller]
    pub(crate) fn code(self, expected: i32) -> Self {
        assert_eq!(self.status.code(), Some(expected), "{self:#?}");
        self
    }

    /// Asserts that standard error says all of these.
    #[track_caller]
    pub(crate) fn complains(self, expected: &[&str]) -> Self {
        for words in expected {
            assert!(self.err.contains(words), "expected {words:?} in\n{}", self.err);
        }
        self
    }

    /// Asserts that standard output says all of these.
    #[track_caller]
    pub(crate) fn says(self, expected: &[&str]) -> Self {
        for words in expected {
            assert!(self.out.contains(words), "expected {words:?} in\n{}", self.out);
        }
        self
    }

    pub(crate) fn was_killed(&self) -> bool {
        self.status.signal() == Some(9)
    }

    /// Standard output as JSON Lines, each as it is published.
    #[track_caller]
    pub(crate) fn lines(&self) -> Vec<serde_json::Value> {
        json_lines(&self.args, &self.out)
    }
}

/// What a command printed as JSON Lines. Whoever looks at one looks through here, so that all are
/// checked against what is published.
#[track_caller]
pub(crate) fn json_lines(args: &[String], out: &str) -> Vec<serde_json::Value> {
    let parse = |line| {
        let line = serde_json::from_str(line).unwrap_or_else(|error| {
            panic!("not JSON: {error}: {line}");
        });
        super::published::check(args, &line);
        line
    };
    out.lines().map(parse).collect()
}

/// Say that something cannot be tested here, and so was not.
#[expect(clippy::print_stdout, reason = "whoever runs the tests should know what they did not do")]
pub(crate) fn passed_over(why: &str) {
    println!("passed over: {why}");
}

/// Wait until something holds.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let give_up = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < give_up, "it never came to this: {what}");
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// A ledger folded by somebody who only reads.
#[track_caller]
pub(crate) fn state_of(ledger: &Path) -> State {
    let fold = LedgerView::open(ledger, &Environment::system()).unwrap().fold(u64::MAX).unwrap();
    assert!(fold.damage.is_empty() && fold.unreadable.is_none(), "{fold:?}");
    fold.state
}

/// The ids of a run's steps with that status.
pub(crate) fn ids(run: &Run, status: StepStatus) -> Vec<String> {
    let steps = run.steps.iter().filter(|step| step.status == status);
    steps.map(|step| step.id().to_owned()).collect()
}
