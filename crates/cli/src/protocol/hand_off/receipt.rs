//! The receipt that a worker returns, as JSON (`format/hand-off.md`).
//!
//! Parsing is strict: a receipt that does not match the format is a failure with a clear message,
//! never a guess.

use std::collections::BTreeMap;

use clap::Args;
use clap::builder::{StringValueParser, TypedValueParser as _};
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use plan_ledger::plan::{NameKind, RETRY_AFTER, ReplanKind};
use plan_ledger::{Artifact, Cost, Disposition, FailureClass, Json, Outcome, Output, Receipt};

use crate::protocol::amounts::parse_seconds;
use crate::protocol::words::{FAILURE_CLASSES, parse_words};

/// A worker's report about an attempt.
#[derive(Debug, Clone, Default, PartialEq, Args, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ReceiptFile {
    /// How the attempt ended.
    #[arg(skip)]
    pub outcome: OutcomeWord,
    /// The class of a failure; only with the outcome `failed`.
    #[arg(long = "failed", value_name = "CLASS")]
    #[arg(value_parser = parse_words::<FailureClass>(FAILURE_CLASSES))]
    #[arg(help = "The attempt failed, with this class of failure")]
    #[serde(default)]
    pub class: Option<FailureClass>,
    /// The reason for a failure or for a new plan version.
    #[arg(long, value_name = "TEXT", requires = "class", help = "The reason for the failure")]
    #[serde(default)]
    pub message: Option<String>,
    /// The id of the step from which work should be redone; only with the outcome
    /// `replan_requested`.
    #[arg(skip)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Why the plan should change; only with the outcome `replan_requested`.
    #[arg(skip)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<ReplanKind>,
    /// Details of a failure: any JSON; only with the outcome `failed`.
    #[arg(skip)]
    #[serde(default)]
    pub payload: Option<Value>,
    /// The output: any JSON.
    // The command reads what the word names.
    #[arg(long, value_name = "JSON|@FILE|-", value_parser = StringValueParser::new().map(Value::String))]
    #[arg(
        help = "The output: JSON, or else text; @FILE for a file's content, - for standard input"
    )]
    #[serde(default)]
    pub output: Option<Value>,
    /// The variables to set: any JSON each.
    #[arg(skip)]
    #[serde(default)]
    pub variables: BTreeMap<String, Value>,
    /// The files that the attempt produced.
    #[arg(skip)]
    #[serde(default)]
    pub artifacts: Vec<ArtifactEntry>,
    /// The side effects that it committed, by name or key.
    #[arg(skip)]
    #[serde(default)]
    pub side_effects: Vec<String>,
    /// Its cost.
    #[arg(skip)]
    #[serde(default)]
    pub cost: Cost,
    /// Whether a failed attempt had its side effects; only with the outcome `failed`.
    #[arg(skip)]
    #[serde(default)]
    pub disposition: Option<Disposition>,
    /// How long to wait before the next attempt, in seconds; only with the outcome `failed`. It
    /// becomes a member of the payload.
    #[arg(long = "retry-after", value_name = "DURATION", value_parser = parse_seconds)]
    #[arg(
        help = "How long to wait before the next attempt, as after a usage limit: `90s`, `2h`, or seconds"
    )]
    #[arg(requires = "class")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u64>,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OutcomeWord {
    /// It succeeded.
    #[default]
    Succeeded,
    /// It failed.
    Failed,
    /// It needs a new plan version.
    ReplanRequested,
}

/// A file that an attempt produced.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ArtifactEntry {
    /// Its path.
    pub path: String,
    /// The BLAKE3 hash of its content, in hexadecimal, if the worker knows it.
    #[serde(default)]
    pub hash: String,
}

impl ReceiptFile {
    /// The JSON form of a receipt, without its duration and log.
    pub(crate) fn of(receipt: &Receipt) -> Self {
        let variables =
            receipt.variables.iter().map(|(name, value)| (name.clone(), value.value())).collect();
        let artifact =
            |it: &Artifact| ArtifactEntry { path: it.path.clone(), hash: it.hash.clone() };
        let (outcome, class, message, payload) = match &receipt.outcome {
            Outcome::Succeeded => (OutcomeWord::Succeeded, None, None, None),
            Outcome::Failed { class, message, payload } => {
                (OutcomeWord::Failed, Some(*class), Some(message.clone()), Some(payload.value()))
            }
            Outcome::ReplanRequested { reason, .. } => {
                (OutcomeWord::ReplanRequested, None, Some(reason.clone()), None)
            }
        };
        let (from, kind) = match &receipt.outcome {
            Outcome::ReplanRequested { from, kind, .. } => (from.clone(), Some(*kind)),
            Outcome::Succeeded | Outcome::Failed { .. } => (None, None),
        };
        Self {
            outcome,
            class,
            message,
            from,
            kind: kind.filter(|kind| *kind != ReplanKind::default()),
            payload,
            output: receipt.output.inline().map(Json::value),
            variables,
            artifacts: receipt.artifacts.iter().map(artifact).collect(),
            side_effects: receipt.side_effects.clone(),
            cost: receipt.cost,
            disposition: receipt.disposition.filter(|_| outcome == OutcomeWord::Failed),
            retry_after_seconds: None,
        }
    }

    /// The receipt. Missing output becomes `null`.
    ///
    /// # Errors
    /// A message for a receipt that contradicts itself, or a variable with an invalid name.
    pub(crate) fn into_receipt(self) -> Result<Receipt, String> {
        let says_more = self.class.is_some()
            || self.payload.is_some()
            || self.disposition.is_some()
            || self.retry_after_seconds.is_some();
        if self.outcome != OutcomeWord::Failed && says_more {
            let fields = "`class`, `payload`, `disposition` and `retry_after_seconds`";
            return Err(format!("{fields} are valid only with the outcome `failed`"));
        }
        if self.outcome != OutcomeWord::ReplanRequested
            && (self.from.is_some() || self.kind.is_some())
        {
            let fields = "`from` and `kind`";
            return Err(format!("{fields} are valid only with the outcome `replan_requested`"));
        }
        let fault = |name: &String| NameKind::Variable.fault_in(name);
        if let Some(fault) = self.variables.keys().find_map(fault) {
            return Err(fault.to_owned());
        }
        let payload = with_retry_after(self.payload, self.retry_after_seconds)?;
        let message = self.message.unwrap_or_default();
        let outcome = match self.outcome {
            OutcomeWord::Succeeded => Outcome::Succeeded,
            OutcomeWord::Failed if message.is_empty() => Outcome::Failed {
                class: self.class.unwrap_or_default(),
                message: "the worker gave no message".to_owned(),
                payload,
            },
            OutcomeWord::Failed => {
                Outcome::Failed { class: self.class.unwrap_or_default(), message, payload }
            }
            OutcomeWord::ReplanRequested => Outcome::ReplanRequested {
                reason: message,
                from: self.from,
                kind: self.kind.unwrap_or_default(),
            },
        };
        let variables =
            self.variables.into_iter().map(|(name, value)| (name, Json::from(value))).collect();
        let artifact = |entry: ArtifactEntry| Artifact { path: entry.path, hash: entry.hash };
        let output: Output = self.output.as_ref().map(Json::new).unwrap_or_default().into();
        Ok(Receipt {
            outcome,
            output,
            variables,
            artifacts: self.artifacts.into_iter().map(artifact).collect(),
            side_effects: self.side_effects,
            cost: self.cost,
            disposition: self.disposition,
            ..Receipt::default()
        })
    }
}

/// The payload of a failure, with the time to wait before the next attempt.
pub(crate) fn with_retry_after(
    payload: Option<Value>,
    seconds: Option<u64>,
) -> Result<Json, String> {
    let Some(seconds) = seconds else { return Ok(payload.map(Json::from).unwrap_or_default()) };
    let mut payload = payload.filter(|payload| !payload.is_null()).unwrap_or_else(|| json!({}));
    let Some(members) = payload.as_object_mut() else {
        return Err(format!(
            "`{RETRY_AFTER}` needs a `payload` that is an object, if there is one"
        ));
    };
    members.insert(RETRY_AFTER.to_owned(), seconds.into());
    Ok(payload.into())
}

#[cfg(test)]
mod tests {
    //! Goal: a receipt survives the way through JSON.

    use super::*;

    #[test]
    fn receipt_json_round_trips() {
        for text in [
            r#"{"outcome":"succeeded","output":[1],"variables":{"a":"x"},"side_effects":["k"],
                "artifacts":[{"path":"p","hash":"00"}],"cost":{"money_micros":5,"tokens":9}}"#,
            r#"{"outcome":"failed","class":"transient","message":"m","payload":{"t":1},
                "disposition":"landed"}"#,
            r#"{"outcome":"failed","message":"m"}"#,
            r#"{"outcome":"replan_requested","message":"because"}"#,
            r#"{"outcome":"replan_requested","message":"m","from":"a","kind":"new_evidence"}"#,
        ] {
            let file: ReceiptFile = serde_json::from_str(text).unwrap();
            let receipt = file.into_receipt().unwrap();
            let again = serde_json::to_string(&ReceiptFile::of(&receipt)).unwrap();
            let again: ReceiptFile = serde_json::from_str(&again).unwrap();
            assert_eq!(again.into_receipt().unwrap(), receipt);
        }
    }
}
