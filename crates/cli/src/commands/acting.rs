//! What all commands share that act: which ledger, and for whom the answer is.
//!
//! Invariant: an act is carried out by whoever holds the ledger, and its answer is printed here.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::server::{Act, Answer, Client, hand_over};
use plan_ledger::error::{Error, ErrorKind};
use plan_ledger::ledger::{Environment, expect_sound};
use plan_ledger::plan::State;

use super::exit::{Code, Failure};
use super::inspect::newest_state;
use super::{answer_with, print, say};

/// Which ledger, and for whom the answer is.
#[derive(Debug, Args)]
pub(super) struct Where {
    /// The ledger's folder
    #[arg(long, value_name = "DIR", default_value = ".ledger", env = "LEDGER_DIR")]
    #[arg(hide_env_values = true)]
    pub(super) ledger: PathBuf,
    /// Print the answer as JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// What somebody says about a run, and why.
#[derive(Debug, Args)]
pub(super) struct Saying {
    #[command(flatten)]
    pub(super) place: Where,
    /// The run's name
    pub(super) run: String,
    /// Who says so
    #[arg(long, value_name = "WHO")]
    pub(super) by: String,
    /// Why
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(super) reason: String,
}

impl Where {
    /// Carry an act out, and print what it came to.
    pub(super) fn act(&self, act: &Act) -> Result<Code, Failure> {
        self.print(&hand_over(&self.ledger, act, &environment())?)
    }

    /// Somebody who asks more than once.
    pub(super) fn client(&self) -> Client {
        Client::new(&self.ledger, &environment())
    }

    /// Look at the newest state.
    pub(super) fn look<T>(
        &self,
        look: impl FnOnce(&State) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        look_at(&self.ledger, look)
    }

    /// Print an answer.
    pub(super) fn print(&self, answer: &Answer) -> Result<Code, Failure> {
        print_answer(self.json, answer)
    }
}

/// Look at the newest state of a ledger, beside whoever holds it. Whatever was found, also that a
/// run is not there, is worth nothing if one of its runs cannot be read; and it may be stale where
/// not all records can be: it is shown, and the command ends as for a damaged ledger.
pub(super) fn look_at<T>(
    dir: &Path,
    look: impl FnOnce(&State) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let (state, unread) = newest_state(dir, &environment())?;
    let found = look(&state);
    expect_sound(&state)?;
    let Some(unread) = unread else { return found };
    let message = match found {
        // What is not there may stand in what cannot be read.
        Err(Failure::Usage(message)) => format!("{message}; {unread}"),
        Err(failure) => return Err(failure),
        Ok(_) => unread,
    };
    Err(Error::new(ErrorKind::Corrupt, message).into())
}

/// Print an answer: for people, or as JSON Lines.
pub(super) fn print_answer(as_json: bool, answer: &Answer) -> Result<Code, Failure> {
    answer.said.iter().for_each(|line| say(line));
    if as_json {
        answer.lines.iter().try_for_each(|line| print(&format!("{line}\n")))?;
    } else if !answer.text.is_empty() {
        answer_with(&format!("{}\n", answer.text))?;
    }
    Ok(Code::of(answer.code))
}

/// This machine; whoever finds the ledger held is told by which command.
pub(super) fn environment() -> Environment {
    let environment = Environment::system();
    let command = std::env::args_os().nth(1).unwrap_or_default();
    let holder = format!("{} (ledger {})", environment.holder, command.to_string_lossy());
    Environment { holder, ..environment }
}
