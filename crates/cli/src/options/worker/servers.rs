//! `--server`: the addresses of servers on other machines, and the token for them.
//!
//! The token comes from the environment or from a file, never from the command line, which other users of the machine
//! can see.

use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;

use crate::output::Failure;
use crate::server::{ServerAddress, Servers};

/// The heading of the options.
const HEADING: &str = "Server";

/// The variable with the token, as for the clients of other languages.
const TOKEN_VARIABLE: &str = "LEDGER_HTTP_TOKEN";

/// The longest file with a token, in bytes.
const TOKEN_LENGTH_MAX: u64 = 4096;

/// Whether the command line names a folder, which then counts more than a variable with servers.
static FOLDER_NAMED: AtomicBool = AtomicBool::new(false);

/// The command line has `--ledger`, and no `--server`.
pub(crate) fn prefer_folder() {
    FOLDER_NAMED.store(true, Ordering::Relaxed);
}

/// The addresses of the servers of one ledger.
#[derive(Debug, Clone)]
struct ServerList(Vec<ServerAddress>);

/// The servers.
#[derive(Debug, Args)]
pub(crate) struct ServerOptions {
    /// Ask these servers (`ledger serve --http`) instead of a folder: the one that holds the ledger executes the request
    #[arg(
        long = "server",
        value_name = "URL[,URL...]",
        env = "LEDGER_SERVER",
        hide_env_values = true
    )]
    #[arg(value_parser = parse_servers, help_heading = HEADING)]
    servers: Option<ServerList>,
    /// The file with the token for the servers [default: the variable `LEDGER_HTTP_TOKEN`]
    #[arg(long = "server-token-file", value_name = "FILE", help_heading = HEADING)]
    token_file: Option<PathBuf>,
}

impl ServerOptions {
    fn list(&self) -> &[ServerAddress] {
        match &self.servers {
            Some(ServerList(list)) if !FOLDER_NAMED.load(Ordering::Relaxed) => list,
            _ => &[],
        }
    }

    /// The addresses, as the option takes them; `None` if a folder is used.
    pub(crate) fn addresses(&self) -> Option<String> {
        let texts: Vec<String> = self.list().iter().map(ToString::to_string).collect();
        (!texts.is_empty()).then(|| texts.join(","))
    }

    /// The servers, if there are any.
    pub(crate) fn open(&self) -> Result<Option<Servers>, Failure> {
        if self.list().is_empty() {
            return Ok(None);
        }
        let token = match &self.token_file {
            Some(path) => Some(read_token(path)?),
            None => std::env::var(TOKEN_VARIABLE).ok(),
        };
        let token = token.map(|token| token.trim().to_owned()).filter(|token| !token.is_empty());
        Servers::new(self.list().to_vec(), token.as_deref()).map(Some)
    }
}

/// Addresses; none if the variable is empty.
fn parse_servers(text: &str) -> Result<ServerList, String> {
    let texts = text.split(',').map(str::trim).filter(|text| !text.is_empty());
    let parse = |text: &str| text.parse::<ServerAddress>().map_err(|why| format!("{text}: {why}"));
    texts.map(parse).collect::<Result<_, _>>().map(ServerList)
}

fn read_token(path: &PathBuf) -> Result<String, Failure> {
    let mut text = String::new();
    let read =
        File::open(path).and_then(|file| file.take(TOKEN_LENGTH_MAX).read_to_string(&mut text));
    read.map_err(|error| {
        Failure::Usage(format!("{}: cannot read the token: {error}", path.display()))
    })?;
    Ok(text)
}
