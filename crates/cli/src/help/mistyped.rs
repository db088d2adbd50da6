//! Suggestions for options with typing errors. The parser compares letters without their order, so it finds nothing for
//! `--sevrer`, and it does not know the options of a program with stores.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error};

use crate::protocol::option;

use super::words::words_before;

/// The costs of one edit, and of two neighbors that changed places: a word with that error is meant rather than one
/// with another letter.
const EDIT: usize = 10;
const SWAP: usize = 9;

/// The probable meaning of an unknown option.
#[derive(Debug, PartialEq, Eq)]
enum Meant {
    /// An option of the command, with its dashes.
    Option(String),
    /// An option that only a program with stores has.
    #[cfg(not(feature = "store"))]
    OfStores(&'static str),
}

/// The error with the option that the user probably meant, instead of the suggestion of the parser.
/// `program` is built, and `words` are the words of the command line after the name of the program.
/// `Err` is a message that replaces the error.
#[cfg_attr(
    feature = "store",
    expect(clippy::unnecessary_wraps, reason = "another build has messages")
)]
pub(crate) fn with_meant_option(
    program: &Command,
    mut error: Error,
    words: &[String],
) -> Result<Error, String> {
    let Some(ContextValue::String(written)) = error.get(ContextKind::InvalidArg) else {
        return Ok(error);
    };
    let written = written.clone();
    if error.kind() != ErrorKind::UnknownArgument || !written.starts_with("--") {
        return Ok(error);
    }
    let before = words_before(words, &written);
    let command = command_of(program, before);
    match meant(command, before, &written) {
        Some(Meant::Option(option)) => {
            let suggested = Some(&ContextValue::String(option.clone()));
            if error.get(ContextKind::SuggestedArg) != suggested {
                let usage = usage_of(command);
                error.insert(ContextKind::SuggestedArg, ContextValue::String(option));
                error.insert(ContextKind::Usage, ContextValue::StyledStr(usage));
            }
            // No longer: how to pass it as a value.
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(Vec::new()));
            Ok(error)
        }
        #[cfg(not(feature = "store"))]
        Some(Meant::OfStores(option)) => Err(super::without_store::meant_option(&written, option)),
        None => {
            // A hidden option is suggested only to a person who nearly typed it. Without a
            // suggestion, the hint at the help remains.
            match error.get(ContextKind::SuggestedArg) {
                Some(ContextValue::String(option)) if is_hidden(command, option) => {
                    let mut plain = Error::new(ErrorKind::UnknownArgument).with_cmd(command);
                    plain.insert(ContextKind::InvalidArg, ContextValue::String(written));
                    let usage = ContextValue::StyledStr(usage_of(command));
                    plain.insert(ContextKind::Usage, usage);
                    Ok(plain)
                }
                _ => Ok(error),
            }
        }
    }
}

/// The error about a word that is neither a value nor a command, with commands among the
/// suggestions.
pub(crate) fn with_commands(program: &Command, mut error: Error, words: &[String]) -> Error {
    let context = (error.get(ContextKind::InvalidValue), error.get(ContextKind::ValidValue));
    let (Some(ContextValue::String(word)), Some(ContextValue::Strings(values))) = context else {
        return error;
    };
    let is_positional = matches!(
        error.get(ContextKind::InvalidArg),
        Some(ContextValue::String(name)) if name.starts_with(['<', '['])
    );
    let command = command_of(program, words_before(words, word));
    let commands = command.get_subcommands().filter(|it| !it.is_hide_set());
    let commands = commands.map(|it| it.get_name().to_owned()).filter(|name| name != "help");
    let all: Vec<String> = values.iter().cloned().chain(commands).collect();
    if is_positional && error.kind() == ErrorKind::InvalidValue {
        error.insert(ContextKind::ValidValue, ContextValue::Strings(all));
    }
    error
}

/// The suggestion for a folder without `--ledger`, for a command that takes no other words.
pub(crate) fn folder_hint(program: &Command, error: &Error, words: &[String]) -> Option<String> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let command = command_of(program, words_before(words, word));
    let takes_folder = command.get_arguments().any(|arg| arg.get_long() == Some("ledger"));
    let is_folder = error.kind() == ErrorKind::UnknownArgument && !word.starts_with('-');
    // A view takes the folder before its own name.
    let is_command = program.get_subcommands().any(|it| it.get_name() == command.get_name())
        && words.first().is_none_or(|word| word != "inspect");
    let is_meant = is_folder && takes_folder && is_command;
    (is_meant && command.get_positionals().next().is_none()).then(|| {
        let option = option("--ledger", word);
        format!("to name a ledger's folder: `ledger {} {option}`", command.get_name())
    })
}

/// The command that the words name.
fn command_of<'a>(program: &'a Command, words: &[String]) -> &'a Command {
    words.iter().fold(program, |command, word| command.find_subcommand(word).unwrap_or(command))
}

fn usage_of(command: &Command) -> StyledStr {
    command.clone().render_usage()
}

fn is_hidden(command: &Command, option: &str) -> bool {
    let name = option.trim_start_matches('-');
    command.get_arguments().any(|arg| arg.get_long() == Some(name) && arg.is_hide_set())
}

#[cfg_attr(feature = "store", expect(unused_variables, reason = "another build looks at them"))]
fn meant(command: &Command, before: &[String], written: &str) -> Option<Meant> {
    let name = written.trim_start_matches('-').to_lowercase();
    let (length, mut best) = (name.chars().count(), None::<(usize, Meant)>);
    let mut offer = |cost: usize, limit: usize, meant: Meant| {
        if cost <= limit && best.as_ref().is_none_or(|(least, _)| cost < *least) {
            best = Some((cost, meant));
        }
    };
    let limit = (length / 3).max(1) * EDIT;
    for arg in command.get_arguments() {
        let Some(long) = arg.get_long() else { continue };
        let limit = if arg.is_hide_set() { EDIT } else { limit };
        offer(cost(&name, long), limit, Meant::Option(format!("--{long}")));
    }
    #[cfg(not(feature = "store"))]
    for option in super::without_store::options_of(before) {
        let long = option.trim_start_matches('-');
        offer(cost(&name, long), limit, Meant::OfStores(option));
    }
    best.map(|(_, meant)| meant)
}

/// The cost of the edits between two words: letters that are inserted, deleted or replaced, and neighbors that changed
/// places (the optimal string alignment).
fn cost(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    // The rows of the two letters before, and of this one.
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=to.len()).map(|count| count * EDIT).collect();
    let mut previous: Option<char> = None;
    for (line, letter) in from.chars().enumerate() {
        let mut row = vec![(line + 1) * EDIT];
        for (column, other) in to.iter().enumerate() {
            let at = |row: &[usize], column: usize| row.get(column).copied().unwrap_or(usize::MAX);
            let replaced = at(&above, column) + if letter == *other { 0 } else { EDIT };
            let mut least =
                replaced.min(at(&above, column + 1) + EDIT).min(at(&row, column) + EDIT);
            let is_swap = column
                .checked_sub(1)
                .is_some_and(|left| to.get(left) == Some(&letter) && previous == Some(*other));
            if is_swap {
                least = least.min(at(&before, column - 1) + SWAP);
            }
            row.push(least);
        }
        (before, above) = (above, row);
        previous = Some(letter);
    }
    above.last().copied().unwrap_or_default()
}

/// Checks that each option with two neighbors that changed places is answered with its name: for every command, and
/// every pair.
#[cfg(test)]
pub(crate) fn check_options(program: &Command) {
    let mut parser = program.clone();
    let mut checked = 0_usize;
    let mut open = vec![(program, Vec::<String>::new())];
    while let Some((command, path)) = open.pop() {
        for inner in command.get_subcommands() {
            open.push((inner, [&path[..], &[inner.get_name().to_owned()]].concat()));
        }
        let longs: Vec<&str> = command.get_arguments().filter_map(clap::Arg::get_long).collect();
        for long in &longs {
            for left in 1..long.len() {
                let mut letters: Vec<char> = long.chars().collect();
                letters.swap(left - 1, left);
                let mistyped: String = letters.into_iter().collect();
                // A name that begins with a dash, and the name of another option, are not typing
                // errors.
                if mistyped == *long || mistyped.starts_with('-') || longs.contains(&&*mistyped) {
                    continue;
                }
                let words = [&path[..], &[format!("--{mistyped}")]].concat();
                let line = std::iter::once("ledger".to_owned()).chain(words.clone());
                let error = parser.try_get_matches_from_mut(line).expect_err("it is no option");
                assert_eq!(error.kind(), ErrorKind::UnknownArgument, "{words:?}: {error}");
                let text = match with_meant_option(program, error, &words) {
                    Ok(error) => error.render().to_string(),
                    Err(message) => message,
                };
                assert!(text.contains(&format!("exists: '--{long}'\n")), "{words:?}: {text}");
                checked += 1;
            }
        }
    }
    assert!(checked > 2_000, "{checked}");
}

#[cfg(test)]
mod tests {
    //! Goal: the costs give the right order of suggestions.

    use super::*;

    #[test]
    fn neighbors_that_changed_places_cost_less_than_another_letter() {
        assert_eq!(cost("server", "server"), 0);
        assert_eq!(cost("sevrer", "server"), SWAP);
        assert_eq!(cost("ta", "at"), SWAP);
        assert_eq!(cost("ta", "to"), EDIT);
        assert_eq!(cost("srver", "server"), EDIT);
        assert_eq!(cost("serverr", "server"), EDIT);
        assert_eq!(cost("", "at"), 2 * EDIT);
        assert_eq!(cost("at", ""), 2 * EDIT);
    }
}
