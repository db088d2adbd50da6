//! Command lines for messages, which a person can paste into a shell.
//!
//! Names come from plans and from the file system, so each one in a command line passes [`quoted`]: a shell reads
//! it as one word, and the program does not read it as an option.

use std::path::Path;

/// The command line `ledger VERB WORDS` for the ledger in that folder.
pub(crate) fn shell_command(verb: &str, ledger: &Path, words: &[&str]) -> String {
    let mut line = format!("ledger {verb}");
    if ledger != Path::new(".ledger") {
        line.push(' ');
        line.push_str(&ledger_option(ledger));
    }
    for word in words {
        line.push(' ');
        line.push_str(&quoted(word));
    }
    line
}

/// The option that names a ledger.
pub(crate) fn ledger_option(ledger: &Path) -> String {
    option("--ledger", &ledger.display().to_string())
}

/// An option with its value.
pub(crate) fn option(name: &str, value: &str) -> String {
    // A value that looks like an option is one, unless it is in the same word.
    if value.starts_with('-') {
        quoted(&format!("{name}={value}"))
    } else {
        format!("{name} {}", quoted(value))
    }
}

/// A folder as a word of its own.
pub(crate) fn quoted_folder(folder: &Path) -> String {
    let text = folder.display().to_string();
    quoted(&if text.starts_with('-') { format!("./{text}") } else { text })
}

/// Quotes a word for a printed command where it needs quotes, on one line.
pub(crate) fn quoted(word: &str) -> String {
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
pub(crate) fn sh_word(word: &str) -> String {
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
}
