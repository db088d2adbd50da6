//! `ledger man`: the manual, generated from the command line's definition.

#[cfg(feature = "man")]
use std::io;
#[cfg(feature = "man")]
use std::path::Path;
use std::path::PathBuf;

use clap::{Args, Command};

#[cfg(feature = "man")]
use plan_ledger::Error;

#[cfg(feature = "man")]
use crate::help;
use crate::output::{Code, Failure};
#[cfg(feature = "man")]
use crate::output::{print_message, print_raw};

const EXAMPLES: &str = "\
Examples:
  ledger man | man -l -                            read it
  ledger man --to ~/.local/share/man/man1          a page for each command; then: man ledger-run";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ManArgs {
    /// Write a page for each command into this folder, which is created if necessary
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
}

#[cfg(not(feature = "man"))]
pub(crate) fn man(_: &ManArgs, _: Command) -> Result<Code, Failure> {
    Err(crate::protocol::failure::left_out::LeftOut::MAN_PAGES.failure("`ledger man`"))
}

#[cfg(feature = "man")]
pub(crate) fn man(args: &ManArgs, command: Command) -> Result<Code, Failure> {
    // The page of the program has the exit codes, as manuals do.
    let footer = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let exit_codes = help::topic("exit-codes").unwrap_or_default();
    let mut command = command.after_help(format!("{footer}\n\n{exit_codes}"));
    command.build();
    let Some(folder) = &args.to else {
        print_raw(&String::from_utf8_lossy(&page(&command).map_err(Failure::Output)?))?;
        return Ok(Code::Success);
    };
    let failed = |path: &Path, error| Failure::Ledger(Error::io("write the manual", path, error));
    std::fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    let mut commands = Vec::new();
    collect(&command, &mut commands);
    for (name, command) in &commands {
        let path = folder.join(format!("{name}.1"));
        let text = page(command).map_err(Failure::Output)?;
        std::fs::write(&path, text).map_err(|error| failed(&path, error))?;
    }
    print_message(&format!("wrote {} pages to {}", commands.len(), folder.display()));
    Ok(Code::Success)
}

#[cfg(feature = "man")]
fn page(command: &Command) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut text)?;
    Ok(text)
}

/// Collects a command and all its subcommands, by the names of their pages.
#[cfg(feature = "man")]
fn collect(command: &Command, commands: &mut Vec<(String, Command)>) {
    let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
    for subcommand in command.get_subcommands().filter(|each| each.get_name() != "help") {
        collect(subcommand, commands);
    }
    commands.push((name, command.clone()));
}
