//! Criteria with a text that reads as a command.
//!
//! A text states a command if it is a command in backquotes that "exits 0" or "passes". In a list
//! of validations or test criteria, which tools write for a program, an item may also be the bare
//! command. A text that is certainly a command counts on every machine, and fails where its program is missing
//! ([`is_certain`]); another one only if its first word is a program of this machine or a file in the tree: see
//! [`Programs`](super::programs::Programs). A sentence is not a command, even if its first word is a program.

/// The effect of a command in a criterion, as its author states it.
const SUCCESSES: [&str; 14] = [
    "exits 0",
    "exits zero",
    "exits with 0",
    "exits with zero",
    "exits with code 0",
    "exits with exit code 0",
    "exits with status 0",
    "exits with exit status 0",
    "exits successfully",
    "exit code 0",
    "exit status 0",
    "returns 0",
    "passes",
    "succeeds",
];

/// Words that make a text a sentence, outside of quotes.
const SENTENCE_WORDS: [&str; 44] = [
    "a",
    "an",
    "the",
    "that",
    "this",
    "these",
    "those",
    "it",
    "its",
    "is",
    "are",
    "was",
    "were",
    "be",
    "been",
    "should",
    "must",
    "will",
    "can",
    "does",
    "do",
    "has",
    "have",
    "sure",
    "work",
    "works",
    "and",
    "or",
    "to",
    "of",
    "with",
    "without",
    "when",
    "if",
    "every",
    "each",
    "pass",
    "passes",
    "after",
    "before",
    "correctly",
    "successfully",
    "no",
    "on",
];

/// Programs with names that are words of plain English: their arguments must look like those of a
/// program.
const PLAIN_WORDS: [&str; 34] = [
    "cut", "date", "dig", "expect", "file", "find", "fold", "host", "install", "join", "kill",
    "last", "less", "link", "look", "more", "open", "paste", "read", "see", "sort", "split",
    "strip", "test", "time", "touch", "tree", "view", "wait", "watch", "which", "who", "write",
    "yes",
];

/// Programs that build and test, with names that are no words of plain English.
const TOOLS: [&str; 42] = [
    "ansible",
    "bash",
    "bun",
    "bundle",
    "bunx",
    "cargo",
    "cmake",
    "composer",
    "ctest",
    "curl",
    "cypress",
    "deno",
    "docker",
    "dotnet",
    "eslint",
    "gradle",
    "helm",
    "jest",
    "kubectl",
    "mvn",
    "mypy",
    "npm",
    "npx",
    "nox",
    "phpunit",
    "pip",
    "pnpm",
    "poetry",
    "psql",
    "pytest",
    "python",
    "python3",
    "rspec",
    "rustc",
    "sqlite3",
    "terraform",
    "tox",
    "tsc",
    "uv",
    "uvx",
    "vitest",
    "yarn",
];

/// The command that a text states: `` `npx tsc` exits 0 ``.
pub(super) fn stated_command(text: &str) -> Option<&str> {
    let (command, rest) = text.trim().strip_prefix('`')?.split_once('`')?;
    let rest = rest.trim().trim_end_matches(['.', '!']).to_lowercase();
    let command = command.trim();
    (SUCCESSES.contains(&rest.as_str()) && is_one_line(command)).then_some(command)
}

/// The command that an item of a list of commands is: the item, in backquotes or bare.
pub(super) fn listed_command(item: &str) -> Option<&str> {
    if let Some(command) = stated_command(item) {
        return Some(command);
    }
    let item = item.trim();
    let quoted = item.strip_prefix('`').and_then(|item| item.strip_suffix('`'));
    if let Some(command) = quoted {
        return Some(command.trim())
            .filter(|command| is_one_line(command) && !command.contains('`'));
    }
    (is_one_line(item) && !item.contains('`') && !is_sentence(item)).then_some(item)
}

fn is_one_line(command: &str) -> bool {
    !command.is_empty() && !command.contains('\n')
}

/// Whether a command is one on any machine: its first word is a well-known tool, or it has arguments and
/// stands in backquotes, or an option. On a machine without the program it fails; a text would be believed.
pub(super) fn is_certain(text: &str, command: &str) -> bool {
    let Some(first) = first_word(command) else { return false };
    let is_program = first.bytes().all(|byte| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-/+~@".contains(&byte)
    });
    let mut arguments = command.split_whitespace().skip_while(|word| *word != first).skip(1);
    if !is_program {
        return false;
    }
    if TOOLS.contains(&first) || first.starts_with("./") {
        return true;
    }
    let is_quoted = text.trim_start().starts_with('`');
    if is_quoted { arguments.next().is_some() } else { arguments.any(|word| word.starts_with('-')) }
}

/// The first word of a command that is not an assignment.
pub(super) fn first_word(command: &str) -> Option<&str> {
    let words = command.split_whitespace().map(|word| word.trim_matches(['"', '\'', '(']));
    words.into_iter().find(|word| !is_assignment(word) && !word.is_empty())
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

/// Whether a text is written for people.
fn is_sentence(text: &str) -> bool {
    if text.ends_with(['.', '?', '!', ':', ',']) || text.contains(['\u{2192}', '\u{2014}']) {
        return true;
    }
    let unquoted = without_quotes(text);
    let mut words = unquoted.split_whitespace().filter(|word| !is_assignment(word));
    let Some(first) = words.next() else { return true };
    let rest: Vec<&str> = words.collect();
    let is_word = |word: &&str| {
        let plain = word.trim_end_matches([',', ';']).to_lowercase();
        SENTENCE_WORDS.contains(&plain.as_str())
    };
    if rest.iter().any(is_word) {
        return true;
    }
    let is_argument =
        |word: &&str| word.starts_with('-') || word.contains(['/', '.', '=', '*', '"']);
    PLAIN_WORDS.contains(&first) && !rest.iter().any(is_argument)
}

/// A text in which `"` replaces each quoted part.
fn without_quotes(text: &str) -> String {
    let mut found = String::new();
    let mut quote = None;
    for c in text.chars() {
        match quote {
            Some(open) if open == c => quote = None,
            Some(_) => {}
            None if c == '"' || c == '\'' => {
                quote = Some(c);
                found.push('"');
            }
            None => found.push(c),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stated_commands_exit_0_or_pass() {
        for (text, expected) in [
            ("`pytest src/api -q` exits 0", Some("pytest src/api -q")),
            ("`npx tsc --noEmit` passes.", Some("npx tsc --noEmit")),
            ("`make check` exits with status 0", Some("make check")),
            ("`false` Exits 0", Some("false")),
            ("`npx tsc` passes without warnings", None),
            ("`users` has no rows", None),
            ("`a` and `b` pass", None),
            ("pytest exits 0", None),
            ("`` exits 0", None),
        ] {
            assert_eq!(stated_command(text), expected, "{text}");
        }
    }

    #[test]
    fn items_of_a_list_of_commands_are_commands_unless_they_are_sentences() {
        for item in [
            "npx tsc --noEmit",
            "cargo test",
            "npx eslint src/a.ts",
            "make test",
            "true",
            "false",
            "test -f out.txt",
            "NODE_ENV=test npm run check",
            "grep -q 'is the word' README.md",
            "`npx jest`",
            "`cargo test` passes",
            "cd web && npm test",
        ] {
            assert!(listed_command(item).is_some(), "{item}");
        }
        for item in [
            "make sure that the login works",
            "test login",
            "test that users can log in",
            "find all callers",
            "which pages load",
            "npm test passes",
            "cargo test and cargo clippy",
            "All unit tests pass",
            "install it",
            "node starts without errors",
            "Run the suite.",
            "",
        ] {
            assert!(listed_command(item).is_none(), "{item}");
        }
    }

    #[test]
    fn certain_commands_do_not_depend_on_the_machine() {
        for text in [
            "npx jest",
            "pytest",
            "`pytest src/api -q` exits 0",
            "`no-such-tool --check` passes",
            "no-such-tool --check",
            "A=1 npm test",
            "./verify.sh",
        ] {
            assert!(is_certain(text, listed_command(text).unwrap()), "{text}");
        }
        for text in
            ["`users` passes", "`test_login` passes", "login renders", "`Login page` passes"]
        {
            assert!(!is_certain(text, listed_command(text).unwrap()), "{text}");
        }
    }

    #[test]
    fn first_word_follows_assignments() {
        assert_eq!(first_word("A=1 B='x' ./run.sh x"), Some("./run.sh"));
        assert_eq!(first_word("(cd x)"), Some("cd"));
        assert_eq!(first_word("A=1"), None);
    }
}
