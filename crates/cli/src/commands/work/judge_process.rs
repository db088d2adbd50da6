//! The judge of `ledger serve --checks`: `ledger work --judge-only --wait` as a child process.
//!
//! Invariants:
//! - Commands run in the child, never in the server: neither its event loop nor its commit thread waits for one.
//! - The child ends with the server, however the server ends: it ends when its standard input does.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use plan_ledger::Error;

use crate::commands::resume::own_program;
use crate::output::{Failure, print_message};
use crate::runner::JudgeMark;
use crate::server::{AgentSession, expect_outside};

/// Rejects a process that may not be a judge.
///
/// # Errors
/// It is inside an attempt or an agent session.
pub(crate) fn expect_judge(ledger: &Path) -> Result<(), Failure> {
    expect_outside(std::process::id(), ledger)?;
    match AgentSession::of_environment() {
        Some(session) => Err(Failure::JudgeInAgentSession { session: session.name }),
        None => Ok(()),
    }
}

/// How long the judge may take to end. The command that it runs has its own time.
const END_LIMIT: Duration = Duration::from_secs(30);

/// The pause between two looks at whether it has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A judge that works as long as this value lives.
#[derive(Debug)]
pub(crate) struct JudgeProcess {
    ledger: PathBuf,
    json: bool,
    child: Child,
    /// The child may need a moment until it has its own.
    _mark: Option<JudgeMark>,
}

impl JudgeProcess {
    /// Starts the judge of all runs of a ledger.
    pub(crate) fn start(ledger: &Path, json: bool) -> Result<Self, Failure> {
        let child = start(ledger, json)?;
        Ok(Self { ledger: ledger.to_owned(), json, child, _mark: JudgeMark::set(ledger, None) })
    }

    /// Starts another judge if the last one has ended, which it does not do by itself.
    pub(crate) fn restart_if_ended(&mut self) -> Result<(), Failure> {
        let looked = self.child.try_wait();
        let ended = looked.map_err(|error| Error::io("watch the judge of", &self.ledger, error))?;
        if let Some(status) = ended {
            print_message(&format!("the judge has ended ({status}), and another one is started"));
            self.child = start(&self.ledger, self.json)?;
        }
        Ok(())
    }
}

impl Drop for JudgeProcess {
    fn drop(&mut self) {
        // At the end of its input it stops the command that it runs, and ends.
        drop(self.child.stdin.take());
        let asked = Instant::now();
        while asked.elapsed() < END_LIMIT {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            sleep(POLL_INTERVAL);
        }
        let _: io::Result<()> = self.child.kill();
        let _: io::Result<_> = self.child.wait();
    }
}

fn start(ledger: &Path, json: bool) -> Result<Child, Failure> {
    let mut command = Command::new(own_program());
    let mut place = OsString::from("--ledger=");
    place.push(ledger);
    command.args(["work", "--judge-only", "--wait", "--until-eof"]).arg(place);
    command.args(json.then_some("--json"));
    // Its ledger is this folder, regardless of the environment.
    command.env_remove("LEDGER_SERVER").stdin(Stdio::piped());
    Ok(command.spawn().map_err(|error| Error::io("start the judge of", ledger, error))?)
}
