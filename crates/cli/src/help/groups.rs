//! Commands in groups, for the help of the program and of `ledger inspect`.

use std::fmt::Write as _;

use clap::Command;

/// Commands under a heading: the common ones first, then those that only `ledger help --all` lists.
/// A command has the name of its variant in the table of commands.
#[derive(Debug)]
pub(crate) struct CommandGroup {
    pub(crate) heading: &'static str,
    pub(crate) common: &'static [&'static str],
    pub(crate) rest: &'static [&'static str],
}

const VIEWS: [(&str, &[&str]); 5] = [
    ("Runs", &["runs", "progress", "timeline", "graph", "metrics"]),
    ("Steps and plans", &["step", "why", "plan", "queue"]),
    ("Values and money", &["variables", "cost"]),
    ("Points in time", &["diff"]),
    ("The log", &["records", "segments", "head", "snapshots", "explain"]),
];

/// The commands that a list contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    Common,
    All,
}

/// The commands of the program in groups, one on each line.
pub(super) fn text(program: &Command, groups: &[CommandGroup], shown: Shown) -> String {
    let names = |group: &CommandGroup| -> Vec<String> {
        let rest = if shown == Shown::All { group.rest } else { &[] };
        group.common.iter().chain(rest).map(|name| name.to_lowercase()).collect()
    };
    grouped(program, groups.iter().map(|group| (group.heading, names(group))))
}

/// The views of `ledger inspect` in groups.
pub(super) fn views_text(inspect: &Command) -> String {
    grouped(
        inspect,
        VIEWS.iter().map(|(heading, names)| {
            (*heading, names.iter().map(|name| (*name).to_owned()).collect())
        }),
    )
}

fn grouped<'a>(parent: &Command, groups: impl Iterator<Item = (&'a str, Vec<String>)>) -> String {
    let widest = parent.get_subcommands().map(|each| each.get_name().len()).max().unwrap_or(0);
    let mut text = String::new();
    for (heading, names) in groups {
        text.push_str(heading);
        text.push_str(":\n");
        for name in names {
            let command = parent.find_subcommand(&name);
            let about = command.and_then(Command::get_about).map(ToString::to_string);
            // Writing to a string does not fail.
            let _ = writeln!(text, "  {name:widest$}  {}", about.unwrap_or_default());
        }
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

/// Checks that every command and view is in exactly one group, and that about twenty are common.
#[cfg(test)]
pub(crate) fn check_groups(program: &Command, groups: &[CommandGroup]) {
    fn sorted(names: impl Iterator<Item = String>) -> Vec<String> {
        let mut names: Vec<_> = names.collect();
        names.sort_unstable();
        names
    }
    let names =
        |parent: &Command| sorted(parent.get_subcommands().map(|each| each.get_name().to_owned()));
    let grouped = groups.iter().flat_map(|group| group.common.iter().chain(group.rest));
    assert_eq!(sorted(grouped.map(|name| name.to_lowercase())), names(program));
    let inspect = program.find_subcommand("inspect").unwrap();
    let grouped = VIEWS.iter().flat_map(|(_, names)| names.iter());
    assert_eq!(sorted(grouped.map(|name| (*name).to_owned())), names(inspect));
    let common: usize = groups.iter().map(|group| group.common.len()).sum();
    assert!((18..=25).contains(&common), "{common}");
}
