//! `ledger completions` and `ledger man`: what a shell and a manual know of the command line.
//!
//! Invariant: both are made from the definition of the command line itself.

use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Command, CommandFactory as _};
use clap_complete::Shell;

use plan_ledger::error::Error;

use super::args::Cli;
use super::exit::{Code, Failure};
use super::{print, say};

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  ledger completions bash > ~/.local/share/bash-completion/completions/ledger
  ledger completions zsh > ~/.zfunc/_ledger
  ledger completions fish > ~/.config/fish/completions/ledger.fish";

/// `ledger completions`.
#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub(super) struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

const MAN_EXAMPLES: &str = "\
Examples:
  ledger man | man -l -                            read it
  ledger man --to ~/.local/share/man/man1          a page for every command; then: man ledger-run";

/// `ledger man`.
#[derive(Debug, Args)]
#[command(after_help = MAN_EXAMPLES)]
pub(super) struct ManArgs {
    /// Write a page for every command into this folder, which is created if need be
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
}

pub(super) fn completions(args: &CompletionsArgs) -> Result<Code, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "ledger", &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(Code::Fine)
}

pub(super) fn man(args: &ManArgs) -> Result<Code, Failure> {
    let mut command = Cli::command();
    command.build();
    let Some(folder) = &args.to else {
        print(&String::from_utf8_lossy(&page(&command).map_err(Failure::Output)?))?;
        return Ok(Code::Fine);
    };
    let io = |path: &Path, error| Failure::Ledger(Error::io("write the manual", path, error));
    std::fs::create_dir_all(folder).map_err(|error| io(folder, error))?;
    let mut pages = Vec::new();
    collect(&command, &mut pages);
    for (name, command) in &pages {
        let path = folder.join(format!("{name}.1"));
        let text = page(command).map_err(Failure::Output)?;
        std::fs::write(&path, text).map_err(|error| io(&path, error))?;
    }
    say(&format!("{} pages are in {}", pages.len(), folder.display()));
    Ok(Code::Fine)
}

fn page(command: &Command) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut text)?;
    Ok(text)
}

/// A command and all below it, by the names of their pages.
fn collect(command: &Command, pages: &mut Vec<(String, Command)>) {
    let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
    for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
        collect(below, pages);
    }
    pages.push((name, command.clone()));
}
