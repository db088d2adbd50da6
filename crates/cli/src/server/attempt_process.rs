//! Finds out for whom a process acts. A process of an attempt acts for its step: a worker reports
//! about its own step, and controls neither its run nor other steps. A process in the shell of an
//! agent session acts for that session, and decides nothing for a person. The module also finds out
//! whether a process is this program: only this program runs checking commands.
//!
//! The runner names the ledger and the job in the environment of a worker, and the descendants of
//! the worker inherit both. A process that clears these variables and leaves its parents is not
//! recognized: workers that are not trusted run as another user (`docs/src/security.md`).

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use std::sync::OnceLock;

use plan_ledger::{AttemptToken, StepNumber};

use crate::protocol::Failure;
use crate::requests::{Actor, Request, TokenRule};

use super::agent_session::{AgentSession, is_this_program, is_tool_server, value_of};

/// How many ancestors of a process are checked.
const ANCESTORS_MAX: usize = 64;

/// The longest environment that is read, in bytes.
const ENVIRONMENT_LENGTH_MAX: usize = 4 << 20;

/// The start of the names of variables that the program keeps for itself.
const OWN_VARIABLES: &str = "ledger.";

/// The process that executes a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Executor {
    /// By a process of this machine.
    ThisMachine,
    /// By a server that is reached over HTTP.
    #[cfg_attr(not(feature = "store"), expect(dead_code, reason = "another build asks servers"))]
    Elsewhere,
}

/// The source of the author in this process's command line, if it has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AuthorSource {
    /// `--by`.
    Option,
    /// `LEDGER_BY`.
    Variable,
}

/// The source of the author in the command line of this process.
static AUTHOR_SOURCE: OnceLock<AuthorSource> = OnceLock::new();

/// Keeps the source of the author in this process's command line.
pub(crate) fn note_author_source(source: AuthorSource) {
    AUTHOR_SOURCE.get_or_init(|| source);
}

/// The author of a request by a process; `None` if the request itself names one.
///
/// # Errors
/// `InsideAttempt` for a request that a worker may not make, if the process is inside an attempt of the
/// ledger; `AgentSession` for a decision of a person, if it is in the shell of an agent session.
fn actor_of(request: &Request, process: u32, dir: &Path) -> Result<Option<Actor>, Failure> {
    let rules = request.rules();
    // A request that proves its attempt has no author.
    if rules.from_attempt && rules.token == TokenRule::Required && names_author(process).is_none() {
        return Ok(None);
    }
    if let Some(attempt) = attempt_of(process, dir) {
        expect_allowed(request, process, &attempt)?;
        return attempt.actor(process);
    }
    if matches!(request, Request::Verdict(_)) {
        expect_this_program(process)?;
    }
    let Some(session) = AgentSession::of(process) else { return Ok(None) };
    if !session.may_decide(dir) {
        if rules.decides {
            return Err(Failure::AgentSession { session: session.name });
        }
        if names_author(process) == Some(AuthorSource::Option) {
            return Err(Failure::AuthorInAgentSession { session: session.name });
        }
    }
    Ok(Some(Actor::Agent(session.name)))
}

/// The request with the author that its process acts for; `None` if the request names its author
/// itself. A server on another machine sees no process and accepts no reserved name: it gets a name
/// without the reserved start.
///
/// # Errors
/// As [`actor_of`]; `Usage` for an author or a worker with a reserved name.
pub(super) fn made_by(
    request: &Request,
    process: u32,
    dir: &Path,
    executor: Executor,
) -> Result<Option<Request>, Failure> {
    request.worker().map_or(Ok(()), Actor::expect_own_name).map_err(Failure::Usage)?;
    let Some(actor) = actor_of(request, process, dir)? else {
        // A server of tools names the agent that it serves.
        let by = request.author().filter(|_| !is_tool_server(process));
        let named = by.map_or(Ok(()), |by| Actor::expect_own_name(&by));
        named.map_err(Failure::Usage)?;
        return Ok(None);
    };
    let mut made = request.of_actor(&match executor {
        Executor::ThisMachine => actor.clone(),
        Executor::Elsewhere => actor.without_reserved_name(),
    })?;
    let session = AgentSession::of(process).filter(|_| matches!(actor, Actor::Agent(_)));
    if session.is_some_and(|session| !session.may_decide(dir)) {
        if !plan_ledger::mutant!(AgentVersionRuns) {
            made.wait_for_approval();
        }
        match &mut made {
            Request::ReleaseStep(request) => request.is_of_agent = true,
            Request::Fork(request) => request.is_of_agent = true,
            _ => {}
        }
    }
    Ok(Some(made))
}

/// The source of the author, if the process is this one.
fn names_author(process: u32) -> Option<AuthorSource> {
    AUTHOR_SOURCE.get().copied().filter(|_| process == std::process::id())
}

/// Rejects a request that a worker may not make.
fn expect_allowed(
    request: &Request,
    process: u32,
    attempt: &AttemptProcess,
) -> Result<(), Failure> {
    // These variables do not belong to a worker: the program uses them to tell workers which files
    // changed.
    let is_own = matches!(request, Request::Set(set) if set.name.starts_with(OWN_VARIABLES));
    if request.rules().from_attempt && !is_own {
        return Ok(());
    }
    if matches!(request, Request::Verdict(_)) {
        expect_this_program(process)?;
    }
    attempt.refused()
}

/// Rejects a verdict on a command from another program: only this program runs the command first,
/// and no worker's word counts.
fn expect_this_program(process: u32) -> Result<(), Failure> {
    if is_this_program(process) || plan_ledger::mutant!(VerdictOfAnyProcess) {
        return Ok(());
    }
    Err(verdict_without_its_process())
}

/// The rejection of a verdict on a command that does not come from the process that ran it.
pub(crate) fn verdict_without_its_process() -> Failure {
    Failure::Rejected(
        "a verdict on a command is taken only from the process that ran it: `ledger run` or `ledger \
         work` of this program"
            .to_owned(),
    )
}

/// Rejects a process that is inside an attempt of the ledger.
///
/// # Errors
/// `InsideAttempt`.
pub(crate) fn expect_outside(process: u32, dir: &Path) -> Result<(), Failure> {
    attempt_of(process, dir).map_or(Ok(()), |attempt| attempt.refused())
}

/// The attempt of this process, in a ledger: its step's id, and its token for an attempt at a step.
pub(crate) fn own_attempt(dir: &Path) -> Option<(String, Option<AttemptToken>)> {
    let attempt = attempt_of(std::process::id(), dir)?;
    Some((attempt.step, attempt.attempt.map(|(_, token)| token)))
}

/// The author of decisions by this process: the named person, or an agent with the permission of
/// the ledger's owner.
///
/// # Errors
/// `InsideAttempt`; `AgentSession`.
pub(crate) fn expect_person(dir: &Path, by: &str) -> Result<String, Failure> {
    person(dir, by, AgentSession::of_this_process())
}

/// As [`expect_person`], for an option that decides, of a command that does not: `ledger run` answers for
/// its workers, but its command line was typed in a shell. `ledger resume` repeats it in another one.
///
/// # Errors
/// `InsideAttempt`; `OptionInAgentSession`.
pub(crate) fn expect_person_for(
    option: &'static str,
    dir: &Path,
    by: &str,
) -> Result<String, Failure> {
    person(dir, by, AgentSession::of_environment()).map_err(|failure| match failure {
        Failure::AgentSession { session } => Failure::OptionInAgentSession { session, option },
        failure => failure,
    })
}

fn person(dir: &Path, by: &str, session: Option<AgentSession>) -> Result<String, Failure> {
    expect_outside(std::process::id(), dir)?;
    match session {
        Some(session) if session.may_decide(dir) => Ok(Actor::Agent(session.name).to_string()),
        Some(session) => Err(Failure::AgentSession { session: session.name }),
        None => Ok(by.to_owned()),
    }
}

/// The job of a runner that a process is in.
#[derive(Debug, PartialEq, Eq)]
struct AttemptProcess {
    /// The step's id; empty if it is a job without a step, such as that of a planner.
    step: String,
    /// The step and the attempt, if the job has them.
    attempt: Option<(StepNumber, AttemptToken)>,
    /// The name that the runner gave to the job, if it has one.
    name: Option<String>,
}

impl AttemptProcess {
    fn of(environment: &[u8]) -> Self {
        let text = |name: &str| {
            value_of(environment, name).map(|value| String::from_utf8_lossy(value).into_owned())
        };
        let attempt = || {
            let number = text("LEDGER_STEP_NUMBER")?.parse().ok()?;
            let token = text("LEDGER_TOKEN")?.split('-').next()?.parse().ok()?;
            Some((StepNumber(number), AttemptToken(token)))
        };
        let name = text("LEDGER_BY").filter(|name| !name.is_empty());
        Self { step: text("LEDGER_STEP").unwrap_or_default(), attempt: attempt(), name }
    }

    /// The failure of a request that a worker may not make.
    fn refused(&self) -> Result<(), Failure> {
        if plan_ledger::mutant!(WorkerControlsRun) {
            return Ok(());
        }
        Err(Failure::InsideAttempt { step: self.step.clone() })
    }

    /// The actor of the process: the step, or the planner, judge or decider that the runner named.
    fn actor(self, process: u32) -> Result<Option<Actor>, Failure> {
        plan_ledger::mutant!(AttemptActsAsPerson => return Ok(None));
        let source = names_author(process);
        match (self.attempt, source) {
            (_, Some(AuthorSource::Option)) | (Some(_), Some(AuthorSource::Variable)) => {
                Err(Failure::AuthorInsideAttempt { step: self.step })
            }
            (Some((step, token)), None) => Ok(Some(Actor::Step { step, token })),
            (None, _) => Ok(self.name.map(Actor::Named)),
        }
    }
}

/// The job of a runner of this ledger that a process, or an ancestor of it, is in.
fn attempt_of(process: u32, dir: &Path) -> Option<AttemptProcess> {
    let ledger = fs::metadata(dir).ok()?;
    let is_ledger = |path: &[u8]| {
        let found = fs::metadata(Path::new(OsStr::from_bytes(path)));
        found.is_ok_and(|found| (found.dev(), found.ino()) == (ledger.dev(), ledger.ino()))
    };
    let mut process = process;
    for _ in 0..ANCESTORS_MAX {
        let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        if environment.len() <= ENVIRONMENT_LENGTH_MAX
            && value_of(&environment, "LEDGER_WORK").is_some()
            && value_of(&environment, "LEDGER_DIR").is_some_and(is_ledger)
        {
            return Some(AttemptProcess::of(&environment));
        }
        process = parent_of(process).filter(|parent| *parent > 1)?;
    }
    None
}

/// The parent of a process; `None` if it is gone, or unknown here.
fn parent_of(process: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name is in parentheses and may itself contain parentheses.
    let (_, after) = stat.rsplit_once(')')?;
    after.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    fn sleeper(command: &str, ledger: &Path) -> Child {
        Command::new("sh")
            .args(["-c", command])
            .env("LEDGER_DIR", ledger)
            .env("LEDGER_WORK", "/x/7")
            .env("LEDGER_STEP", "build")
            .env("LEDGER_STEP_NUMBER", "3")
            .env("LEDGER_TOKEN", "412-9f2c")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// A descendant without the variables has an ancestor with them; another ledger is not concerned.
    #[test]
    #[cfg(target_os = "linux")]
    fn descendants_of_a_worker_are_inside_its_attempt() {
        let (ledger, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut child = sleeper("env -i PATH=\"$PATH\" sleep 600 & echo $!; wait", ledger.path());
        let mut line = String::new();
        let out = child.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).unwrap();
        let inner: u32 = line.trim().parse().unwrap();
        for process in [child.id(), inner] {
            let found = attempt_of(process, ledger.path()).unwrap();
            assert_eq!(found.step, "build");
            assert_eq!(found.attempt, Some((StepNumber(3), AttemptToken(412))));
            assert_eq!(attempt_of(process, other.path()), None);
        }
        assert_eq!(attempt_of(std::process::id(), ledger.path()), None);
        let killed = Command::new("kill").args(["-9", &inner.to_string()]).status();
        assert!(killed.unwrap().success());
        child.wait().unwrap();
    }
}
