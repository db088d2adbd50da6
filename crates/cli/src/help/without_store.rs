//! Commands and options that only a program with the feature `store` has: another one names the feature, instead of
//! calling them unknown.

#[cfg(not(feature = "store"))]
use std::env;

#[cfg(not(feature = "store"))]
use clap::error::{ContextKind, ContextValue, ErrorKind};

#[cfg(not(feature = "store"))]
use crate::protocol::failure::left_out::LeftOut;

#[cfg(not(feature = "store"))]
use super::words::words_before;

pub(super) const COMMANDS: [&str; 3] = ["replicate", "restore", "store"];

/// The commands of workers, which can ask servers on other machines.
const OF_WORKERS: &[&str] =
    &["work", "claim", "receipt", "renew", "release", "effect", "set", "note"];

/// The options of commands; an option without commands belongs to all commands.
const OPTIONS: [(&[&str], &[&str]); 4] = [
    (
        &["run", "serve"],
        &[
            "--store",
            "--lease",
            "--ack",
            "--store-timeout",
            "--store-scrub",
            "--no-probe",
            "--store-allow-http",
        ],
    ),
    (&["serve"], &["--standby"]),
    (OF_WORKERS, &["--server", "--server-token-file"]),
    (&[], &["--cache"]),
];

/// The error for a word that is a command of a program with stores.
#[cfg(not(feature = "store"))]
pub(super) fn command_without_store(word: &str) -> Option<String> {
    let more = if word == "restore" { "; `ledger import` reads an export" } else { "" };
    COMMANDS
        .contains(&word)
        .then(|| format!("{}{more}", LeftOut::STORES.message(&format!("`ledger {word}`"))))
}

/// The options that a program with stores has for the command among these words.
#[cfg(not(feature = "store"))]
pub(super) fn options_of(words: &[String]) -> impl Iterator<Item = &'static str> {
    let is_of = |commands: &[&str]| {
        commands.is_empty() || commands.iter().any(|command| words.iter().any(|it| it == command))
    };
    OPTIONS
        .into_iter()
        .filter(move |(commands, _)| is_of(commands))
        .flat_map(|(_, options)| options)
        .copied()
}

/// The error for an option that a program with stores has.
#[cfg(not(feature = "store"))]
pub(crate) fn option_without_store(error: &clap::Error, words: &[String]) -> Option<String> {
    let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let is_known = || options_of(words_before(words, option)).any(|it| it == option);
    (error.kind() == ErrorKind::UnknownArgument && is_known())
        .then(|| LeftOut::STORES.message(option))
}

/// The error for an option that is almost one of a program with stores.
#[cfg(not(feature = "store"))]
pub(super) fn meant_option(written: &str, option: &str) -> String {
    let unexpected = format!("unexpected argument '{written}' found");
    format!(
        "{unexpected}\n\n  tip: a similar argument exists: '{option}'\n\n{}",
        LeftOut::STORES.message(option)
    )
}

/// The error for a command of workers if a variable names servers on other machines, which this program cannot ask: it
/// would use another ledger, that of a folder.
#[cfg(not(feature = "store"))]
pub(crate) fn servers_without_store(command: &str) -> Option<String> {
    let is_set = env::var_os("LEDGER_SERVER").is_some_and(|servers| !servers.is_empty());
    let more = "; to use a folder, name it with --ledger, or unset the variable";
    (is_set && OF_WORKERS.contains(&command))
        .then(|| format!("{}{more}", LeftOut::STORES.message("LEDGER_SERVER")))
}

/// Checks that the table covers a program with stores.
#[cfg(all(test, feature = "store"))]
pub(crate) fn check_table(program: &clap::Command) {
    for command in COMMANDS {
        assert!(program.find_subcommand(command).is_some(), "{command}");
    }
    let of = |command: &str| {
        let found = program.find_subcommand(command).unwrap_or_else(|| panic!("{command}"));
        let options = found
            .get_arguments()
            .filter(|option| matches!(option.get_help_heading(), Some("Object store" | "Server")));
        let names = options.filter_map(|option| Some(format!("--{}", option.get_long()?)));
        names.collect::<std::collections::BTreeSet<_>>()
    };
    for command in program.get_subcommands().map(clap::Command::get_name) {
        let rows = OPTIONS.iter().filter(|(commands, _)| commands.contains(&command));
        let listed =
            rows.flat_map(|(_, options)| options.iter().map(|option| (*option).to_owned()));
        assert_eq!(listed.collect::<std::collections::BTreeSet<_>>(), of(command), "{command}");
    }
}
