//! The ledger of a command that takes it as its first argument.
//!
//! Without one, the rule of [`default_ledger`] applies.

use std::path::PathBuf;

use clap::Args;

use crate::output::{Code, Failure, print_answer};
use crate::requests::Request;
use crate::server::Client;

use super::default_ledger::{default_ledger, named};
use super::form::AsJson;
use super::ledger::environment;

const HELP: &str = "The ledger's folder; to read it, also the path of an archive's file \
                    [env: LEDGER_DIR] [default: the nearest .ledger, here or in a folder above]";

/// A ledger, as an argument or as an option.
#[derive(Debug, Args)]
pub(crate) struct LedgerFolder {
    #[arg(value_name = "DIR", help = HELP)]
    dir: Option<PathBuf>,
    /// The same as DIR, as an option
    #[arg(long, value_name = "DIR", global = true)]
    ledger: Option<PathBuf>,
}

impl LedgerFolder {
    /// Whether it is given as an argument, and not as an option.
    pub(crate) fn is_argument(&self) -> bool {
        self.dir.is_some()
    }

    /// The ledger's folder.
    ///
    /// # Errors
    /// `Usage` if it is given twice.
    pub(crate) fn dir(&self) -> Result<PathBuf, Failure> {
        match (&self.dir, &self.ledger) {
            (Some(dir), Some(ledger)) => {
                let (dir, ledger) = (dir.display(), ledger.display());
                let message = format!(
                    "the ledger is given twice: {dir} and {ledger}\nhint: give DIR or --ledger DIR"
                );
                Err(Failure::Usage(message))
            }
            (Some(dir), None) | (None, Some(dir)) => Ok(named(dir.clone())),
            (None, None) => {
                let dir = std::env::var_os("LEDGER_DIR").map_or_else(default_ledger, PathBuf::from);
                if dir.as_os_str().is_empty() {
                    let message = "LEDGER_DIR is set, but empty";
                    return Err(Failure::Usage(message.to_owned()));
                }
                Ok(dir)
            }
        }
    }
}

/// A ledger as an argument or as an option, and the form of the output.
#[derive(Debug, Args)]
pub(crate) struct FolderArgs {
    #[command(flatten)]
    folder: LedgerFolder,
    #[command(flatten)]
    json: AsJson,
}

impl FolderArgs {
    /// Sends a request and prints the response.
    pub(crate) fn execute(&self, request: impl Into<Request>) -> Result<Code, Failure> {
        let answer = Client::new(&self.folder.dir()?, &environment()).call(&request.into())?;
        print_answer(self.json.0, &answer)
    }
}
