//! Commands in what the program prints, and the words that a reader puts in the place of placeholders.

use std::collections::BTreeSet;

use plan_ledger_views::end_of_command;
use serde_json::Value;

use crate::command::Ended;

/// A command that the program printed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Printed {
    pub(super) line: String,
    /// What it does, where the program says it.
    pub(super) effect: Option<String>,
}

/// The placeholders in printed commands, and what a reader may write instead. No other word is left for the reader.
const PLACEHOLDERS: [(&str, &str); 10] = [
    ("CMD", "true"),
    ("DIR", "elsewhere"),
    ("FILE", "plan.yaml"),
    ("NAME", "ana"),
    ("NEW", "another"),
    ("PLAN", "plan.yaml"),
    ("STEP", "a"),
    ("VALUE", "1"),
    ("WHO", "ana"),
    ("WHY", "because"),
];

/// The commands in the output of a command, each once.
pub(super) fn printed(ended: &Ended) -> BTreeSet<Printed> {
    let mut found = BTreeSet::new();
    for line in ended.out.lines().chain(ended.err.lines()) {
        match serde_json::from_str::<Value>(line) {
            Ok(value) if value.is_object() => of_json(&value, &mut found),
            _ => of_line(line, &mut found),
        }
    }
    // What a line says about a command is not lost by another one that says nothing.
    let told: BTreeSet<String> =
        found.iter().filter(|it| it.effect.is_some()).map(|it| it.line.clone()).collect();
    found.retain(|it| it.effect.is_some() || !told.contains(&it.line));
    found
}

/// Commands with their effects, and the commands in all other texts.
fn of_json(value: &Value, found: &mut BTreeSet<Printed>) {
    match value {
        Value::Object(members) => {
            if let (Some(Value::Array(commands)), Some(Value::Array(effects))) =
                (members.get("commands"), members.get("effects"))
            {
                assert_eq!(commands.len(), effects.len(), "{value}");
                let texts = commands.iter().zip(effects);
                found.extend(texts.filter_map(|(line, effect)| {
                    let (line, effect) = (line.as_str()?.to_owned(), effect.as_str()?.to_owned());
                    Some(Printed { line, effect: Some(effect) })
                }));
            }
            members.values().for_each(|member| of_json(member, found));
        }
        Value::Array(values) => values.iter().for_each(|value| of_json(value, found)),
        Value::String(text) => text.lines().for_each(|line| of_line(line, found)),
        _ => {}
    }
}

/// The commands in a line: in backquotes, at its end, or alone with their effect as a comment.
fn of_line(line: &str, found: &mut BTreeSet<Printed>) {
    let line = line.trim();
    // The syntax of a command is no command.
    if line.starts_with("Usage: ") {
        return;
    }
    let quoted = |part: &str| {
        let command = &part[..end_of_command(part)];
        let is_command = command.starts_with("ledger ") || command.contains("&& ledger ");
        is_command.then(|| Printed { line: command.to_owned(), effect: None })
    };
    let parts: Vec<&str> = line.split('`').collect();
    if parts.len() > 1 {
        let starts = line.match_indices('`').map(|(at, _)| &line[at + 1..]);
        found.extend(starts.filter_map(quoted));
        return;
    }
    let alone = line.rsplit_once(": ").map_or(line, |(_, end)| end);
    let is_command = |text: &str| {
        let word = text.strip_prefix("ledger ").and_then(|rest| rest.split(' ').next());
        word.is_some_and(|word| VERBS.contains(&word))
            || (text.starts_with("cd ") && text.contains(" && ledger "))
    };
    for text in [line, alone] {
        if is_command(text) {
            let (line, effect) = text.split_once("  # ").map_or((text, None), |(line, effect)| {
                (line.trim_end(), Some(effect.trim().to_owned()))
            });
            found.insert(Printed { line: line.to_owned(), effect });
            return;
        }
    }
}

/// The words that follow `ledger` in a command outside of backquotes; in other lines the word is a noun.
const VERBS: [&str; 24] = [
    "accept",
    "answer",
    "budget",
    "cap",
    "claim",
    "export",
    "fork",
    "get",
    "init",
    "inspect",
    "logs",
    "next",
    "plan",
    "questions",
    "receipt",
    "recover",
    "resume",
    "retry",
    "run",
    "set",
    "skip",
    "status",
    "unpause",
    "work",
];

/// The command as a reader types it, who names this run, and has the token of this claim.
///
/// # Errors
/// A word that the reader has to replace, without being told by what.
pub(super) fn filled(line: &str, run: &str, token: &str) -> Result<String, String> {
    let is_placeholder =
        |word: &str| word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_uppercase());
    let fill = |word: &str| {
        if word.starts_with(['<', '[', '{']) || word.ends_with("...") {
            return Err(format!("{word} is syntax"));
        }
        if word == "RUN" {
            return Ok(run.to_owned());
        }
        if word == "TOKEN" {
            return Ok(token.to_owned());
        }
        if !is_placeholder(word) {
            return Ok(word.to_owned());
        }
        let known = PLACEHOLDERS.iter().find(|(name, _)| *name == word);
        known.map(|(_, value)| (*value).to_owned()).ok_or_else(|| format!("{word} is not known"))
    };
    let words: Result<Vec<String>, String> = line.split(' ').map(fill).collect();
    words.map(|words| words.join(" "))
}
