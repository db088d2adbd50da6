//! Command lines for messages, which a person can paste into a shell.

use std::path::Path;

/// The command line `ledger VERB WORDS` for the ledger in that folder.
pub(crate) fn shell_command(verb: &str, ledger: &Path, words: &[&str]) -> String {
    let mut line = format!("ledger {verb}");
    if ledger != Path::new(".ledger") {
        line.push_str(" --ledger ");
        line.push_str(&quoted(&ledger.display().to_string()));
    }
    for word in words {
        line.push(' ');
        line.push_str(&quoted(word));
    }
    line
}

/// Quotes a word for a shell where it needs quotes.
pub(crate) fn quoted(word: &str) -> String {
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
    }
}
