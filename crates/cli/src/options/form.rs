//! `--json`, which every command has: it is defined once, in `cli.rs`.

use clap::{ArgMatches, Args, Command, FromArgMatches};

/// Whether to print JSON Lines: the option `--json` of the program, for the arguments of a command.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct AsJson(pub(crate) bool);

impl FromArgMatches for AsJson {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        // The parser has copied the options of the program to the command.
        let given = matches.try_get_one::<bool>("json").ok().flatten();
        Ok(Self(given.is_some_and(|given| *given)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for AsJson {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}
