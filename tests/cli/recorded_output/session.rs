//! A transcript of commands in a folder of their own, and what is replaced in it.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use plan_ledger::plan::Token;
use plan_ledger::{AttemptToken, Environment, LedgerView};
use regex::Regex;

use super::{bytes, ledgers};
use crate::command::wait_until;

/// What in the output depends on the machine or on the moment, and what stands in its place.
const MOMENTS: &[(&str, &str)] = &[
    (r"process \d+( on [\w.-]+)?", "process [PID]"),
    // The secret of a token.
    (r"\b(\d+)-[0-9a-f]{32}\b", "$1-[SECRET]"),
    (r"\(pid \d+\)", "(pid [PID])"),
    (r"(?m)^(ledger: )?\d\d:\d\d:\d\d ", "$1[CLOCK] "),
    (r"\((?:\d+[a-z]+ )+ago\)", "([TIME] ago)"),
    (r"\bin \d+(?:d|h|m|s|ms|us)\b(?: \d+(?:h|m|s|ms|us)\b)*", "in [TIME]"),
    // Since the times of the fixed ledgers, in JSON: in microseconds, and of a budget in seconds.
    (r":\d{13,15}\b", ":[MICROS]"),
    (r#""spent":\d{8,10}\b"#, "\"spent\":[SECONDS]"),
    (r"\b\d{8,10} spent\b", "[SECONDS] spent"),
    (r"\bwall time +[\d,]{9,13} s\b", "wall time  [DAYS]"),
    // The same in text, a thousand days or more, and what is estimated from it.
    (r"\b\d{4,}d\b(?: \d+[hms]\b)*", "[DAYS]"),
    (r"\boverrun by \d{8,} s: \d{8,} s of (\d+ s)", "overrun by [SECONDS] s: [SECONDS] s of $1"),
    (r#""used":\d{8,10}\b"#, "\"used\":[SECONDS]"),
    (r"\bbegun for \d+ days\b", "begun for [DAYS]"),
    (r"\babout (?:\d+d(?: \d+[hms])*|\d{4,} h) more\b", "about [TIME] more"),
    // Times later than the fixed ledgers': of this run of the tests.
    (r"\b20(?:2[4-9]|[3-9]\d)-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?Z?", "[NOW]"),
    (r"\b(?:170[1-9]|17[1-9]\d|1[89]\d\d|[2-9]\d{3})\d{12}\b", "[NOW_MICROS]"),
];

/// How long something took.
const DURATIONS: &[(&str, &str)] = &[
    (r#""((?:elapsed|duration)_micros|seconds)":[\d.]+"#, "\"$1\":[DURATION]"),
    (r"\b\d+(?:\.\d+)? s\b", "[DURATION]"),
];

/// Short hashes in what a command wrote. They come before the moments: `1234567d` is no time.
const SHORT_HASHES: &[(&str, &str)] = &[
    (r"\b[0-9a-f]{8} = [0-9a-f]{8}\b", "[HEX] = [HEX]"),
    (r"\bchain [0-9a-f]{8}\b", "chain [HEX]"),
    (r"-v(\d+)-[0-9a-f]{8}\.snap\b", "-v$1-[HEX].snap"),
];

/// Identifiers and hashes in what a command wrote; a pure number is none. They come after the
/// moments, which know the secret of a token.
const IDENTIFIERS: &[(&str, &str)] = &[(r"\b[0-9]*[a-f][0-9a-f]{11,63}\b", "[HEX]")];

/// Commands in one folder, and what came of them.
pub(super) struct Session {
    folder: tempfile::TempDir,
    transcript: String,
    /// What the commands printed.
    printed: String,
    filters: Vec<(Regex, &'static str)>,
}

impl Session {
    /// A folder with these fixed ledgers, for commands that only read.
    pub(super) fn reading(ledgers: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let session = Self {
            folder,
            transcript: String::new(),
            printed: String::new(),
            filters: compiled(MOMENTS),
        };
        session.add(ledgers);
        session
    }

    /// A folder for commands whose output depends on how long they take, and else on their input.
    pub(super) fn timed() -> Self {
        let mut session = Self::reading(&[]);
        session.filters = [compiled(DURATIONS), session.filters].concat();
        session
    }

    /// The same, for commands that write.
    pub(super) fn writing(ledgers: &[&str]) -> Self {
        let mut session = Self::timed();
        session.add(ledgers);
        session.filters = [compiled(SHORT_HASHES), session.filters, compiled(IDENTIFIERS)].concat();
        session
    }

    fn add(&self, ledgers: &[&str]) {
        for name in ledgers {
            ledgers::write(name, &self.path().join(name));
        }
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Write a file, which the transcript does not show.
    pub(super) fn write(&self, name: &str, content: &str) {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Run the program with each of these lines.
    pub(super) fn run_all(&mut self, lines: &[&str]) {
        for line in lines {
            self.run(line);
        }
    }

    /// Run the program with the words of this line; `'` quotes, and `NAME=value` before the words
    /// sets variables of the environment.
    pub(super) fn run(&mut self, line: &str) {
        self.run_with_input(line, "");
    }

    /// Run it with that on its standard input.
    pub(super) fn run_with_input(&mut self, line: &str, input: &str) {
        let output = self.output(line, input);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        self.record(line, &output, &out, &err);
    }

    /// Run it and record the SHA-256 of its standard output, which is long or recorded elsewhere.
    pub(super) fn run_for_digest(&mut self, line: &str) {
        let output = self.output(line, "");
        let digest = digest(&output.stdout);
        self.record(line, &output, &digest, &text(&output.stderr));
    }

    /// Record the SHA-256 of a file that a command wrote.
    pub(super) fn file_digest(&mut self, name: &str) {
        let bytes = fs::read(self.path().join(name)).unwrap();
        self.note(&format!("file {name}: {}", digest(&bytes)));
    }

    /// Record the names of the files in a folder.
    pub(super) fn listing(&mut self, folder: &str) {
        let entries = fs::read_dir(self.path().join(folder)).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        for name in names {
            self.note(&format!("{folder}: {}", name.to_string_lossy()));
        }
    }

    /// Start a command that serves a ledger, run lines beside it, and end it with SIGTERM.
    pub(super) fn serve(&mut self, line: &str, beside: &[&str]) {
        let mut command = self.command(line);
        let (out, err) = (self.path().join("serve-out"), self.path().join("serve-err"));
        command.stdout(File::create(&out).unwrap()).stderr(File::create(&err).unwrap());
        let mut child = command.stdin(Stdio::null()).spawn().unwrap();
        wait_until("it serves", || fs::metadata(&out).unwrap().len() > 0);
        self.run_all(beside);
        let id = child.id().to_string();
        assert!(Command::new("kill").args(["-s", "TERM", &id]).status().unwrap().success());
        let status = child.wait().unwrap();
        let (stdout, stderr) = (fs::read(out).unwrap(), fs::read(err).unwrap());
        let output = Output { status, stdout, stderr };
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        self.record(line, &output, &out, &err);
    }

    /// Run it and record nothing; its standard output.
    pub(super) fn quietly(&self, line: &str) -> String {
        text(&self.output(line, "").stdout)
    }

    /// The token of the newest attempt at a step: a command printed it, or the secret is one of the
    /// identifiers of the fixed ledgers.
    pub(super) fn token(&self, ledger: &str, run: &str, step: &str) -> String {
        let number = self.attempt(ledger, run, step);
        let printed = Regex::new(&format!(r"\b{number}-[0-9a-f]{{32}}\b")).unwrap();
        let printed = printed.find_iter(&self.printed).map(|each| each.as_str().parse::<Token>());
        let view = LedgerView::open(&self.path().join(ledger), &Environment::system()).unwrap();
        let state = view.fold_recent().unwrap().state;
        let (.., hash) = state.dispatched[&AttemptToken(number)];
        let mut secrets = printed.map(|token| token.unwrap().secret).chain(ledgers::secrets());
        let secret = secrets.find(|secret| secret.hash() == hash).unwrap();
        Token { seq: AttemptToken(number), secret }.to_string()
    }

    fn attempt(&self, ledger: &str, run: &str, step: &str) -> u64 {
        let shown = self.quietly(&format!("inspect {ledger} step {run} {step} --json"));
        let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>();
        let tokens = shown.split("\"token\":").skip(1).filter_map(|text| digits(text).parse().ok());
        tokens.max().unwrap()
    }

    /// Note something in the transcript.
    pub(super) fn note(&mut self, text: &str) {
        writeln!(self.transcript, "# {text}").unwrap();
    }

    /// Compare the transcript with the recorded one.
    #[track_caller]
    pub(super) fn assert_recorded(self, name: &str) {
        assert_recorded(name, &self.transcript);
    }

    fn command(&self, line: &str) -> Command {
        let mut words = split(line);
        let mut command = Command::new(env!("CARGO_BIN_EXE_ledger"));
        command.env_clear().env("NO_COLOR", "1").env("COLUMNS", "100");
        command.env("LEDGER_BY", "operator").env("XDG_STATE_HOME", self.path().join("state"));
        command.env("TZ", "UTC");
        for name in ["PATH", "TMPDIR", "LLVM_PROFILE_FILE"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        while let Some((name, value)) = words.first().and_then(|word| variable(word)) {
            command.env(name, value);
            words.remove(0);
        }
        command.args(&words).current_dir(self.path());
        command
    }

    fn output(&self, line: &str, input: &str) -> Output {
        let mut command = self.command(line);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A command that does not read its input closes it.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        child.wait_with_output().unwrap()
    }

    fn record(&mut self, line: &str, output: &Output, out: &str, err: &str) {
        let code = output.status.code().map_or("a signal".to_owned(), |code| code.to_string());
        let is_variable = |word: &&str| variable(word).is_some();
        let variables: String =
            line.split(' ').take_while(is_variable).map(|word| format!("{word} ")).collect();
        let words = line.strip_prefix(&variables).unwrap_or_default();
        let mut block = format!("$ {variables}ledger {words}\nexit code: {code}\n");
        for (name, stream) in [("stdout", out), ("stderr", err)] {
            if !stream.is_empty() {
                let end = if stream.ends_with('\n') { "" } else { "\n" };
                write!(block, "--- {name}\n{stream}{end}").unwrap();
            }
        }
        self.printed.push_str(out);
        let block = self.normalized(&block);
        writeln!(self.transcript, "{block}").unwrap();
    }

    fn normalized(&self, text: &str) -> String {
        let real = self.path().canonicalize().unwrap();
        let mut text = text.replace(&real.display().to_string(), "[FOLDER]");
        text = text.replace(&self.path().display().to_string(), "[FOLDER]");
        text = filtered(&text, &self.filters);
        // The columns of a table are as wide as how long ago something was.
        let is_wide = text.contains("[DAYS]") || text.contains(" ago)  ");
        if is_wide { narrowed(&text) } else { text }
    }
}

fn filtered(text: &str, filters: &[(Regex, &str)]) -> String {
    let filter = |text: String, (pattern, with): &(Regex, &str)| {
        pattern.replace_all(&text, *with).into_owned()
    };
    filters.iter().fold(text.to_owned(), filter)
}

/// A text in which everything that depends on the moment is replaced.
pub(super) fn without_moments(text: &str) -> String {
    filtered(text, &compiled(MOMENTS))
}

/// A text with at most two spaces in a row, behind the indentation of each line.
fn narrowed(text: &str) -> String {
    let gaps = Regex::new(r"(\S) {3,}").unwrap();
    gaps.replace_all(text, "$1  ").into_owned()
}

/// Compare a text with the recorded one.
#[track_caller]
pub(super) fn assert_recorded(name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/snapshots"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
}

fn compiled(filters: &[(&str, &'static str)]) -> Vec<(Regex, &'static str)> {
    filters.iter().map(|(pattern, with)| (Regex::new(pattern).unwrap(), *with)).collect()
}

fn digest(bytes: &[u8]) -> String {
    format!("{} bytes, SHA-256 {}", bytes.len(), bytes::sha256(bytes))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// `NAME=value`, if it is that.
fn variable(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
    (!name.is_empty() && is_name(name)).then_some((name, value))
}

/// The words of a line; `'` quotes.
fn split(line: &str) -> Vec<String> {
    let (mut words, mut word, mut is_quoted, mut is_open) =
        (Vec::new(), String::new(), false, false);
    for letter in line.chars() {
        match letter {
            '\'' => (is_quoted, is_open) = (!is_quoted, true),
            ' ' if !is_quoted => {
                if is_open {
                    words.push(std::mem::take(&mut word));
                }
                is_open = false;
            }
            _ => {
                word.push(letter);
                is_open = true;
            }
        }
    }
    assert!(!is_quoted, "a quote is open: {line}");
    if is_open {
        words.push(word);
    }
    words
}
