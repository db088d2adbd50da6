//! The help of the program: commands in groups, topics, suggestions for unknown words and options,
//! and the messages of a program without stores about store commands.
//!
//! `cli` defines the command line; this module arranges its help. Invariant: every command is in
//! exactly one group.

mod groups;
mod mistyped;
mod plain_words;
mod suggest;
mod topics;
#[cfg(any(test, not(feature = "store")))]
mod without_store;
mod words;

use clap::Command;

pub(crate) use groups::CommandGroup;
#[cfg(test)]
pub(crate) use groups::check_groups;
#[cfg(test)]
pub(crate) use mistyped::check_options;
pub(crate) use mistyped::{folder_hint, with_commands, with_meant_option};
pub(crate) use plain_words::plain_words;
#[cfg(test)]
pub(crate) use suggest::check_suggestions;
pub(crate) use suggest::{closest_view, replaced, unknown_command, unknown_topic};
pub(crate) use topics::{TOPICS, topic};
#[cfg(all(test, feature = "store"))]
pub(crate) use without_store::check_table;
#[cfg(not(feature = "store"))]
pub(crate) use without_store::{option_without_store, servers_without_store};

/// The lines after the groups.
const FOOTER: &str = "\
Examples:
  ledger run plan.yaml --worker './agent.sh'       start a run, or continue it
  ledger status                                    what is done, what is next, what needs you
  ledger drill plan.yaml --kill-at 37              kill a run halfway and check that it resumes

  ledger help --all                                all commands
  ledger help COMMAND                              a command, with examples
  ledger help TOPIC                                a topic";

/// Arranges the help of the program: its most used commands, in groups.
pub(crate) fn arrange(command: Command, groups: &[CommandGroup]) -> Command {
    let text = groups::text(&command, groups, groups::Shown::Common);
    let topics = TOPICS.map(|(name, _)| name).join(", ");
    let footer = format!("{FOOTER}\n\nTopics: {topics}");
    let inspect = |inspect: Command| {
        let text = groups::views_text(&inspect);
        inspect.help_template(template(&text))
    };
    let command = command.help_template(template(&text)).after_help(footer);
    with_paragraphs(with_negative_numbers(command.mut_subcommand("inspect", inspect)))
}

/// Reads `-4` as a value, so that the option rejects it in its own words.
fn with_negative_numbers(command: Command) -> Command {
    command.allow_negative_numbers(true).mut_subcommands(with_negative_numbers)
}

/// Makes each paragraph of the footers one line, which the help wraps to the width of the terminal. The
/// lines of examples are indented, and stay.
fn with_paragraphs(command: Command) -> Command {
    let footer = command.get_after_help().map(|footer| paragraphs(&footer.to_string()));
    let command = match footer {
        Some(footer) => command.after_help(footer),
        None => command,
    };
    command.mut_subcommands(with_paragraphs)
}

/// A text with one line for each paragraph of lines that are not indented.
fn paragraphs(text: &str) -> String {
    let mut joined = String::new();
    let mut is_open = false;
    for line in text.lines() {
        let continues = is_open && !line.is_empty() && !line.starts_with(' ');
        if !joined.is_empty() {
            joined.push(if continues { ' ' } else { '\n' });
        }
        joined.push_str(line);
        is_open = !line.is_empty() && !line.starts_with(' ');
    }
    joined
}

pub(crate) fn all_commands(program: &Command, groups: &[CommandGroup]) -> String {
    groups::text(program, groups, groups::Shown::All)
}

fn template(groups: &str) -> String {
    format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}\nOptions:\n{{options}}\
         {{after-help}}"
    )
}

/// The help of a command, given by its words: `plan propose`.
pub(crate) fn of_command(program: &mut Command, words: &[String]) -> Option<String> {
    program.build();
    let mut found = program;
    for word in words {
        found = found.find_subcommand_mut(word)?;
    }
    Some(found.render_help().to_string())
}

#[cfg(test)]
mod tests {
    //! Goal: footers fit any width, and examples keep their lines.

    use super::*;

    #[test]
    fn paragraphs_are_one_line_and_examples_stay() {
        let text = "Examples:\n  ledger a    one\n  ledger b\n\nIt is\nshort.\n\nEnd.";
        let expected = "Examples:\n  ledger a    one\n  ledger b\n\nIt is short.\n\nEnd.";
        assert_eq!(paragraphs(text), expected);
    }
}
