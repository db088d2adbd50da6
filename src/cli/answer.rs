//! Stand-in.
use std::path::Path;
/// The command line by which somebody answers about this ledger.
pub(super) fn command_line(verb: &str, ledger: &Path, words: &[&str]) -> String {
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

/// A word as a shell reads it back.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
