//! Suggestions for words that are not commands: typing errors, and the words of other programs.

use clap::Command;

use plan_ledger::plan::closest_name;

use super::topics::TOPICS;

/// Words that people try, and the commands for them.
const MEANT: &[(&[&str], &str)] = &[
    (&["list", "ls", "ps", "runs", "show", "progress", "watch", "top", "todo", "tasks"], "status"),
    (&["log", "tail", "output", "outputs"], "logs"),
    (&["events", "history", "records"], "inspect records"),
    (&["step", "steps"], "inspect step"),
    (&["why"], "inspect why"),
    (&["graph", "dag"], "inspect graph"),
    (&["timeline"], "inspect timeline"),
    (&["cost", "costs"], "inspect cost"),
    (&["diff", "compare"], "inspect diff"),
    (&["start", "go", "exec", "execute"], "run"),
    (&["continue", "restart"], "resume"),
    (&["stop", "kill", "abort", "end", "halt"], "cancel"),
    (&["hold", "suspend"], "pause"),
    (&["rerun", "redo"], "retry"),
    (&["check", "validate", "lint"], "plan lint"),
    (&["approve", "review"], "plan review"),
    (&["propose", "submit", "add"], "plan propose"),
    (&["backup", "dump", "save"], "export"),
    (&["load"], "import"),
    (&["doctor", "fsck", "repair"], "verify"),
    (&["done", "complete", "finish", "fail"], "receipt"),
    (&["limit", "parallel"], "cap"),
    (&["new", "create"], "init"),
];

/// The old spellings of commands, and the new ones. Version 0.1.0 ends them.
const REPLACED: &[(&str, &str)] = &[
    ("inspect approvals", "ledger questions --decided"),
    ("inspect barriers", "ledger inspect runs RUN"),
    ("inspect at", "ledger inspect runs --at SEQ"),
    ("inspect budget", "ledger budget RUN"),
    ("inspect blobs", "ledger blobs DIR"),
    ("inspect export", "ledger export --format FORMAT -o FILE"),
    ("inspect history", "ledger inspect step"),
    ("inspect map", "ledger inspect explain"),
    ("inspect record", "ledger inspect records SEQ"),
    ("inspect summary", "ledger inspect DIR"),
    ("inspect verify", "ledger verify DIR"),
    ("inspect view", "ledger status --view VIEW"),
    ("plan history", "ledger inspect plan"),
    ("plan show --format", "ledger plan export FILE --form FORM"),
];

/// The error for an old spelling, with the new one.
pub(crate) fn replaced(words: &[String]) -> Option<String> {
    let mut plain = words.iter().map(String::as_str).filter(|word| !word.starts_with('-'));
    let command = plain.next()?;
    // A view stands after the folder of the ledger, if the folder is given.
    let views: Vec<&str> = plain.take(2).collect();
    let has_option = |option: &str| words.iter().any(|word| word.split('=').next() == Some(option));
    let is_given =
        |word: &str| if word.starts_with('-') { has_option(word) } else { views.contains(&word) };
    let (old, new) = REPLACED.iter().find(|(old, _)| {
        let mut old = old.split(' ');
        old.next() == Some(command) && old.all(is_given)
    })?;
    Some(format!("`{old}` was replaced\nhint: use `{new}`"))
}

/// The error for a word that is not a command, with a hint.
pub(crate) fn unknown_command(program: &Command, word: &str) -> String {
    #[cfg(not(feature = "store"))]
    if let Some(message) = super::without_store::command_without_store(word) {
        return message;
    }
    let hint = match suggestion(program, word) {
        Some(command) => format!("did you mean `ledger {command}`?"),
        None => "`ledger help --all` lists all commands".to_owned(),
    };
    format!("there is no command `{word}`\nhint: {hint}")
}

/// The command that a word probably means.
fn suggestion(program: &Command, word: &str) -> Option<String> {
    let word = word.to_lowercase();
    let meant = MEANT.iter().find(|(words, _)| words.contains(&word.as_str()));
    if let Some((_, command)) = meant {
        return Some((*command).to_owned());
    }
    if let Some(name) = closest_name(&word, program.get_subcommands().map(Command::get_name)) {
        return Some(name.to_owned());
    }
    let view = closest_view(program.find_subcommand("inspect")?, &word)?;
    Some(format!("inspect {view}"))
}

/// The error for a word that is neither a command nor a topic of the help.
pub(crate) fn unknown_topic(program: &Command, words: &[String]) -> String {
    let word = words.join(" ");
    match closest_name(&word.to_lowercase(), TOPICS.iter().map(|(name, _)| *name)) {
        Some(topic) => {
            format!("there is no topic `{word}`\nhint: did you mean `ledger help {topic}`?")
        }
        None => match words.split_first() {
            // `ledger help plan aprove`
            Some((first, rest)) if !rest.is_empty() && program.find_subcommand(first).is_some() => {
                format!(
                    "there is no command `{word}`\nhint: `ledger help {first}` lists its commands"
                )
            }
            _ => unknown_command(program, &word),
        },
    }
}

/// The view of `ledger inspect` that a word probably means.
pub(crate) fn closest_view<'a>(inspect: &'a Command, word: &str) -> Option<&'a str> {
    closest_name(word, inspect.get_subcommands().map(Command::get_name))
}

/// Checks that suggestions name commands that exist, and cover words and typing errors.
#[cfg(test)]
pub(crate) fn check_suggestions(program: &Command) {
    for (words, command) in MEANT {
        let mut found = program;
        for word in command.split(' ') {
            found = found.find_subcommand(word).unwrap_or_else(|| panic!("{command}"));
        }
        for word in *words {
            assert!(program.find_subcommand(word).is_none(), "{word} is a command");
        }
    }
    for (old, new) in REPLACED {
        let find = |words: &str| {
            let mut names =
                words.split(' ').take_while(|word| word.starts_with(|c: char| c.is_lowercase()));
            names.try_fold(program, |found, word| found.find_subcommand(word))
        };
        let has_option = old.contains(" --");
        assert!(has_option || find(old).is_none(), "{old} is a command");
        assert!(find(new.strip_prefix("ledger ").unwrap()).is_some(), "{new}");
    }
    assert_eq!(suggestion(program, "ls").unwrap(), "status");
    assert_eq!(suggestion(program, "KILL").unwrap(), "cancel");
    assert_eq!(suggestion(program, "statsu").unwrap(), "status");
    assert_eq!(suggestion(program, "timelin").unwrap(), "inspect timeline");
    assert_eq!(suggestion(program, "xyzzy"), None);
}
