//! Runs the `ledger` binary in a folder of its own, with a time limit, and checks its exit code and
//! its output.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use plan_ledger::{Environment, LedgerView, Run, State, StepStatus};

/// A command that takes longer hangs.
const TIME_LIMIT: Duration = Duration::from_secs(180);

/// The pause between two checks of a process.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// The folder of one test.
pub(crate) struct Place {
    folder: tempfile::TempDir,
    /// The user's state folder: what the program knows about other places is not known here.
    state: tempfile::TempDir,
}

/// A command that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    args: Vec<String>,
    pub(crate) status: ExitStatus,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// A running command, with its output in files.
pub(crate) struct Running {
    args: Vec<String>,
    child: Child,
    streams: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), state: tempfile::tempdir().unwrap() }
    }

    /// A folder with a ledger in which that plan is proposed as run `plan`.
    pub(crate) fn planned(plan: &str) -> Self {
        let place = Self::new();
        place.write("plan.yaml", plan);
        place.ledger("init").code(0);
        place.ledger("plan propose plan.yaml").code(0);
        place
    }

    /// The same, and a person approved what the plan executes.
    pub(crate) fn approved(plan: &str) -> Self {
        let place = Self::planned(plan);
        place.ledger("plan approve plan --by ana").code(0);
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

    /// The user's state folder of this test.
    pub(crate) fn state_home(&self) -> &Path {
        self.state.path()
    }

    /// The command `ledger` in this folder. Workers append lines to `$TALLY`.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = ledger();
        command.args(args).current_dir(self.folder.path()).stdin(Stdio::null());
        command.env("TALLY", self.path("tally")).env("XDG_STATE_HOME", self.state.path());
        command
    }

    /// A command line for a shell in this folder, which finds this program by the name `ledger`.
    pub(crate) fn shell(&self, line: &str) -> Command {
        let programs = Path::new(PROGRAM).parent().unwrap();
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
        let mut command = Command::new("sh");
        command.args(["-c", line]).current_dir(self.folder.path()).stdin(Stdio::null());
        for mark in MARKS {
            command.env_remove(mark);
        }
        command.env("PATH", path).env("LEDGER_BY", "operator");
        command.env("TALLY", self.path("tally")).env("XDG_STATE_HOME", self.state.path());
        command
    }

    /// Runs `ledger` with these words, split at spaces.
    pub(crate) fn ledger(&self, line: &str) -> Ended {
        self.ledger_with(&line.split_whitespace().collect::<Vec<_>>())
    }

    pub(crate) fn ledger_with(&self, args: &[&str]) -> Ended {
        start(&mut self.command(args)).end()
    }

    /// A server of the ledger, which is ready.
    pub(crate) fn serve(&self) -> Running {
        let serving = start(&mut self.command(&["serve"]));
        wait_until("it serves", || serving.said("serving"));
        serving
    }

    /// The lines that the workers appended.
    pub(crate) fn tally(&self) -> Vec<String> {
        self.read("tally").lines().map(str::to_owned).collect()
    }

    /// The state of the ledger in this folder, read without its lock.
    pub(crate) fn state(&self) -> State {
        state_of(&self.path(".ledger"))
    }

    /// All paths below the folder, with the content of files.
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

/// The command `ledger` with the default action for Ctrl-C: tests in the background of a script ignore
/// it, and so would their child processes.
fn ledger() -> Command {
    let is_plain = !has_signal("self", "SigIgn", SIGINT);
    let mut command = Command::new(if is_plain { PROGRAM } else { "env" });
    if !is_plain {
        command.args([DEFAULT_SIGINT, PROGRAM]);
    }
    // The tests may run in the shell of an agent session.
    for mark in MARKS {
        command.env_remove(mark);
    }
    command.env("LEDGER_BY", "operator");
    command
}

/// The variables with which hosts mark the shell of an agent session. `.cargo/config.toml` empties them, too.
const MARKS: [&str; 7] = [
    "AI_AGENT",
    "CLAUDECODE",
    "CLAUDE_CODE_SESSION_ID",
    "CODEX_THREAD_ID",
    "CODEX_TOOL_CALL_ID",
    "GEMINI_CLI",
    "OPENCODE",
];

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_ledger");
const DEFAULT_SIGINT: &str = "--default-signal=INT";

pub(crate) const SIGINT: u32 = 2;
pub(crate) const SIGTERM: u32 = 15;

/// Whether a signal is in one of the masks of a process, as `/proc` reports it.
pub(crate) fn has_signal(process: &str, mask: &str, signal: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let mut lines = status.lines().filter_map(|line| line.strip_prefix(mask)?.strip_prefix(':'));
    lines.any(|mask| u64::from_str_radix(mask.trim(), 16).unwrap() >> (signal - 1) & 1 == 1)
}

/// Starts a command with its output in files, so that no pipe can fill up.
pub(crate) fn start(command: &mut Command) -> Running {
    let streams = tempfile::tempdir().unwrap();
    let file = |name: &str| File::create(streams.path().join(name)).unwrap();
    let args = command.get_args().map(|arg| arg.to_string_lossy().into_owned());
    let args = args.filter(|arg| ![DEFAULT_SIGINT, PROGRAM].contains(&arg.as_str())).collect();
    let child = command.stdout(file("out")).stderr(file("err")).spawn().unwrap();
    Running { args, child, streams }
}

impl Running {
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Asks a server to end.
    pub(crate) fn dismiss(self) {
        self.signal("TERM");
        self.end().code(0);
    }

    /// Whether these words are on standard error so far.
    pub(crate) fn complained(&self, words: &str) -> bool {
        self.words("err").contains(words)
    }

    pub(crate) fn is_over(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub(crate) fn end(mut self) -> Ended {
        let give_up = Instant::now() + TIME_LIMIT;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                let (out, err) = (self.words("out"), self.words("err"));
                return Ended { args: self.args, status, out, err };
            }
            if Instant::now() >= give_up {
                self.child.kill().unwrap();
                self.child.wait().unwrap();
                panic!("timed out\n{}\n{}", self.words("out"), self.words("err"));
            }
            std::thread::sleep(POLL_INTERVAL);
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

    /// Whether these words are on standard output so far.
    pub(crate) fn said(&self, words: &str) -> bool {
        self.words("out").contains(words)
    }

    fn words(&self, stream: &str) -> String {
        String::from_utf8_lossy(&fs::read(self.streams.path().join(stream)).unwrap()).into_owned()
    }
}

impl Ended {
    /// An answer of another interface, as of a command that succeeded.
    pub(crate) fn answered(out: String) -> Self {
        let status = ExitStatus::from_raw(0);
        Self { args: Vec::new(), status, out, err: String::new() }
    }

    /// Asserts the exit code.
    #[track_caller]
    pub(crate) fn code(self, expected: i32) -> Self {
        assert_eq!(self.status.code(), Some(expected), "{self:#?}");
        self
    }

    /// Asserts that standard error contains all of these.
    #[track_caller]
    pub(crate) fn complains(self, expected: &[&str]) -> Self {
        for words in expected {
            assert!(self.err.contains(words), "expected {words:?} in\n{}", self.err);
        }
        self
    }

    /// Asserts that standard output contains all of these.
    #[track_caller]
    pub(crate) fn says(self, expected: &[&str]) -> Self {
        for words in expected {
            assert!(self.out.contains(words), "expected {words:?} in\n{}", self.out);
        }
        self
    }

    /// The last token that it printed.
    #[track_caller]
    pub(crate) fn token(&self) -> String {
        let parts = self.out.split(|c: char| !c.is_ascii_hexdigit() && c != '-');
        let mut tokens = parts.filter(|part| part.parse::<plan_ledger::plan::Token>().is_ok());
        tokens.next_back().unwrap_or_else(|| panic!("no token in {}", self.out)).to_owned()
    }

    pub(crate) fn was_killed(&self) -> bool {
        self.status.signal() == Some(9)
    }

    /// Standard output as JSON Lines, each checked against its published schema.
    #[track_caller]
    pub(crate) fn lines(&self) -> Vec<serde_json::Value> {
        json_lines(&self.args, &self.out)
    }
}

/// Parses JSON Lines and checks each against its published schema.
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

/// Reports that this test, or a part of it, was skipped. The test target `skipped` lists all reports
/// at the end of `cargo test`. A reason that contains `is not installed` is an error in CI.
pub(crate) fn report_skipped(reason: &str) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("skipped");
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("unnamed").replace("::", ".");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(test), reason).unwrap();
}

/// Waits until a condition holds.
#[track_caller]
pub(crate) fn wait_until(what: &str, holds: impl FnMut() -> bool) {
    assert!(comes_true(holds), "timed out: {what}");
}

/// Waits until a condition holds. Returns whether it does; it is no longer waited for after the time limit.
pub(crate) fn comes_true(mut holds: impl FnMut() -> bool) -> bool {
    let give_up = Instant::now() + TIME_LIMIT;
    while !holds() {
        if Instant::now() >= give_up {
            return false;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    true
}

/// The state of a ledger, read without its lock.
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

/// The commands that a help text lists, under whatever headings.
pub(crate) fn listed_commands(help: &str) -> Vec<String> {
    let lines = help.lines().take_while(|line| !["Options:", "Examples:"].contains(line));
    // Lines that are indented further continue a description.
    let entries = lines.filter_map(|line| line.strip_prefix("  "));
    let entries = entries.filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase()));
    entries.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}
