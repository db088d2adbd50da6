//! `ledger setup service`: a unit of systemd, and a line for cron, that resume a run after a reboot or a
//! crash of its runner.
//!
//! The unit runs `ledger resume RUN --service DIGEST`: only the command line and the folder that were recorded when the
//! unit was written. The runner itself waits for its hours (`ledger run --hours`). The setup names settings of a
//! person's shell that a unit lacks: lingering, and keys, which stay out of the unit in a file that only the user can
//! read.
//!
//! Invariants:
//! - No secret is read, printed or written: only names of variables.
//! - Nothing is started or enabled: a person does that with the commands that are printed.

mod lacks;
mod unit;

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::Error;

use crate::commands::resume::{last_runner, own_program};
use crate::options::{AsJson, LedgerOption, RunArg};
use crate::output::{Code, Failure, print_result};
use crate::protocol::{private_files, sh_word};
use crate::server::LastRunner;
use crate::server::expect_person;

use super::action::SetupAction;
use unit::Unit;

const EXAMPLES: &str = "\
Examples:
  ledger setup service                             for the run that was started last here
  ledger setup service night                       for this run
  ledger setup service night --check               exit code 1 if the unit or what it needs is missing
  ledger setup service night --remove              when the run is done

The unit starts the run as its last runner was started: with its command line, in its folder. After another
`ledger run` with other options, set it up again. It gives up after three starts that finish no
step; a start does not count if the runner only waited for its hours, the end of a limit or a person. With
`ledger run --hours 23:00-07:00` it works at these hours only. Without systemd, use the line for cron, which
starts the run after a reboot, but not after a crash.

A unit has no keys of your shell. Put them into the file that is printed, one line NAME=VALUE for each.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ServiceArgs {
    #[command(flatten)]
    place: LedgerOption,
    #[command(flatten)]
    run: RunArg,
    /// Change nothing; report what is missing
    #[arg(long, conflicts_with = "remove")]
    check: bool,
    /// Remove the unit
    #[arg(long)]
    remove: bool,
    #[command(flatten)]
    json: AsJson,
}

/// The service of a run.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct ServiceLine {
    /// The change of the unit.
    action: SetupAction,
    /// The command line of the unit, with its folder.
    command: String,
    /// The line for cron, for systems without systemd.
    cron: String,
    /// The command that enables the unit.
    enable: String,
    /// The file for keys.
    environment_file: PathBuf,
    /// The folder of the run's workers.
    folder: PathBuf,
    /// Whether the unit is written as it should be, and lacks nothing that is known here.
    is_complete: bool,
    /// The settings that the run may need and that a unit lacks.
    lacks: Vec<String>,
    /// The run.
    run: String,
    /// The file with the unit.
    unit: PathBuf,
}

pub(crate) fn setup_service(args: &ServiceArgs) -> Result<Code, Failure> {
    let dir = &args.place.dir;
    if !args.check {
        // The unit would start without the marks of an agent session.
        expect_person(dir, "")?;
    }
    let last = last_runner(&args.place, args.run.name())?;
    if let Some(choice) = last.choice_of_agent() {
        return Err(Failure::Rejected(format!(
            "{choice}, and no person has started this command line\nhint: `ledger resume --show` prints the command line, and \
             `ledger resume --yes` starts it"
        )));
    }
    let here = dir.canonicalize().map_err(|error| Error::io("find the ledger", dir, error))?;
    if last.ledger != here {
        return Err(Failure::Rejected(format!(
            "the last runner of run {} worked with the ledger at {}\n\
             hint: start it here once with `ledger resume`",
            last.run,
            last.ledger.display()
        )));
    }
    let config = dirs::config_dir()
        .ok_or_else(|| Failure::Usage("the home folder is unknown\nhint: set HOME".to_owned()))?;
    let unit = unit_of(&last, &config)?;
    let path = config.join("systemd/user").join(&unit.name);
    let after = (!args.remove).then(|| unit.text());
    let action = place(&path, after.as_deref(), args.check)?;
    let keys = unit.environment_file.clone();
    if args.remove {
        unlink(&path.with_file_name("default.target.wants").join(&unit.name))?;
    } else if !args.check {
        create_keys(&keys)?;
    }
    let lacks = if args.remove { Vec::new() } else { lacks::lacks(&keys) };
    let is_written = action != SetupAction::Incomplete && !args.remove;
    let line = ServiceLine {
        action,
        command: unit.command_line(),
        cron: unit.cron_line(),
        enable: format!(
            "systemctl --user daemon-reload && systemctl --user enable {}",
            sh_word(&unit.name)
        ),
        environment_file: keys,
        folder: last.working_dir.clone(),
        is_complete: is_written && lacks.is_empty(),
        lacks,
        run: last.run.clone(),
        unit: path,
    };
    print_result(args.json.0, &line, &text(&line, args.remove))?;
    let is_failed = args.check && !line.is_complete;
    Ok(if is_failed { Code::Failed } else { Code::Success })
}

/// The unit of the last runner of a run.
fn unit_of(last: &LastRunner, config: &Path) -> Result<Unit, Failure> {
    let digest = last.digest();
    let readable = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' };
    let run: String = last.run.chars().map(readable).collect();
    // The ledger's folder distinguishes runs of the same name; a new command line changes the text,
    // not the name.
    let of = last.place_digest();
    let own = std::path::absolute(own_program()).ok();
    let text = |path: Option<&Path>| path.and_then(Path::to_str).map(str::to_owned);
    let program = text(own.as_deref());
    let (folder, ledger) = (text(Some(&last.working_dir)), text(Some(&last.ledger)));
    // The state folder has the command line of the runner.
    let variables = ["PATH", "XDG_STATE_HOME"].map(|name| (name, std::env::var(name)));
    let variables = variables.into_iter().filter_map(|(name, value)| Some((name, value.ok()?)));
    let variables = variables.filter(|(_, value)| !value.is_empty()).collect();
    let environment_file = config.join("plan-ledger").join(format!("{run}-{of}.env"));
    let Some(((program, folder), ledger)) = program.zip(folder).zip(ledger) else {
        return Err(Failure::Usage(
            "a path of the run is not text\nhint: move it, and start the run again".to_owned(),
        ));
    };
    let unit = Unit {
        name: format!("ledger-{run}-{of}.service"),
        run: last.run.clone(),
        digest,
        program,
        folder,
        ledger,
        variables,
        environment_file,
    };
    if unit.has_line_breaks() {
        return Err(Failure::Usage(
            "a path of the run has a line break, which a unit cannot have\nhint: rename it"
                .to_owned(),
        ));
    }
    Ok(unit)
}

/// Writes or removes the file, unless it is as it should be.
fn place(path: &Path, after: Option<&str>, is_check: bool) -> Result<SetupAction, Failure> {
    let failed = |error| Failure::from(Error::io("write the unit", path, error));
    let before = match fs::read_to_string(path) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(Error::io("read the unit", path, error).into()),
    };
    if before.as_deref().is_some_and(|text| !unit::is_own(text)) {
        return Err(Failure::Usage(format!(
            "{}: the file exists, and `ledger setup` did not write it\nhint: rename it",
            path.display()
        )));
    }
    let action = SetupAction::of(before.as_deref(), after, is_check);
    if matches!(action, SetupAction::Unchanged | SetupAction::Incomplete) {
        return Ok(action);
    }
    let Some(text) = after else {
        fs::remove_file(path).map_err(failed)?;
        return Ok(action);
    };
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(failed)?;
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(action)
}

/// Creates the file for keys, which only its user can read.
fn create_keys(path: &Path) -> Result<(), Failure> {
    let failed = |error| Failure::from(Error::io("create the file for keys", path, error));
    if let Some(folder) = path.parent() {
        private_files::create_folders(folder).map_err(failed)?;
    }
    match private_files::create_new(path) {
        Ok(mut file) => file.write_all(lacks::KEYS_HEADER.as_bytes()).map_err(failed),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(failed(error)),
    }
}

/// Removes the link that enables a unit, if it exists.
fn unlink(link: &Path) -> Result<(), Failure> {
    match fs::remove_file(link) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::io("remove the link to the unit", link, error).into())
        }
        _ => Ok(()),
    }
}

fn text(line: &ServiceLine, is_removed: bool) -> String {
    let unit = line.unit.display();
    let mut lines = vec![format!("run {}: {} {unit}", line.run, line.action.word())];
    if is_removed {
        let keys = line.environment_file.display();
        lines.push(format!("the file with keys stays: {keys}"));
        return lines.join("\n");
    }
    lines.push(format!("it starts, in {}: {}", line.folder.display(), line.command));
    lines.extend(line.lacks.iter().map(|lack| format!("it lacks: {lack}")));
    lines.push(format!("keys go into {}", line.environment_file.display()));
    lines.push(format!("enable it: {}", line.enable));
    lines.push(format!("or, without systemd, a line for `crontab -e`:\n{}", line.cron));
    lines.join("\n")
}
