//! Options of commands that change a ledger: the ledger's folder, and the output form.
//!
//! Such a command sends a request to the lock holder, or takes the lock itself, and prints the
//! response.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use clap::builder::{PathBufValueParser, TypedValueParser as _};

use plan_ledger::{Environment, Error, Ledger, Result as LedgerResult};

use crate::output::{
    Code, Failure, print_absent_runners, print_answer, print_answer_aside, print_message,
};
use crate::protocol::Answer;
use crate::requests::Request;
use crate::server::{Client, open_in_turn};

use super::default_ledger::{default_ledger, named};
use super::form::AsJson;

/// The ledger.
#[derive(Debug, Clone, Args)]
pub(crate) struct LedgerOption {
    /// The ledger's folder [default: the nearest .ledger, here or in a folder above]
    #[arg(long = "ledger", value_name = "DIR", env = "LEDGER_DIR", hide_env_values = true)]
    #[arg(default_value_os_t = default_ledger(), hide_default_value = true)]
    #[arg(value_parser = PathBufValueParser::new().map(named))]
    pub(crate) dir: PathBuf,
}

/// The ledger, and the form of the output.
#[derive(Debug, Args)]
pub(crate) struct LedgerArgs {
    #[command(flatten)]
    place: LedgerOption,
    #[command(flatten)]
    pub(crate) json: AsJson,
}

impl LedgerArgs {
    /// The ledger's folder.
    pub(crate) fn dir(&self) -> &Path {
        &self.place.dir
    }

    /// Sends a request and prints the response.
    pub(crate) fn execute(&self, request: impl Into<Request>) -> Result<Code, Failure> {
        let request = request.into();
        let answer = self.client().call(&request)?;
        let code = self.print(&answer)?;
        if request.rules().decides && code == Code::Success {
            print_absent_runners(self.dir(), &answer);
        }
        Ok(code)
    }

    /// Sends a request that a worker makes and prints the response. Inside an attempt standard
    /// output is the output of the step, so the response goes to standard error.
    pub(crate) fn execute_for_worker(&self, request: impl Into<Request>) -> Result<Code, Failure> {
        self.print_for_worker(&self.client().call(&request.into())?)
    }

    /// Prints the response to a request that a worker makes.
    pub(super) fn print_for_worker(&self, answer: &Answer) -> Result<Code, Failure> {
        if is_inside_attempt() {
            print_answer_aside(self.json.0, answer)
        } else {
            self.print(answer)
        }
    }

    /// A client for several requests.
    pub(crate) fn client(&self) -> Client {
        Client::new(self.dir(), &environment())
    }

    /// Prints a response.
    pub(crate) fn print(&self, answer: &Answer) -> Result<Code, Failure> {
        print_answer(self.json.0, answer)
    }
}

/// Whether a worker of an attempt started this process.
fn is_inside_attempt() -> bool {
    std::env::var_os("LEDGER_TOKEN").is_some_and(|token| !token.is_empty())
}

/// The environment of this machine. The lock file has the command line of this process, for the
/// error of a locked ledger.
pub(crate) fn environment() -> Environment {
    let environment = Environment::system();
    let command = std::env::args_os().nth(1).unwrap_or_default();
    let holder = format!("{} (ledger {})", environment.holder, command.to_string_lossy());
    let allow_unsafe_locks = UNSAFE_LOCKS_ALLOWED.load(Ordering::Relaxed);
    Environment { holder, allow_unsafe_locks, ..environment }
}

/// Creates the folders above a ledger's folder.
pub(crate) fn create_parents(dir: &Path) -> LedgerResult<()> {
    match dir.parent() {
        // A path below a file has no ledger: the error of opening it says this.
        Some(parent) if !parent.ancestors().any(Path::is_file) => std::fs::create_dir_all(parent)
            .map_err(|error| Error::io("create the folder", parent, error)),
        _ => Ok(()),
    }
}

/// Whether the command line has `--allow-unsafe-locks`.
static UNSAFE_LOCKS_ALLOWED: AtomicBool = AtomicBool::new(false);

/// Opens ledgers also where file locks may not exclude other writers.
pub(crate) fn allow_unsafe_locks() {
    UNSAFE_LOCKS_ALLOWED.store(true, Ordering::Relaxed);
}

/// Opens an existing ledger for writing and prints the findings of recovery.
pub(crate) fn open_ledger(dir: &Path, environment: &Environment) -> LedgerResult<Ledger> {
    let (ledger, report) = open_in_turn(dir, || Ledger::open_with(dir, environment))?;
    report.notes.iter().for_each(|note| print_message(note));
    Ok(ledger)
}
