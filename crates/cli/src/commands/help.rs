//! `ledger help`: the help of the program, of a command or of a topic.

use clap::{Args, Command};

use crate::help::{self, CommandGroup};
use crate::output::{Code, Failure, print_raw};

const EXAMPLES: &str = "\
Examples:
  ledger help --all                                all commands
  ledger help plan propose                         a command, with examples
  ledger help exit-codes                           a topic";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct HelpArgs {
    /// A command, or a topic: exit-codes, environment, plan-file, worker, glossary, git
    #[arg(value_name = "COMMAND|TOPIC")]
    words: Vec<String>,
    /// List all commands
    #[arg(long)]
    all: bool,
}

pub(crate) fn help(
    args: &HelpArgs,
    mut program: Command,
    groups: &[CommandGroup],
) -> Result<Code, Failure> {
    let text = match args.words.as_slice() {
        [] if args.all => help::all_commands(&program, groups),
        [topic] if help::topic(topic).is_some() => {
            help::topic(topic).unwrap_or_default().to_owned()
        }
        words => help::of_command(&mut program, words)
            .ok_or_else(|| Failure::Usage(help::unknown_topic(&program, words)))?,
    };
    print_raw(&format!("{}\n", text.trim_end()))?;
    Ok(Code::Success)
}
