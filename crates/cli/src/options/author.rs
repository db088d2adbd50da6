//! The author of a change: `--by`, else `LEDGER_BY`, else the login name.

use clap::Args;

use crate::requests::Actor;
use crate::server::AgentSession;

use super::run::parse_name;

/// The author of a change.
#[derive(Debug, Args)]
pub(crate) struct ByOption {
    /// Your name, for the record [default: the login name]
    #[arg(long, value_name = "WHO", env = "LEDGER_BY", hide_env_values = true)]
    #[arg(default_value_t = login_name(), hide_default_value = true, value_parser = parse_author)]
    pub(crate) by: String,
}

/// Rejects an empty or reserved name of an author.
pub(crate) fn parse_author(text: &str) -> Result<String, String> {
    Actor::expect_own_name(text)?;
    parse_name(text)
}

/// The reader of a plan file: the agent in an agent session, else `LEDGER_BY`, else the login name.
pub(crate) fn plan_author() -> Option<String> {
    let session = AgentSession::of_environment();
    session
        .map(|session| Actor::Agent(session.name).to_string())
        .or_else(|| std::env::var("LEDGER_BY").ok().filter(|author| !author.is_empty()))
        .or_else(|| Some(login_name()))
}

/// The login name of the user of this process.
fn login_name() -> String {
    whoami::username().unwrap_or_else(|_| "operator".to_owned())
}
