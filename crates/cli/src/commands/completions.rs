//! `ledger completions`: completions for a shell, generated from the command line's definition.

use clap::{Args, Command};
use clap_complete::Shell;

use crate::output::{Code, Failure, print_raw};

const EXAMPLES: &str = "\
Examples:
  ledger completions bash > ~/.local/share/bash-completion/completions/ledger
  ledger completions zsh > ~/.zfunc/_ledger
  ledger completions fish > ~/.config/fish/completions/ledger.fish";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

pub(crate) fn completions(args: &CompletionsArgs, mut command: Command) -> Result<Code, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "ledger", &mut script);
    print_raw(&String::from_utf8_lossy(&script))?;
    Ok(Code::Success)
}
