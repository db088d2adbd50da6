//! The program of a worker's command: whether a shell can start it, before a step is dispatched.
//!
//! Only a plain first word is examined: a shell decides about everything else when it runs.

use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::{Access, access};

use crate::output::Failure;

/// Characters that give a word another meaning in a shell.
const SPECIAL: &[char] = &[
    '$', '`', '\'', '"', '\\', '(', ')', '{', '}', '<', '>', '|', '&', ';', '*', '?', '[', ']',
    '~', '#', '!', '=',
];

/// Rejects a shell command with a program that does not exist or is not executable.
pub(crate) fn check(command: &str) -> Result<(), Failure> {
    let word = command.split_whitespace().find(|word| !is_assignment(word) && *word != "exec");
    match word.filter(|word| !word.contains(SPECIAL)) {
        Some(program) => check_program(program),
        None => Ok(()),
    }
}

/// Rejects a program that does not exist or is not executable.
pub(crate) fn check_program(program: &str) -> Result<(), Failure> {
    let problem = if program.contains('/') {
        problem_of_file(Path::new(program))
    } else {
        (!is_known_to_shell(program)).then_some("there is no such program")
    };
    match problem {
        None => Ok(()),
        Some(problem) => Err(Failure::Usage(format!(
            "the worker cannot be started: {program}: {problem}\nhint: give its path, or correct the \
             name; nothing was dispatched"
        ))),
    }
}

fn problem_of_file(path: &Path) -> Option<&'static str> {
    match path.metadata() {
        Err(_) => Some("there is no such file"),
        Ok(found) if found.is_dir() => Some("it is a folder"),
        Ok(_) if access(path, Access::EXEC_OK).is_err() => Some("it is not executable"),
        Ok(_) => None,
    }
}

/// Whether a shell knows a command of this name: a program, or a builtin.
fn is_known_to_shell(program: &str) -> bool {
    let mut shell = Command::new("sh");
    shell.args(["-c", "command -v \"$1\"", "sh", program]);
    shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Without a shell, the first attempt reports that.
    program.starts_with('-') || shell.status().map_or(true, |status| status.success())
}

/// Whether a shell takes a word before the program as a variable: `NAME=value`.
fn is_assignment(word: &str) -> bool {
    let is_name = |name: &str| {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && name.chars().all(is_part)
    };
    word.split_once('=').is_some_and(|(name, value)| is_name(name) && !value.contains(SPECIAL))
}

#[cfg(test)]
mod tests {
    //! Goal: only a program that is certainly missing is rejected.

    use super::*;

    #[test]
    fn missing_program_is_rejected() {
        for command in
            ["no-such-program --fast", "./none.sh", "A=1 exec /none", "/tmp", "/etc/passwd x"]
        {
            assert!(check(command).is_err(), "{command}");
        }
    }

    #[test]
    fn everything_else_is_left_to_the_shell() {
        for command in [
            "true",
            "/bin/sh agent.sh",
            "sh -c x",
            "exec sh",
            "A=1 B=2 sh",
            "cd x && ./none",
            "[ -e x ]",
            "if true; then none; fi",
            "$AGENT",
            "'./my agent'",
            "(none)",
            "A=$(none) none",
            "{ none; }",
            "",
            ": nothing",
            "~/none",
            "none|sh",
        ] {
            assert!(check(command).is_ok(), "{command}");
        }
    }
}
