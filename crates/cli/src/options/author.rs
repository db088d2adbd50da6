//! The author of a plan that a command reads from a file.

use crate::requests::{Actor, login_name};
use crate::server::AgentSession;

/// The reader of a plan file: the agent in an agent session, else `LEDGER_BY`, else the login name.
pub(crate) fn plan_author() -> Option<String> {
    let session = AgentSession::of_environment();
    session
        .map(|session| Actor::Agent(session.name).to_string())
        .or_else(|| std::env::var("LEDGER_BY").ok().filter(|author| !author.is_empty()))
        .or_else(|| Some(login_name()))
}
