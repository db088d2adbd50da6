//! `ledger mcp`: the tools of a worker, an operator or a viewer for hosts that speak the Model Context
//! Protocol, over standard input and output.
//!
//! A tool call becomes a request, as a command does, and goes the same way: to the server of the
//! ledger, or to the ledger itself. `tools` lists the tools with their types, `work`, `read` and
//! `control` execute them, `forms` asks the user, `result` fits answers to a limit, and `service`
//! implements the protocol, both with `initialize` and stateless.
//!
//! Invariants:
//! - No lock is held between two calls, and no other process runs.
//! - A role sees only its tools, and a request that needs another role is rejected.
//! - A call that is repeated with the same identifier, or under the same key, takes effect once.
//! - Input is untrusted: a message has a limit, a line that is not JSON is answered, and no call waits
//!   longer than 50 s, for a step or for the user.

#[cfg(feature = "mcp")]
mod arguments;
#[cfg(feature = "mcp")]
mod call;
#[cfg(feature = "mcp")]
mod control;
#[cfg(feature = "mcp")]
mod forms;
#[cfg(feature = "mcp")]
mod key;
#[cfg(feature = "mcp")]
mod prompts;
#[cfg(feature = "mcp")]
mod read;
#[cfg(feature = "mcp")]
mod resources;
#[cfg(feature = "mcp")]
mod result;
#[cfg(feature = "mcp")]
mod service;
#[cfg(feature = "mcp")]
mod stdio;
#[cfg(feature = "mcp")]
mod tools;
#[cfg(feature = "mcp")]
mod work;

use clap::Args;

#[cfg(feature = "mcp")]
use crate::options::environment;
use crate::options::{Author, LedgerOption, RunOption};
#[cfg(feature = "mcp")]
use crate::output::render::{ColorChoice, set_color};
use crate::output::{Code, Failure};
use crate::protocol::parse_words;
use crate::requests::Role;

#[cfg(feature = "mcp")]
use call::ToolServer;
#[cfg(all(feature = "mcp", feature = "http"))]
pub(crate) use service::LedgerService;

const EXAMPLES: &str = "\
Examples:
  ledger mcp                                       claim, report, renew, release, and read
  ledger mcp --role operator                       also plans, answers and control
  ledger mcp --role viewer --run my-plan           only read, about that run

An agent host starts it: `ledger setup HOST` adds it to the settings. An operator's server asks the user
about open questions, in hosts that can show a form; the answers are recorded under --by. It speaks JSON-RPC on standard
input and output, and ends when its input ends. format/mcp.md describes the tools.";

const ROLES: &[(&str, &str)] = &[
    ("worker", "Claims and reports steps, and reads"),
    ("operator", "Also proposes plans, answers questions and controls runs"),
    ("viewer", "Reads"),
];

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct McpArgs {
    #[command(flatten)]
    place: LedgerOption,
    #[command(flatten)]
    run: RunOption,
    /// What the client may do
    #[arg(long, value_name = "ROLE", default_value = "worker", value_parser = parse_words::<Role>(ROLES))]
    role: Role,
    /// The name of the worker [default: mcp/ and a random word]
    #[arg(long, value_name = "NAME", env = "LEDGER_WORKER", hide_env_values = true)]
    worker: Option<String>,
    #[command(flatten)]
    person: Author,
}

#[cfg(not(feature = "mcp"))]
pub(crate) fn mcp(_: &McpArgs) -> Result<Code, Failure> {
    Err(crate::protocol::failure::left_out::LeftOut::MCP.failure("`ledger mcp`"))
}

#[cfg(feature = "mcp")]
pub(crate) fn mcp(args: &McpArgs) -> Result<Code, Failure> {
    // A model reads the texts of the views.
    set_color(ColorChoice::Never);
    let environment = environment();
    let server = ToolServer::new(
        args.place.dir.clone(),
        environment,
        args.role,
        args.run.name().map(str::to_owned),
        args.worker.clone(),
        args.person.clone(),
    );
    stdio::serve(server)?;
    Ok(Code::Success)
}

/// The tools of a role, for one client over HTTP.
#[cfg(all(feature = "mcp", feature = "http"))]
pub(crate) fn tools_over_http(
    dir: std::path::PathBuf,
    environment: plan_ledger::Environment,
    role: Role,
) -> LedgerService {
    // Only the client knows its user, so an answer without a person has this name.
    let person = "http".to_owned().into();
    let server = ToolServer::new(dir, environment, role, None, None, person).over_http();
    LedgerService::new(std::sync::Arc::new(server))
}
