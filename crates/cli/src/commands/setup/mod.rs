//! `ledger setup HOST`: adds the hooks and the MCP server to the settings of an agent host, checks
//! them, or removes them.
//!
//! The settings come from the plugin folders in `hosts/`, so that a plugin and a setup are the same.
//! Files are edited in place: what a user wrote, with its comments, order and layout, stays.
//!
//! Invariants:
//! - Every file is read and edited before the first one is written: a file that is broken, or that has
//!   something else in the place of a setting, stops the command before it changes anything.
//! - The command repeated changes nothing. `--remove` takes away what it added, and nothing else.

mod edit;
mod json_file;
mod own;
mod placement;
mod target;
mod toml_file;

use std::path::PathBuf;

use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use crate::options::Host;
use crate::output::{Code, Failure, print_result};

use edit::{Direction, FileEdit};
use own::Program;
use placement::{SettingsPlace, placements};

const EXAMPLES: &str = "\
Examples:
  ledger setup claude-code                         in the settings of this project
  ledger setup codex --user                        in your own settings, for all projects
  ledger setup cursor --check                      exit code 1 if something is missing
  ledger setup gemini --remove                     as it was before

What other tools and you wrote into these files stays. A file that is not valid is an error, and no
file is changed. Run it again after a new version of `ledger`.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SetupArgs {
    /// The host
    #[arg(value_name = "HOST")]
    host: Host,
    /// Change nothing; report what is missing
    #[arg(long, conflicts_with = "remove")]
    check: bool,
    /// Remove what it added
    #[arg(long)]
    remove: bool,
    /// Your own settings, for all projects [default: those of the project in this folder]
    #[arg(long)]
    user: bool,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

/// What the setup of a host did.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SetupLine {
    /// The files with settings.
    files: Vec<SetupFileJson>,
    /// The host.
    host: &'static str,
    /// Whether the host has all settings now.
    is_complete: bool,
}

/// A file with settings.
#[derive(Debug, Serialize, JsonSchema)]
struct SetupFileJson {
    /// What was done with it.
    action: SetupAction,
    /// The file.
    path: PathBuf,
}

/// What was done with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum SetupAction {
    /// It was created.
    Created,
    /// It was changed.
    Changed,
    /// It needed no change.
    Unchanged,
    /// It lacks settings, and was not changed.
    Incomplete,
    /// It was deleted, since nothing else was in it.
    Deleted,
}

impl SetupAction {
    fn word(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Changed => "changed",
            Self::Unchanged => "unchanged",
            Self::Incomplete => "incomplete",
            Self::Deleted => "deleted",
        }
    }

    fn of(edit: &FileEdit, is_check: bool) -> Self {
        match (&edit.before, &edit.after) {
            (before, after) if before == after => Self::Unchanged,
            _ if is_check => Self::Incomplete,
            (None, _) => Self::Created,
            (Some(_), Some(_)) => Self::Changed,
            (Some(_), None) => Self::Deleted,
        }
    }
}

pub(crate) fn setup(args: &SetupArgs) -> Result<Code, Failure> {
    let place = if args.user { SettingsPlace::of_user()? } else { SettingsPlace::OfProject };
    let program = Program::this(args.host)?;
    let direction = if args.remove { Direction::Remove } else { Direction::Add };
    let placements = placements(args.host, &place);
    let edits: Vec<FileEdit> = placements
        .iter()
        .map(|placement| FileEdit::of(placement, &program, direction))
        .collect::<Result<_, _>>()?;
    if !args.check {
        edits.iter().try_for_each(FileEdit::write)?;
    }
    let files = edits.iter().map(|edit| SetupFileJson {
        action: SetupAction::of(edit, args.check),
        path: edit.path.clone(),
    });
    let files: Vec<SetupFileJson> = files.collect();
    let is_incomplete = files.iter().any(|file| file.action == SetupAction::Incomplete);
    let line =
        SetupLine { files, host: args.host.name(), is_complete: !args.remove && !is_incomplete };
    print_result(args.json, &line, &text(&line))?;
    Ok(if is_incomplete { Code::Failed } else { Code::Success })
}

fn text(line: &SetupLine) -> String {
    let files = line
        .files
        .iter()
        .map(|file| format!("{}: {} {}", line.host, file.action.word(), file.path.display()));
    files.collect::<Vec<_>>().join("\n")
}
