//! Options of the commands of workers: the ledger, the worker's name, the lease, and the token.

mod guards;
mod ledger;
mod limits;
pub(crate) mod program;
#[cfg(feature = "store")]
mod servers;

use std::path::Path;

use clap::Args;

use plan_ledger::plan::{Route, is_person};

use crate::output::Failure;
use crate::protocol::{OWNER_HELP, TAG_HELP};
use crate::requests::parse_name;
use crate::server::{AgentSession, expect_person_for};

pub(crate) use guards::GuardArgs;
pub(crate) use ledger::WorkerLedgerArgs;
pub(crate) use limits::WorkerLimitArgs;
#[cfg(feature = "store")]
pub(crate) use servers::prefer_folder;

/// The worker.
#[derive(Debug, Args)]
pub(crate) struct WorkerOption {
    /// The worker's name
    #[arg(long, value_name = "NAME", default_value_t = default_worker(), env = "LEDGER_WORKER")]
    #[arg(hide_env_values = true)]
    pub(crate) worker: String,
}

/// The session, in the shell of an agent session: its hooks know its claims by this name.
fn default_worker() -> String {
    AgentSession::of_this_process().map_or_else(|| "worker".to_owned(), |session| session.name)
}

/// The steps that a worker takes.
#[derive(Debug, Args)]
pub(crate) struct RouteArgs {
    #[arg(long, value_name = "OWNER", value_parser = parse_name, help = OWNER_HELP)]
    pub(crate) owner: Vec<String>,
    #[arg(long, value_name = "TAG", value_parser = parse_name, help = TAG_HELP)]
    pub(crate) tag: Vec<String>,
}

impl RouteArgs {
    pub(crate) fn route(&self) -> Route {
        Route::of(&self.owner, &self.tag)
    }

    /// Rejects the steps of people in an agent session: they are for a person.
    ///
    /// # Errors
    /// `AgentSession`, unless the owner of the ledger allowed the agent to decide.
    pub(crate) fn expect_permitted(&self, dir: &Path) -> Result<(), Failure> {
        expect_owners_permitted(&self.owner, dir)
    }

    /// The owners and the tags.
    pub(crate) fn lists(&self) -> (Vec<String>, Vec<String>) {
        (self.owner.clone(), self.tag.clone())
    }
}

/// Rejects the steps of people in an agent session: they are for a person.
///
/// # Errors
/// `AgentSession`, unless the owner of the ledger allowed the agent to decide.
pub(crate) fn expect_owners_permitted(owners: &[String], dir: &Path) -> Result<(), Failure> {
    if owners.iter().any(|owner| is_person(owner)) {
        expect_person_for("--owner human", dir, "")?;
    }
    Ok(())
}
