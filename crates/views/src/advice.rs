//! Commands that a view prints, as values.
//!
//! Each one names its audience and its effect. The arguments are quoted for a shell where the value
//! becomes text, and nowhere else.

use std::fmt;
use std::path::Path;

use plan_ledger::plan::is_person;

use crate::shell::{arguments, command_line, option_words, quoted};

/// The reader who may type a command. Each one may type what those before it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Audience {
    /// Every reader, also a process inside an attempt: the command only reads, or reports about the attempt.
    Worker,
    /// An agent: the command controls runs, and decides nothing for a person.
    Agent,
    /// The operator of the machine: the command starts a process that executes approved commands.
    Operator,
    /// A person: it decides for one.
    Person,
}

/// The commands that decide for a person.
const OF_PERSONS: [&[&str]; 14] = [
    &["accept"],
    &["reject"],
    &["answer"],
    &["plan", "approve"],
    &["plan", "reject"],
    &["decide"],
    &["retry"],
    &["skip"],
    &["budget"],
    &["cap"],
    &["erase"],
    &["unpause"],
    &["cancel"],
    &["plan", "withdraw"],
];

/// The options of `ledger resume` with which a person decides: failed steps are retried, or what speaks against a start
/// is confirmed.
const OF_RESUME: [&str; 2] = ["--retry-failed", "--yes"];

/// The commands that only read, and those that report about the attempt of their process.
const OF_WORKERS: [&[&str]; 23] = [
    &["effect"],
    &["export"],
    &["get"],
    &["help"],
    &["inspect"],
    &["logs"],
    &["next"],
    &["note"],
    &["plan", "diff"],
    &["plan", "lint"],
    &["plan", "request"],
    &["plan", "review"],
    &["plan", "show"],
    &["prime"],
    &["questions"],
    &["receipt"],
    &["release"],
    &["renew"],
    &["report"],
    &["root"],
    &["set"],
    &["status"],
    &["verify"],
];

impl Audience {
    /// The audience of the command with these arguments after `ledger`.
    #[must_use]
    pub fn of(arguments: &[&str]) -> Self {
        let decides = OF_PERSONS.iter().any(|verb| arguments.starts_with(verb));
        match arguments.split_first() {
            _ if arguments.contains(&"--help") => Self::Worker,
            _ if decides || takes_steps_of_person(arguments) => Self::Person,
            Some((&"resume", rest)) if OF_RESUME.iter().any(|it| rest.contains(it)) => Self::Person,
            Some((&"work", rest)) if rest.contains(&"--judge-only") => Self::Operator,
            _ if OF_WORKERS.iter().any(|verb| arguments.starts_with(verb)) => Self::Worker,
            _ => Self::Agent,
        }
    }
}

/// Whether the command takes the steps of a person, by the option `--owner`.
fn takes_steps_of_person(arguments: &[&str]) -> bool {
    let next = arguments.windows(2).filter_map(|pair| match pair {
        ["--owner", owner] => Some(*owner),
        _ => None,
    });
    let joined = arguments.iter().filter_map(|word| word.strip_prefix("--owner="));
    next.chain(joined).any(|owner| is_person(owner.trim_matches('\'')))
}

/// A command that a view prints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    /// The folder for the command, if it differs from the reader's folder.
    pub folder: Option<String>,
    /// The arguments after `ledger`.
    pub arguments: Vec<String>,
    /// Its effect, in words that complete "this command ...".
    pub effect: String,
}

impl Advice {
    /// The command `ledger VERB WORDS` for a ledger.
    #[must_use]
    pub fn new(verb: &str, ledger: &Path, words: &[&str], effect: impl Into<String>) -> Self {
        Self { folder: None, arguments: arguments(verb, ledger, words), effect: effect.into() }
    }

    /// The command with an option and its value.
    #[must_use]
    pub fn with_option(mut self, name: &str, value: &str) -> Self {
        self.arguments.extend(option_words(name, value));
        self
    }

    /// The command with another word.
    #[must_use]
    pub fn with_word(mut self, word: &str) -> Self {
        self.arguments.push(word.to_owned());
        self
    }

    /// The command, typed in another folder.
    #[must_use]
    pub fn in_folder(self, folder: &str) -> Self {
        Self { folder: Some(folder.to_owned()), ..self }
    }

    /// The reader who may type it.
    #[must_use]
    pub fn audience(&self) -> Audience {
        let words: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        Audience::of(&words)
    }

    /// The lines of the commands that a reader may type.
    #[must_use]
    pub fn lines(of: &[Self], reader: Audience) -> Vec<String> {
        of.iter().filter(|advice| advice.is_for(reader)).map(Self::to_string).collect()
    }

    /// What each command of [`Self::lines`] does.
    #[must_use]
    pub fn effects(of: &[Self], reader: Audience) -> Vec<String> {
        let advice = of.iter().filter(|advice| advice.is_for(reader));
        advice.map(|advice| advice.effect.clone()).collect()
    }

    /// The lines of the commands that a reader may type. Where there are several answers, each line says what its
    /// answer does, as a comment of a shell.
    #[must_use]
    pub fn lines_with_effects(of: &[Self], reader: Audience) -> Vec<String> {
        const ANSWERS: [&str; 3] = ["answer", "retry", "skip"];
        let is_answer = |advice: &Self| {
            advice.arguments.first().is_some_and(|verb| ANSWERS.contains(&verb.as_str()))
        };
        let shown = || of.iter().filter(|advice| advice.is_for(reader));
        let answers = shown().filter(|advice| is_answer(advice)).map(Self::to_string);
        let widths: Vec<usize> = answers.map(|line| line.chars().count()).collect();
        let width = widths.iter().max().copied().filter(|_| widths.len() > 1);
        let line = |advice: &Self| match width.filter(|_| is_answer(advice)) {
            None => advice.to_string(),
            Some(width) => format!("{:<width$}  # {}", advice.to_string(), advice.effect),
        };
        shown().map(line).collect()
    }

    /// Whether a reader may type it: an agent decides for no person and starts no judge, and a worker controls no run.
    #[must_use]
    pub fn is_for(&self, reader: Audience) -> bool {
        self.audience() <= reader
    }
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(folder) = &self.folder {
            write!(f, "cd {} && ", quoted(folder))?;
        }
        f.write_str(&command_line(&self.arguments))
    }
}

#[cfg(test)]
mod tests {
    //! Goal: the audience of a command depends on its arguments only, and its text is safe for a
    //! shell.

    use super::*;

    #[test]
    fn commands_that_decide_are_for_persons() {
        let of = |line: &str| Audience::of(&line.split(' ').collect::<Vec<_>>());
        for line in ["accept r s", "plan approve r", "resume --ledger x --retry-failed", "skip r s"]
        {
            assert_eq!(of(line), Audience::Person, "{line}");
        }
        let claim = "claim r --owner human:anna --worker NAME";
        assert_eq!(
            (of(claim), of("claim r --owner='human:a")),
            (Audience::Person, Audience::Person)
        );
        assert_eq!(of("work r --judge-only --wait"), Audience::Operator);
        assert_eq!(of("resume r --yes"), Audience::Person);
        for line in ["resume", "plan propose F --run r", "acceptance", "work r", "claim r", "run r"]
        {
            assert_eq!(of(line), Audience::Agent, "{line}");
        }
    }

    #[test]
    fn commands_that_read_or_report_are_for_workers() {
        let of = |line: &str| Audience::of(&line.split(' ').collect::<Vec<_>>());
        for line in ["inspect", "plan review r", "set v 1 --run r", "receipt", "cap --help"] {
            assert_eq!(of(line), Audience::Worker, "{line}");
        }
        let resume = Advice::new("resume", Path::new("x"), &[], "starts a runner");
        assert!(!resume.is_for(Audience::Worker) && resume.is_for(Audience::Agent));
    }

    #[test]
    fn advice_is_quoted_for_a_shell() {
        let advice = Advice::new("plan approve", Path::new("x y"), &["it's"], "approves it");
        let advice = advice.with_option("--shown", "-1").in_folder("a b");
        let line = r"cd 'a b' && ledger plan approve --ledger 'x y' 'it'\''s' --shown=-1";
        assert_eq!(advice.to_string(), line);
        assert!(advice.is_for(Audience::Person) && !advice.is_for(Audience::Operator));
    }
}
