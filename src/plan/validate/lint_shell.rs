//! Warnings about shell commands that hide an exit status.

/// The reason why a command hides a failure; `None` if it hides none.
pub(super) fn hidden_status(command: &str) -> Option<&'static str> {
    let plain = without_quotes(command);
    if plain.contains("|| true") || plain.contains("|| :") || plain.trim_end().ends_with("; true") {
        return Some("it always succeeds, even if a part of it fails; remove `true`");
    }
    let rest = plain.replace("||", "").replace("|&", "|").replace(">|", ">");
    (rest.contains('|') && !plain.contains("pipefail")).then_some(
        "only the last program of the pipe counts: a failure before it is hidden; write to a file \
         instead, or set pipefail in bash",
    )
}

/// A command without the parts in quotes.
fn without_quotes(command: &str) -> String {
    let mut found = String::new();
    let mut quote = None;
    let mut is_escaped = false;
    for c in command.chars() {
        let was_escaped = std::mem::replace(&mut is_escaped, false);
        match quote {
            _ if was_escaped => {}
            _ if c == '\\' && quote != Some('\'') => is_escaped = true,
            Some(open) if open == c => quote = None,
            Some(_) => {}
            None if c == '\'' || c == '"' => quote = Some(c),
            None => found.push(c),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipes_and_true_hide_a_status() {
        for command in
            ["cargo test | tee log", "make 2>&1 | tail -3", "npm test || true", "x; true"]
        {
            assert!(hidden_status(command).is_some(), "{command}");
        }
        for command in [
            "cargo test || exit 1",
            "grep 'a|b' file",
            "echo \\| x",
            "bash -o pipefail -c 'a | b'",
            "set -o pipefail; a | b",
            "echo a > b && true",
        ] {
            assert!(hidden_status(command).is_none(), "{command}");
        }
    }
}
