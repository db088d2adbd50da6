//! What the machine shows of the processes of a run.

use std::collections::BTreeMap;
use std::fmt;

use plan_ledger::{AttemptToken, RunId, StepNumber, Timestamp};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(feature = "schema")]
use plan_ledger::plan::UtcTime;
use plan_ledger::plan::serialize_time;

/// The processes of a run that are at work; empty for a state of the past.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AtWork {
    /// The checks that run now.
    pub checks: Vec<CheckAtWork>,
    /// The attempts whose workers print the same lines over and over.
    pub repeats: Vec<RepeatingAttempt>,
    /// The workers that wait in their processes for the end of a usage limit.
    pub inside: Vec<(StepNumber, InsideWait)>,
    /// The workers whose runner is gone.
    pub left: BTreeMap<StepNumber, LeftWorker>,
}

/// A check of a criterion that runs now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct CheckAtWork {
    /// The step; null for a criterion of the plan.
    pub step: Option<StepNumber>,
    /// The criterion, from 0.
    pub criterion: u32,
    /// The process.
    pub process: u32,
    /// Since when, by the wall clock.
    #[serde(serialize_with = "serialize_time")]
    #[cfg_attr(feature = "schema", schemars(with = "UtcTime"))]
    pub since: Timestamp,
}

/// Lines that a job prints over and over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Repeat {
    /// The number of different lines.
    pub lines: u64,
    /// How often in a row the lines were printed.
    pub times: u64,
    /// The last one of the lines.
    pub line: String,
}

impl Repeat {
    /// The subject of the repetition, such as `the same line`.
    #[must_use]
    pub fn what(lines: u64) -> String {
        if lines == 1 { "the same line".to_owned() } else { format!("the same {lines} lines") }
    }
}

/// Describes the repeated output: `the same 3 lines 40 times in a row: no route to host`.
impl fmt::Display for Repeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} times in a row: {}", Self::what(self.lines), self.times, self.line)
    }
}

/// An attempt in flight with repeated output, as its runner noted it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct RepeatingAttempt {
    /// The run.
    pub run: RunId,
    /// The step.
    pub step: StepNumber,
    /// The token of the attempt.
    pub token: AttemptToken,
    /// What its worker prints.
    #[serde(flatten)]
    pub repeat: Repeat,
}

/// A worker that waits in its process for the end of a usage limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct InsideWait {
    /// Since when, by the wall clock.
    #[serde(serialize_with = "serialize_time")]
    #[cfg_attr(feature = "schema", schemars(with = "UtcTime"))]
    pub since: Timestamp,
    /// Until when, by the wall clock; null if it does not say so.
    #[serde(serialize_with = "serialize_time")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<UtcTime>"))]
    pub until: Option<Timestamp>,
    /// Its output, for people; null: none. The worker has printed nothing for long, and its owner
    /// is at a limit.
    pub said: Option<String>,
}

/// A worker that is at work although its runner is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftWorker {
    /// In this process.
    Process(u32),
    /// Without its supervisor.
    Alone,
}
