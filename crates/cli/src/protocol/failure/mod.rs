//! Exit codes, and the ways in which a command or request fails.
//!
//! Numbers and names are published in `format/cli-json.md` and never change.

#[cfg(not(all(
    feature = "http",
    feature = "man",
    feature = "mcp",
    feature = "sqlite",
    feature = "store",
    feature = "tls"
)))]
pub(crate) mod left_out;

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::Path;
use std::process::ExitCode;

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use plan_ledger::internals::error::Advice;
use plan_ledger::internals::ledger::time_text;
use plan_ledger::plan::find_long_number;
use plan_ledger::{Error, ErrorKind, Rejection, Timestamp};

use crate::json::line_value;

use plan_ledger_views::{OWN_LEDGER, ledger_option, option, quoted, quoted_folder};

/// The exit codes, as `ledger --help` lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    Success,
    /// The run failed, or there is no more work.
    Failed,
    /// Wrong usage, an invalid plan, or a folder that is not a ledger.
    Usage,
    /// The run waits for a person, a worker or a timer, or stopped with work left.
    Waiting,
    /// The ledger is damaged.
    Damaged,
    /// Another process has the lock, or a worker of an earlier runner cannot be killed.
    Locked,
    /// The ledger's rules reject the command.
    Rejected,
    /// Input or output failed.
    Io,
}

impl Code {
    const ALL: [Self; 8] = [
        Self::Success,
        Self::Failed,
        Self::Usage,
        Self::Waiting,
        Self::Damaged,
        Self::Locked,
        Self::Rejected,
        Self::Io,
    ];

    /// The code with a number. An unknown number, from a newer program, becomes `Io`.
    #[must_use]
    pub fn of(number: u8) -> Self {
        Self::ALL.into_iter().find(|code| code.number() == number).unwrap_or(Self::Io)
    }

    /// The exit code of the process.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Waiting => 3,
            Self::Damaged => 4,
            Self::Locked => 5,
            Self::Rejected => 6,
            Self::Io => 7,
        }
    }
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code.number())
    }
}

/// The failure of a command or request.
#[derive(Debug)]
pub enum Failure {
    /// Wrong usage.
    Usage(String),
    /// It names something that does not exist.
    Missing {
        /// The kind of thing.
        what: Missing,
        /// The name, and the names that there are.
        message: String,
    },
    /// It names no run, and several are active.
    SeveralRuns(Vec<String>),
    /// The ledger's rules reject it.
    Rejected(String),
    /// It comes from inside an attempt, and a worker may not make it.
    InsideAttempt {
        /// The step's id.
        step: String,
    },
    /// It names an author, and comes from inside an attempt.
    AuthorInsideAttempt {
        /// The step's id.
        step: String,
    },
    /// It decides for a person, and comes from the shell of an agent session.
    AgentSession {
        /// The host, and the session if it is known.
        session: String,
    },
    /// An option of its command line decides for a person, and it comes from the shell of an agent session.
    OptionInAgentSession {
        /// The host, and the session if it is known.
        session: String,
        /// The option, with its value if only this value is refused.
        option: &'static str,
    },
    /// It starts a judge, and comes from the shell of an agent session.
    JudgeInAgentSession {
        /// The host, and the session if it is known.
        session: String,
    },
    /// It names an author, and comes from the shell of an agent session.
    AuthorInAgentSession {
        /// The host, and the session if it is known.
        session: String,
    },
    /// An error of the library.
    Ledger(Error),
    /// Standard output cannot be written.
    Output(io::Error),
}

/// The maximum number of names in a message.
const NAMES_MAX: usize = 8;

/// The kind of a missing thing that a command names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    Run,
    /// A step of a run.
    Step,
    /// A variable of a run.
    Variable,
}

impl Missing {
    /// Its name among the rejections.
    fn rejection(self) -> &'static str {
        match self {
            Self::Run => "no_such_run",
            Self::Step => "no_such_step",
            Self::Variable => "no_such_variable",
        }
    }
}

impl Failure {
    /// A failure that names no existing run.
    pub(crate) fn no_run(message: String) -> Self {
        Self::Missing { what: Missing::Run, message }
    }

    /// A failure that names no existing step.
    pub(crate) fn no_step(message: String) -> Self {
        Self::Missing { what: Missing::Step, message }
    }

    /// The exit code.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::Usage(_) | Self::Missing { .. } | Self::SeveralRuns(_) => Code::Usage,
            Self::Rejected(_)
            | Self::InsideAttempt { .. }
            | Self::AuthorInsideAttempt { .. }
            | Self::AgentSession { .. }
            | Self::OptionInAgentSession { .. }
            | Self::JudgeInAgentSession { .. }
            | Self::AuthorInAgentSession { .. } => Code::Rejected,
            Self::Ledger(error) => code_of(error),
            Self::Output(_) => Code::Io,
        }
    }

    /// The failure of a command with an input file that cannot be read. A missing or invalid file
    /// is wrong usage; a refusal of the operating system is not, as everywhere else.
    #[must_use]
    pub fn of_input(error: Error) -> Self {
        let source =
            std::error::Error::source(&error).and_then(|each| each.downcast_ref::<io::Error>());
        match source.map(io::Error::kind) {
            Some(io::ErrorKind::PermissionDenied) => Self::Ledger(error),
            _ => Self::Usage(format!("{:#}", with_commands(error))),
        }
    }
}

/// The exit code for a ledger's error.
#[must_use]
pub fn code_of(error: &Error) -> Code {
    match error.kind() {
        ErrorKind::NotALedger | ErrorKind::BadPlan | ErrorKind::OutOfRange | ErrorKind::Pruned => {
            Code::Usage
        }
        ErrorKind::Corrupt | ErrorKind::Tampered | ErrorKind::Ambiguous => Code::Damaged,
        ErrorKind::Locked | ErrorKind::Fenced => Code::Locked,
        ErrorKind::Rejected
        | ErrorKind::Conflict
        | ErrorKind::KeyReused
        | ErrorKind::Diverged
        | ErrorKind::TooLarge
        | ErrorKind::Unencodable
        | ErrorKind::Unsupported => Code::Rejected,
        // An unknown kind is treated as an I/O error.
        _ => Code::Io,
    }
}

impl Failure {
    /// The JSON line of this failure.
    #[must_use]
    pub fn json(&self) -> Value {
        let (kind, rejection) = match self {
            Self::Usage(_) | Self::SeveralRuns(_) => ("usage".to_owned(), None),
            Self::Missing { what, .. } => ("usage".to_owned(), Some(what.rejection())),
            Self::Rejected(_) => ("rejected".to_owned(), None),
            Self::InsideAttempt { .. } | Self::AuthorInsideAttempt { .. } => {
                ("rejected".to_owned(), Some("inside_attempt"))
            }
            Self::AgentSession { .. }
            | Self::OptionInAgentSession { .. }
            | Self::JudgeInAgentSession { .. }
            | Self::AuthorInAgentSession { .. } => ("rejected".to_owned(), Some("agent_session")),
            Self::Output(_) => ("output".to_owned(), None),
            Self::Ledger(error) => {
                (error.kind().name().to_owned(), error.rejection().map(Rejection::name))
            }
        };
        let mut line = ErrorLine::new(&kind, &self.to_string(), self.code());
        line.rejection = rejection;
        match self {
            Self::Ledger(error) => {
                if let Some(Rejection::Leased { step, worker, lease_until }) = error.rejection() {
                    line.number = Some(step.0);
                    line.worker = Some(worker.clone());
                    line.lease_until_micros = Some(*lease_until);
                }
            }
            Self::SeveralRuns(runs) => line.runs = Some(runs.clone()),
            _ => {}
        }
        line_value(&line)
    }
}

/// A command or request failed.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct ErrorLine {
    /// The kind of the error.
    kind: String,
    /// The rule of the ledger that rejected the command.
    rejection: Option<&'static str>,
    /// The failure, for people.
    message: String,
    /// The next action, for people; null if there is no particular one.
    hint: Option<String>,
    /// The exit code of the command.
    exit_code: u8,
    /// If a worker has the step: the number of the step.
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<u32>,
    /// If a worker has the step: that worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    worker: Option<String>,
    /// If a worker has the step: when its lease expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_until_micros: Option<Timestamp>,
    /// If no run is named and several are active: their names, at most 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    runs: Option<Vec<String>>,
}

impl ErrorLine {
    /// The line of an error with this text for people, in which hints follow the message.
    pub(super) fn new(kind: &str, text: &str, code: Code) -> Self {
        let (message, hint) = split_hint(text);
        Self {
            kind: kind.to_owned(),
            rejection: None,
            message: message.to_owned(),
            hint,
            exit_code: code.number(),
            number: None,
            worker: None,
            lease_until_micros: None,
            runs: None,
        }
    }
}

/// The mark of a hint in a text for people.
const HINT: &str = "\nhint: ";

/// The text of an error without its hints, and its hints.
pub(crate) fn split_hint(text: &str) -> (&str, Option<String>) {
    match text.split_once(HINT) {
        Some((message, hints)) => (message, Some(hints.replace(HINT, "\n"))),
        None => (text, None),
    }
}

/// The text of an error line for people: the message, and the hint on a line of its own.
pub(crate) fn text_of_error(line: &Value) -> String {
    let text = |name: &str| line.get(name).and_then(Value::as_str);
    let message = text("message").unwrap_or_default();
    text("hint").map_or_else(|| message.to_owned(), |hint| format!("{message}{HINT}{hint}"))
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Ledger(with_commands(error))
    }
}

/// The error of the library, with the commands and options that a person can use.
fn with_commands(error: Error) -> Error {
    match hint_of(&error) {
        Some(hint) => error.with_hint(hint.into_owned()),
        None => error,
    }
}

/// The same in one line.
pub(crate) fn error_line(error: &Error) -> String {
    match hint_of(error) {
        Some(hint) => format!("{}; {hint}", error.without_hint()),
        None => error.to_string(),
    }
}

/// The same for a view of the ledger, which shows what can be read and names no view for that.
pub(crate) fn error_line_of_view(error: &Error) -> String {
    match error.advice() {
        Some(Advice::ReadIntact | Advice::ReadArchive) => error.without_hint(),
        _ => error_line(error),
    }
}

/// The same for a check of the ledger, which reads an archive like the views.
pub(crate) fn error_line_of_check(error: &Error) -> String {
    match error.advice() {
        Some(Advice::ReadArchive) => error.without_hint(),
        _ => error_line(error),
    }
}

/// The hint about an error of the library, if it has none.
fn hint_of(error: &Error) -> Option<Cow<'static, str>> {
    if let Some(advice) = error.advice() {
        let path = error.location().path.as_deref().filter(|_| advice == Advice::CreateLedger);
        return Some(match path {
            Some(path) if path.join(OWN_LEDGER).join("log").is_dir() => {
                format!("did you mean {}?", quoted_folder(&path.join(OWN_LEDGER))).into()
            }
            Some(path) if path.is_file() => FILE_HINT.into(),
            Some(path) if is_taken(path) => TAKEN_HINT.into(),
            Some(path) if path != Path::new(OWN_LEDGER) => {
                format!("run `ledger init {}`, or set LEDGER_DIR", ledger_option(path)).into()
            }
            _ => commands(advice).into(),
        });
    }
    if let Some(Rejection::NoSuchQuestion(_)) = error.rejection() {
        return Some("`ledger questions` lists what waits for a person".into());
    }
    let source = std::error::Error::source(error).and_then(|it| it.downcast_ref::<io::Error>());
    match source.map(io::Error::kind) {
        _ if error.hint().is_some() => None,
        Some(io::ErrorKind::PermissionDenied) => Some(DENIED_HINT.into()),
        Some(io::ErrorKind::ReadOnlyFilesystem) => Some(READ_ONLY_HINT.into()),
        _ => None,
    }
}

const TAKEN_HINT: &str = "name the folder of a ledger (--ledger DIR or LEDGER_DIR), or create one under another name: \
                          `ledger init --ledger DIR`";
const FILE_HINT: &str = "name the folder of a ledger (--ledger DIR or LEDGER_DIR); `ledger inspect` \
                         reads it if it is an archive";
const DENIED_HINT: &str = "work as the user who may do this, or change the permissions; with --ledger DIR the ledger is \
                           elsewhere";
const READ_ONLY_HINT: &str = "the file system is mounted for reading only: name a folder elsewhere, or mount it for \
                              writing";

/// Whether no ledger can be created at a path: there is a file, or a folder with something in it.
fn is_taken(path: &Path) -> bool {
    match path.read_dir() {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) => error.kind() == io::ErrorKind::NotADirectory,
    }
}

/// The commands and options that follow an advice of the library.
fn commands(advice: Advice) -> &'static str {
    match advice {
        Advice::CreateLedger => "run `ledger init`, or set LEDGER_DIR",
        Advice::ReadIntact => "nothing was changed; `ledger inspect` shows what can be read",
        Advice::ReadArchive => "use `ledger inspect` and `ledger verify`",
        Advice::WaitForLockHolder => {
            "wait until it ends, or stop it; `ledger status` and `ledger work -- CMD` work beside it; another plan can run \
             in another ledger (--ledger DIR)"
        }
        Advice::WriteFromOneMachine => {
            concat!(
                "run `ledger serve` on the machine that has the disk and work through it, ",
                "or pass --allow-unsafe-locks if there is no other writer"
            )
        }
        Advice::WorkAsItsOwner => {
            "work as that user, or create the ledger with `ledger init --shared`; reading needs only the \
             permission to read"
        }
        Advice::MakeSnapshots => "run `ledger snapshot`, continue, and run it again",
        Advice::UseNewerVersion => "use a newer `ledger`, or read with `ledger inspect`",
    }
}

/// The step that a process works on. One that cleared its variables is known by the files of its job alone.
fn worked_on(step: &str) -> String {
    if step.is_empty() { "a step".to_owned() } else { format!("step {step}") }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(message) | Self::Rejected(message) | Self::Missing { message, .. } => {
                f.write_str(message)
            }
            Self::SeveralRuns(runs) => {
                let names: Vec<&str> = runs.iter().take(NAMES_MAX).map(String::as_str).collect();
                let (count, names) = (runs.len(), names.join(", "));
                match count.saturating_sub(NAMES_MAX) {
                    0 => write!(f, "{count} runs are active: {names}")?,
                    more => write!(f, "{count} runs are active: {names} and {more} more")?,
                }
                f.write_str("\nhint: name one, or set LEDGER_RUN")
            }
            Self::InsideAttempt { step } => write!(
                f,
                "this process works on {}, and a worker controls neither its run nor other \
                 steps\nhint: a worker may use `ledger receipt`, `renew`, `release`, `effect`, `note`, \
                 `set`, `plan request` and all commands that only read",
                worked_on(step)
            ),
            Self::AuthorInsideAttempt { step } => write!(
                f,
                "this process works on {}, and its records name the step\nhint: leave out \
                 `--by`, and unset LEDGER_BY",
                worked_on(step)
            ),
            Self::AgentSession { session } => write!(
                f,
                "this is an agent session ({session}), and only a person decides this\nhint: tell the \
                 user what waits; a person decides it in a shell that no agent host started"
            ),
            Self::OptionInAgentSession { session, option } => write!(
                f,
                "this is an agent session ({session}), and only a person chooses `{option}`: it decides \
                 for the user\nhint: tell the user; a person enters this command line in a shell that no \
                 agent host started"
            ),
            Self::JudgeInAgentSession { session } => write!(
                f,
                "this is an agent session ({session}), and no judge starts here, because the \
                 agent controls this environment\nhint: tell the user; a person starts the judge in a shell that no \
                 agent host started"
            ),
            Self::AuthorInAgentSession { session } => write!(
                f,
                "this is an agent session ({session}), and its records name the agent\nhint: leave out \
                 `--by`"
            ),
            Self::Ledger(error) => match error.rejection() {
                // The library does not format times.
                Some(Rejection::Leased { step, worker, lease_until }) => {
                    write!(
                        f,
                        "step {step} is claimed by {worker} until {}",
                        time_text(*lease_until)
                    )
                }
                Some(Rejection::MissingInputs(names)) => {
                    let options: Vec<String> = names
                        .iter()
                        .map(|name| option("--set", &format!("{name}=VALUE")))
                        .collect();
                    let first = quoted(names.first().map_or("", String::as_str));
                    write!(
                        f,
                        "the plan needs values for its inputs: {}\nhint: add {}; for a run that has \
                         started, `ledger set {first} VALUE`",
                        names.join(", "),
                        options.join(" ")
                    )
                }
                _ => write!(f, "{error:#}"),
            },
            Self::Output(error) => write!(f, "cannot write to standard output: {error}"),
        }
    }
}

/// The error for a plan that exceeds the length of a request.
pub(crate) fn plan_too_long() -> Failure {
    let limit = super::message::MESSAGE_LENGTH_MAX;
    let message = format!(
        "the plan: expected at most {limit} bytes of JSON, found more; use `ledger run` for larger plans \
         (with --replan for an existing run)"
    );
    Error::new(ErrorKind::TooLarge, message).into()
}

/// The error for a request or response that exceeds the limit.
pub(crate) fn too_long(what: &str) -> Failure {
    let limit = super::message::MESSAGE_LENGTH_MAX;
    let message = format!(
        "{what}: expected at most {limit} bytes, found more; write large results to files and report \
         them as artifacts"
    );
    Error::new(ErrorKind::TooLarge, message).into()
}

/// Rejects a JSON text with a whole number that would lose digits.
pub(crate) fn expect_short_numbers(text: &str) -> Result<(), Failure> {
    match find_long_number(text) {
        None => Ok(()),
        Some(number) => Err(Failure::Usage(format!(
            "the whole number {number} has more than 64 bits and would be rounded; write it as text, in \
             quotes"
        ))),
    }
}

#[cfg(test)]
mod tests {
    //! Goal: an error of the operating system has a hint for a person.

    use super::*;

    #[test]
    fn refusal_of_the_operating_system_has_a_hint() {
        let text = |kind: io::ErrorKind| {
            let error = Error::io("list the folder", Path::new("/somewhere"), kind.into());
            (error_line(&error), Failure::from(error).to_string())
        };
        for (kind, hint) in [
            (io::ErrorKind::PermissionDenied, DENIED_HINT),
            (io::ErrorKind::ReadOnlyFilesystem, READ_ONLY_HINT),
        ] {
            let (line, whole) = text(kind);
            assert!(line.ends_with(&format!("; {hint}")), "{line}");
            assert!(whole.starts_with("/somewhere: cannot list the folder: "), "{whole}");
            assert!(whole.ends_with(&format!("\nhint: {hint}")), "{whole}");
        }
        let (line, whole) = text(io::ErrorKind::BrokenPipe);
        assert_eq!(line, whole);
        // A hint of the library stays.
        let error = Error::io("write", Path::new("/x"), io::ErrorKind::PermissionDenied.into());
        let kept = Failure::from(error.with_hint("its own")).to_string();
        assert!(kept.ends_with("\nhint: its own"), "{kept}");
    }
}
