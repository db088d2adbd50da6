//! Variables of a run: their values, versions and authors, now or over time.

use plan_ledger::internals::ledger::time_text;
use plan_ledger::plan::{Origin, UtcTime, Variable, VariableSet};
use plan_ledger::{Run, RunId, Timestamp};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use crate::json::AnyJson;
use crate::layout::{Document, Paint, Table};
use crate::words::seconds;
use crate::words::step_name;

/// A variable.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct VariableStateLine<'a> {
    /// Its name.
    name: &'a str,
    /// The author of the value.
    origin: &'a Origin,
    /// The run.
    run: RunId,
    /// The time when it was set.
    time: UtcTime,
    /// Whether the work that set it is still accepted.
    trusted: bool,
    /// Its value: any JSON.
    value: AnyJson,
    /// How often it was set.
    version: u64,
    /// The name of its author.
    #[serde(skip)]
    author: String,
    /// The value as canonical JSON.
    #[serde(skip)]
    text: &'a str,
}

impl<'a> VariableStateLine<'a> {
    /// The variable with that name.
    #[must_use]
    pub fn of(run: &Run, name: &'a str, variable: &'a Variable) -> Self {
        let Variable { value, version, origin, time, is_trusted } = variable;
        Self {
            author: origin_text(run, origin),
            name,
            origin,
            run: run.id,
            time: (*time).into(),
            trusted: *is_trusted,
            text: value.as_str(),
            value: value.value().into(),
            version: *version,
        }
    }
}

/// The variables of a run.
#[derive(Debug)]
pub struct Variables<'a> {
    /// One line for each, in the order of their names.
    pub lines: Vec<VariableStateLine<'a>>,
}

impl<'a> Variables<'a> {
    /// The variables of a run.
    #[must_use]
    pub fn of(run: &'a Run) -> Self {
        let lines =
            run.named_variables().map(|(name, each)| VariableStateLine::of(run, name, each));
        Self { lines: lines.collect() }
    }

    /// Those after a name, and no more than a number of them.
    #[must_use]
    pub fn page(mut self, after: Option<&str>, limit: usize) -> Self {
        self.lines.retain(|line| after.is_none_or(|after| line.name > after));
        self.lines.truncate(limit);
        self
    }

    /// Its document.
    #[must_use]
    pub fn document(&self) -> Document {
        let mut document = Document::default();
        if self.lines.is_empty() {
            document.line("none is set");
        }
        let headings = ["variable", "version", "trusted", "set by", "when", "value"];
        let mut table = Table::with_headings(&headings);
        for line in &self.lines {
            let trusted = if line.trusted { (Paint::None, "yes") } else { (Paint::Notice, "no") };
            table.row([
                (Paint::Heading, line.name.to_owned()),
                (Paint::None, line.version.to_string()),
                (trusted.0, trusted.1.to_owned()),
                (Paint::None, line.author.clone()),
                (Paint::None, seconds(line.time.micros)),
                (Paint::None, line.text.to_owned()),
            ]);
        }
        document.table(2, table);
        document
    }
}

/// The author of a value, in few words.
#[must_use]
pub fn origin_text(run: &Run, origin: &Origin) -> String {
    match origin {
        Origin::Step { step, .. } => step_name(run, *step),
        Origin::Person { who } | Origin::Agent { who } => who.clone(),
        Origin::Fallback { step } => format!("fallback of {}", step_name(run, *step)),
    }
}

/// A value that a variable had.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct VariableValueLine<'a> {
    /// The variable.
    name: &'a str,
    /// The author of the value.
    origin: &'a Origin,
    /// The run.
    run: RunId,
    /// The record that set it.
    seq: u64,
    /// In a forked run: the time when the parent run set it.
    since: Option<UtcTime>,
    /// The time of the record.
    time: UtcTime,
    /// The value: any JSON.
    value: AnyJson,
    /// How often the variable had been set, this time included.
    version: u64,
    /// The name of its author.
    #[serde(skip)]
    author: String,
    /// The value as canonical JSON.
    #[serde(skip)]
    text: &'a str,
}

/// The values that a variable had.
#[derive(Debug)]
pub struct VariableHistory<'a> {
    /// One line for each, the oldest first.
    pub lines: Vec<VariableValueLine<'a>>,
}

impl<'a> VariableHistory<'a> {
    /// The values of these records, each with its number and time.
    #[must_use]
    pub fn of(run: &Run, values: &[(u64, Timestamp, &'a VariableSet)]) -> Self {
        let line = |(seq, time, set): &(u64, Timestamp, &'a VariableSet)| {
            let VariableSet { run: id, name, value, version, origin, since } = set;
            VariableValueLine {
                author: origin_text(run, origin),
                name,
                origin,
                run: *id,
                seq: *seq,
                since: Some(*since).filter(|since| *since != 0).map(UtcTime::from),
                time: (*time).into(),
                text: value.as_str(),
                value: value.value().into(),
                version: *version,
            }
        };
        Self { lines: values.iter().map(line).collect() }
    }

    /// Its document.
    #[must_use]
    pub fn document(&self) -> Document {
        let mut document = Document::default();
        let mut table = Table::with_headings(&["record", "when", "version", "set by", "value"]);
        for line in &self.lines {
            table.row([
                line.seq.to_string(),
                time_text(line.time.micros),
                line.version.to_string(),
                line.author.clone(),
                line.text.to_owned(),
            ]);
        }
        document.table(2, table);
        document
    }
}
