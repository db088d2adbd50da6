//! Command lines for messages, which a person can paste into a shell.
//!
//! Names come from plans and from the file system, so each one in a command line passes [`quoted`]: a shell reads
//! it as one word, and the program does not read it as an option.

use std::path::Path;

/// The ledger that commands find by themselves.
pub const OWN_LEDGER: &str = ".ledger";

/// The arguments after `ledger` of the command `VERB WORDS` for the ledger in that folder.
pub(crate) fn arguments(verb: &str, ledger: &Path, words: &[&str]) -> Vec<String> {
    let mut all: Vec<String> = verb.split(' ').map(str::to_owned).collect();
    if ledger != Path::new(OWN_LEDGER) {
        all.extend(option_words("--ledger", &ledger.display().to_string()));
    }
    all.extend(words.iter().map(|word| (*word).to_owned()));
    all
}

/// The command line of a command with these arguments.
pub(crate) fn command_line(arguments: &[String]) -> String {
    let words = arguments.iter().map(|word| format!(" {}", quoted(word)));
    std::iter::once("ledger".to_owned()).chain(words).collect()
}

/// The command line `ledger VERB WORDS` for the ledger in that folder.
#[must_use]
pub fn shell_command(verb: &str, ledger: &Path, words: &[&str]) -> String {
    command_line(&arguments(verb, ledger, words))
}

/// A message for a reader to whom the ledger in that folder is known by this path: each command in
/// backquotes that takes a ledger names it. Messages are made without the path, because the process
/// that makes one does not know the reader.
#[must_use]
pub fn in_ledger(text: &str, ledger: &Path) -> String {
    if ledger == Path::new(OWN_LEDGER) {
        return text.to_owned();
    }
    let mut named = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("`ledger ") {
        let (command, end) = after.split_at(end_of_command(after));
        named.push_str(before);
        named.push_str("`ledger ");
        let (options, worker) = command.split_once(" -- ").unwrap_or((command, ""));
        named.push_str(options);
        if !end.is_empty() && !command.contains("--ledger") && finds_ledger(command) {
            named.push(' ');
            named.push_str(&ledger_option(ledger));
        }
        if !worker.is_empty() {
            named.push_str(" -- ");
            named.push_str(worker);
        }
        rest = end;
    }
    named.push_str(rest);
    named
}

/// The end of a command in backquotes: a backquote in a quoted name is part of the name.
#[must_use]
pub fn end_of_command(text: &str) -> usize {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if !is_quoted => is_escaped = true,
            '\'' => is_quoted = !is_quoted,
            '`' if !is_quoted => return at,
            _ => {}
        }
    }
    text.len()
}

/// Commands that take no ledger.
const WITHOUT_LEDGER: &[&str] = &[
    "completions",
    "drill",
    "help",
    "hook",
    "lab",
    "man",
    "plan enrich",
    "plan lint",
    "plan show",
    "restore",
    "setup",
    "store",
];

/// Commands whose first argument may be a ledger.
const WITH_FOLDER: &[&str] = &[
    "archive", "blobs", "erase", "export", "import", "inspect", "prune", "recover", "root",
    "snapshot", "status", "verify",
];

/// Whether a command, without the word `ledger`, takes a ledger.
#[must_use]
pub fn takes_ledger(command: &str) -> bool {
    let is_of = |known: &&str| {
        command.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    };
    is_of(&"setup service") || !WITHOUT_LEDGER.iter().any(is_of)
}

/// Whether a command takes a ledger and names none as its first argument.
fn finds_ledger(command: &str) -> bool {
    let mut words = command.split(' ');
    let (verb, first) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let is_view = verb == "inspect" && first.chars().all(|c| c.is_ascii_lowercase() || c == '-');
    let is_option = first.is_empty() || first.starts_with('-');
    takes_ledger(command) && (is_option || is_view || !WITH_FOLDER.contains(&verb))
}

/// The option that names a ledger.
#[must_use]
pub fn ledger_option(ledger: &Path) -> String {
    option("--ledger", &ledger.display().to_string())
}

/// An option and its value in a command line.
#[must_use]
pub fn option(name: &str, value: &str) -> String {
    let words = option_words(name, value);
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// An option and its value as words. A value that looks like an option would be read as one, unless
/// it is in the same word.
pub(crate) fn option_words(name: &str, value: &str) -> Vec<String> {
    if value.starts_with('-') {
        vec![format!("{name}={value}")]
    } else {
        vec![name.to_owned(), value.to_owned()]
    }
}

/// A folder as a single word.
#[must_use]
pub fn quoted_folder(folder: &Path) -> String {
    let text = folder.display().to_string();
    quoted(&if text.starts_with('-') { format!("./{text}") } else { text })
}

/// Quotes a word for a printed command where it needs quotes, on one line.
#[must_use]
pub fn quoted(word: &str) -> String {
    if !word.chars().any(char::is_control) {
        return sh_word(word);
    }
    // For shells that know `$'...'`, as those of people do.
    let escaped = word.chars().map(|c| match c {
        '\\' | '\'' => format!("\\{c}"),
        c if c.is_ascii_control() => format!("\\x{:02x}", u32::from(c)),
        c if c.is_control() => format!("\\u{:04x}", u32::from(c)),
        c => c.to_string(),
    });
    format!("$'{}'", escaped.collect::<String>())
}

/// Quotes a word for `sh` where it needs quotes.
#[must_use]
pub fn sh_word(word: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(is_bare) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    //! Goal: suggested command lines survive a shell.

    use super::*;

    #[test]
    fn suggested_commands_are_quoted_for_a_shell() {
        let line = |words: &[&str]| shell_command("accept", Path::new(".ledger"), words);
        assert_eq!(line(&["my-plan", "3.2"]), "ledger accept my-plan 3.2");
        assert_eq!(line(&["a b", "it's"]), r"ledger accept 'a b' 'it'\''s'");
        assert_eq!(
            shell_command("answer", Path::new("x/y z"), &["r", "s"]),
            "ledger answer --ledger 'x/y z' r s"
        );
        assert_eq!(line(&["a\\\n'b"]), r"ledger accept $'a\\\x0a\'b'");
        assert_eq!(shell_command("next", Path::new("-rf"), &[]), "ledger next --ledger=-rf");
        assert_eq!(shell_command("next", Path::new("-a b"), &[]), "ledger next '--ledger=-a b'");
        assert_eq!(quoted_folder(Path::new("--yes")), "./--yes");
    }

    #[test]
    fn commands_of_messages_name_the_ledger_of_the_reader() {
        let named = |text: &str| in_ledger(text, Path::new("x y"));
        for (text, expected) in [
            ("`ledger next` says it", "`ledger next --ledger 'x y'` says it"),
            ("a\nhint: `ledger retry r '`s'`", "a\nhint: `ledger retry r '`s' --ledger 'x y'`"),
            ("`ledger work r -- ./w.sh`", "`ledger work r --ledger 'x y' -- ./w.sh`"),
            ("`ledger inspect queue`", "`ledger inspect queue --ledger 'x y'`"),
            ("`ledger inspect a/b`", "`ledger inspect a/b`"),
            ("`ledger next --ledger z`", "`ledger next --ledger z`"),
            (
                "`ledger help plan-file`, `ledger setup HOST`",
                "`ledger help plan-file`, `ledger setup HOST`",
            ),
            ("`ledger plan lint F`; `ledger ", "`ledger plan lint F`; `ledger "),
            ("`ledger plan review`", "`ledger plan review --ledger 'x y'`"),
        ] {
            assert_eq!(named(text), expected);
            assert_eq!(in_ledger(text, Path::new(OWN_LEDGER)), text);
        }
    }
}
