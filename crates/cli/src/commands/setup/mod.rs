//! `ledger setup HOST`: adds the hooks and the MCP server to the settings of an agent host, checks
//! them, or removes them.
//!
//! The settings come from the plugin folders in `hosts/`, so that a plugin and a setup are the
//! same. Files are edited in place: the user's entries, comments, order and layout stay.
//!
//! `ledger setup service` writes a unit that resumes a run: see [`service`].
//!
//! Invariants:
//! - Every file is read and edited before the first one is written: a broken file, or another value
//!   in the place of a setting, stops the command before it changes anything.
//! - Repeating the command changes nothing. `--remove` removes only its additions.

mod action;
mod edit;
mod json_file;
mod own;
mod placement;
pub(crate) mod service;
mod target;
mod toml_file;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::Error;

use crate::options::{AsJson, Host, default_ledger};
use crate::output::{Code, Failure, print_result};
use crate::server::{AgentSession, agents_may_decide, expect_outside, set_agents_may_decide};

use action::SetupAction;
use edit::{Direction, FileEdit};
use own::Program;
use placement::{SettingsPlace, placements};

const EXAMPLES: &str = "\
Examples:
  ledger setup claude-code                         in the settings of this project
  ledger setup codex --user                        in your own settings, for all projects
  ledger setup cursor --check                      exit code 1 if something is missing
  ledger setup gemini --remove                     as it was before
  ledger setup codex --agents-decide               agents may decide for you in this ledger
  ledger setup codex --agents-ask                  take that back
  ledger setup service                             resume the run by itself after a reboot or a crash

In the shell of an agent session, the commands that decide for a person are refused: accept, reject, answer,
plan approve, plan reject, plan withdraw, decide, retry, skip, budget, cap, erase, unpause, cancel, and --by.
With --agents-decide the owner of the ledger allows them to the agents of a host; their records name the
agent.

Entries of yours and of other tools in these files are kept. If a file is not valid, the command fails
and changes no file. Run it again after a new version of `ledger`.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct SetupArgs {
    #[command(flatten)]
    host: HostArgs,
    #[command(subcommand)]
    other: Option<OtherSetup>,
}

/// Other things to set up, beside hosts.
#[derive(Debug, Subcommand)]
enum OtherSetup {
    /// Write a unit of systemd that resumes a run after a reboot or a crash of its runner
    Service(service::ServiceArgs),
}

#[derive(Debug, Args)]
struct HostArgs {
    /// The host
    #[arg(value_name = "HOST", required = true)]
    host: Option<Host>,
    /// Change nothing; report what is missing
    #[arg(long, conflicts_with = "remove")]
    check: bool,
    /// Remove the added settings
    #[arg(long)]
    remove: bool,
    /// Let agents of the host decide for a person in the ledger of this folder
    #[arg(long, conflicts_with_all = ["check", "remove"])]
    agents_decide: bool,
    /// Ask a person again for the decisions that --agents-decide allowed to agents of the host
    #[arg(long, conflicts_with_all = ["check", "agents_decide"])]
    agents_ask: bool,
    /// Your own settings, for all projects [default: those of the project in this folder]
    #[arg(long)]
    user: bool,
    #[command(flatten)]
    json: AsJson,
}

/// The changes by the setup of a host.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct SetupLine {
    /// Whether agents of the host may decide for a person in the ledger of this folder.
    agents_decide: bool,
    /// The files with settings.
    files: Vec<SetupFileJson>,
    /// The host.
    host: &'static str,
    /// Whether the host has all settings now.
    is_complete: bool,
}

/// A file with settings.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct SetupFileJson {
    /// The change of the file.
    action: SetupAction,
    /// The file.
    path: PathBuf,
}

pub(crate) fn setup(args: &SetupArgs) -> Result<Code, Failure> {
    match (&args.other, args.host.host) {
        (Some(OtherSetup::Service(service)), _) => service::setup_service(service),
        (None, Some(host)) => setup_host(host, &args.host),
        (None, None) => Err(Failure::Usage("no host is named".to_owned())),
    }
}

fn setup_host(host: Host, args: &HostArgs) -> Result<Code, Failure> {
    let named = std::env::var_os("LEDGER_DIR").filter(|dir| !dir.is_empty()).map(PathBuf::from);
    let ledger = Some(named.unwrap_or_else(default_ledger)).filter(|ledger| ledger.is_dir());
    if args.agents_decide {
        allow_decisions(host, ledger.as_deref())?;
    }
    let place = if args.user { SettingsPlace::of_user()? } else { SettingsPlace::OfProject };
    let program = Program::this(host)?;
    let direction = if args.remove { Direction::Remove } else { Direction::Add };
    let placements = placements(host, &place);
    let edits: Vec<FileEdit> = placements
        .iter()
        .map(|placement| FileEdit::of(placement, &program, direction))
        .collect::<Result<_, _>>()?;
    if !args.check {
        edits.iter().try_for_each(FileEdit::write)?;
    }
    if let (true, Some(ledger)) = (args.agents_ask || args.remove, &ledger) {
        set_decisions(host, ledger, false)?;
    }
    let files = edits.iter().map(|edit| SetupFileJson {
        action: SetupAction::of(edit.before.as_deref(), edit.after.as_deref(), args.check),
        path: edit.path.clone(),
    });
    let files: Vec<SetupFileJson> = files.collect();
    let is_incomplete = files.iter().any(|file| file.action == SetupAction::Incomplete);
    let host = host.name();
    let agents_decide = ledger.is_some_and(|ledger| agents_may_decide(&ledger, host));
    let is_complete = !args.remove && !is_incomplete;
    let line = SetupLine { agents_decide, files, host, is_complete };
    print_result(args.json.0, &line, &text(&line))?;
    Ok(if is_incomplete { Code::Failed } else { Code::Success })
}

/// Allows the agents of a host to decide for a person.
fn allow_decisions(host: Host, ledger: Option<&Path>) -> Result<(), Failure> {
    let Some(ledger) = ledger else {
        let message = "no ledger here\nhint: run `ledger init`, or change to its folder";
        return Err(Failure::Usage(message.to_owned()));
    };
    // An agent cannot allow it to itself: not even one that may decide.
    expect_outside(std::process::id(), ledger)?;
    if let Some(session) = AgentSession::of_this_process() {
        return Err(Failure::AgentSession { session: session.name });
    }
    set_decisions(host, ledger, true)
}

fn set_decisions(host: Host, ledger: &Path, may: bool) -> Result<(), Failure> {
    set_agents_may_decide(ledger, host.name(), may)
        .map_err(|error| Error::io("write the settings for agents", ledger, error).into())
}

fn text(line: &SetupLine) -> String {
    let files = line
        .files
        .iter()
        .map(|file| format!("{}: {} {}", line.host, file.action.word(), file.path.display()));
    let decide = line
        .agents_decide
        .then(|| format!("{}: agents may decide for a person in this ledger", line.host));
    files.chain(decide).collect::<Vec<_>>().join("\n")
}
