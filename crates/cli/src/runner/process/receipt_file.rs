//! The receipt file that a worker may write (`format/hand-off.md`).
//!
//! Parsing is strict: a file that does not match the format is a failure with a clear message,
//! never a guess.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use plan_ledger::plan::{
    Artifact, Cost, Disposition, FailureClass, Json, NameKind, Outcome, Output, Receipt,
    name_error, quote_long_numbers,
};

use crate::runner::process::output::{OUTPUT_LENGTH_MAX, read_limited, read_output, unusable};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReceiptFile {
    outcome: OutcomeWord,
    #[serde(default)]
    class: Option<FailureClass>,
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    payload: Option<Value>,
    #[serde(default)]
    output: Option<Value>,
    #[serde(default)]
    variables: BTreeMap<String, Value>,
    #[serde(default)]
    artifacts: Vec<ArtifactEntry>,
    #[serde(default)]
    side_effects: Vec<String>,
    #[serde(default)]
    cost: Cost,
    #[serde(default)]
    disposition: Option<Disposition>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum OutcomeWord {
    Succeeded,
    Failed,
    ReplanRequested,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ArtifactEntry {
    path: String,
    #[serde(default)]
    hash: String,
}

/// The receipt in the file; `None` if there is no file. Standard output is used as the output if
/// the file has none.
pub(crate) fn read(path: &Path, output: &Path) -> Option<Result<Receipt, String>> {
    // A dangling link counts as a receipt file: the worker meant to write one.
    path.symlink_metadata().ok()?;
    let read = || {
        let bytes = read_limited(path, OUTPUT_LENGTH_MAX)?;
        let text = str::from_utf8(&bytes).map_err(|error| error.to_string())?;
        let file: ReceiptFile =
            serde_json::from_str(&quote_long_numbers(text)).map_err(|error| error.to_string())?;
        let output = match &file.output {
            Some(output) => Ok(Json::new(output)),
            None => read_output(output),
        };
        let receipt = receipt(file, Output::default())?;
        Ok(match output {
            Ok(output) => Receipt { output: output.into(), ..receipt },
            Err(message) if receipt.outcome == Outcome::Succeeded => unusable(message, &receipt),
            // A failed attempt needs no output.
            Err(_) => receipt,
        })
    };
    Some(
        read().map_err(|error: String| {
            format!("the file in LEDGER_RECEIPT is not a receipt: {error}")
        }),
    )
}

/// The JSON object of a receipt, as [`receipt_of_json`] reads it, without duration and log.
pub(crate) fn receipt_json(receipt: &Receipt) -> Value {
    let mut line = match &receipt.outcome {
        Outcome::Succeeded => json!({ "outcome": "succeeded" }),
        Outcome::Failed { class, message, payload } => json!({
            "outcome": "failed", "class": class, "message": message, "payload": payload.value(),
            "disposition": receipt.disposition,
        }),
        Outcome::ReplanRequested { reason } => {
            json!({ "outcome": "replan_requested", "message": reason })
        }
    };
    let variables: BTreeMap<&String, Value> =
        receipt.variables.iter().map(|(name, value)| (name, value.value())).collect();
    let artifacts: Vec<Value> = receipt
        .artifacts
        .iter()
        .map(|artifact| json!({ "path": artifact.path, "hash": artifact.hash }))
        .collect();
    let more = json!({
        "output": receipt.output.inline().map(Json::value), "variables": variables,
        "artifacts": artifacts, "side_effects": receipt.side_effects, "cost": receipt.cost,
    });
    if let (Some(members), Value::Object(more)) = (line.as_object_mut(), more) {
        members.extend(more);
    }
    line
}

/// Parse a receipt from the JSON of a receipt file. Missing output becomes `null`.
pub(crate) fn receipt_of_json(value: &Value) -> Result<Receipt, String> {
    let file = ReceiptFile::deserialize(value).map_err(|error| error.to_string())?;
    let output = file.output.as_ref().map(Json::new).unwrap_or_default();
    receipt(file, output.into())
}

fn receipt(file: ReceiptFile, output: Output) -> Result<Receipt, String> {
    let says_more = file.class.is_some() || file.payload.is_some() || file.disposition.is_some();
    if file.outcome != OutcomeWord::Failed && says_more {
        let fields = "`class`, `payload` and `disposition`";
        return Err(format!("{fields} are valid only with the outcome `failed`"));
    }
    let fault = |name: &String| name_error(NameKind::Variable, name);
    if let Some(fault) = file.variables.keys().find_map(fault) {
        return Err(fault.to_owned());
    }
    let message = file.message.unwrap_or_default();
    let outcome = match file.outcome {
        OutcomeWord::Succeeded => Outcome::Succeeded,
        OutcomeWord::Failed => Outcome::Failed {
            class: file.class.unwrap_or_default(),
            message: if message.is_empty() { "the worker gave no message".into() } else { message },
            payload: file.payload.map(Json::from).unwrap_or_default(),
        },
        OutcomeWord::ReplanRequested => Outcome::ReplanRequested { reason: message },
    };
    let variables =
        file.variables.into_iter().map(|(name, value)| (name, Json::from(value))).collect();
    let artifact = |entry: ArtifactEntry| Artifact { path: entry.path, hash: entry.hash };
    Ok(Receipt {
        outcome,
        output,
        variables,
        artifacts: file.artifacts.into_iter().map(artifact).collect(),
        side_effects: file.side_effects,
        cost: file.cost,
        disposition: file.disposition,
        ..Receipt::default()
    })
}

#[cfg(test)]
mod tests {
    //! Goal: a full receipt is parsed, and anything else gives a message with the reason.

    use super::*;

    fn parse(text: &str) -> Result<Receipt, String> {
        let folder = tempfile::tempdir().unwrap();
        let (path, output) = (folder.path().join("receipt"), folder.path().join("out"));
        std::fs::write(&path, text).unwrap();
        std::fs::write(&output, "printed\n").unwrap();
        read(&path, &output).unwrap()
    }

    #[test]
    fn a_full_receipt_is_read() {
        let receipt = parse(
            r#"{"outcome":"failed","class":"assumption_broken","message":"no such table",
                "payload":{"table":"t"},"output":{"rows":3},"variables":{"b":1,"a":"x"},
                "artifacts":[{"path":"out.csv","hash":"00ff"},{"path":"log"}],
                "side_effects":["mail:7"],"cost":{"money_micros":5,"tokens":9},
                "disposition":"unknown"}"#,
        )
        .unwrap();
        assert!(matches!(
            receipt.outcome,
            Outcome::Failed { class: FailureClass::AssumptionBroken, .. }
        ));
        assert_eq!(receipt.output.inline().unwrap().as_str(), r#"{"rows":3}"#);
        assert_eq!(receipt.variables.len(), 2);
        assert_eq!(receipt.artifacts.len(), 2);
        assert_eq!(receipt.cost, Cost { money_micros: 5, tokens: 9 });
        assert_eq!(receipt.disposition, Some(Disposition::Unknown));
    }

    #[test]
    fn receipt_json_round_trips() {
        for text in [
            r#"{"outcome":"succeeded","output":[1],"variables":{"a":"x"},"side_effects":["k"],
                "artifacts":[{"path":"p","hash":"00"}],"cost":{"money_micros":5,"tokens":9}}"#,
            r#"{"outcome":"failed","class":"transient","message":"m","payload":{"t":1},
                "disposition":"landed"}"#,
            r#"{"outcome":"failed","message":"m"}"#,
            r#"{"outcome":"replan_requested","message":"because"}"#,
        ] {
            let receipt = receipt_of_json(&serde_json::from_str(text).unwrap()).unwrap();
            assert_eq!(receipt_of_json(&receipt_json(&receipt)).unwrap(), receipt);
        }
    }

    #[test]
    fn standard_output_is_used_when_the_receipt_has_no_output() {
        assert_eq!(
            parse(r#"{"outcome":"succeeded"}"#).unwrap().output.inline().unwrap().as_str(),
            "\"printed\""
        );
    }

    /// Regression: a worker printed more than a receipt may contain, and its file reported a cost
    /// and a transient failure. The attempt was recorded as a deterministic failure, and its cost
    /// was lost.
    #[test]
    fn cost_is_kept_when_the_output_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let (path, output) = (folder.path().join("receipt"), folder.path().join("out"));
        let file = std::fs::File::create(&output).unwrap();
        file.set_len(OUTPUT_LENGTH_MAX + 1).unwrap();
        let cost = Cost { money_micros: 5, tokens: 9 };
        for (outcome, class, disposition) in [
            ("failed", FailureClass::Transient, None),
            ("succeeded", FailureClass::Deterministic, Some(Disposition::Landed)),
        ] {
            let class_word = if outcome == "failed" { r#","class":"transient""# } else { "" };
            let text = format!(
                r#"{{"outcome":"{outcome}"{class_word},"cost":{{"money_micros":5,"tokens":9}}}}"#
            );
            std::fs::write(&path, text).unwrap();
            let receipt = read(&path, &output).unwrap().unwrap();
            assert!(
                matches!(receipt.outcome, Outcome::Failed { class: found, .. } if found == class),
                "{receipt:?}"
            );
            assert_eq!((receipt.cost, receipt.disposition), (cost, disposition));
        }
    }

    #[test]
    fn rubbish_is_a_message() {
        for (text, expected) in [
            ("", "EOF"),
            ("[1]", "not a receipt"),
            (r#"{"outcome":"fine"}"#, "unknown variant `fine`"),
            (r#"{"outcome":"succeeded","colour":1}"#, "unknown field `colour`"),
            (r#"{"outcome":"succeeded","class":"transient"}"#, "only with the outcome"),
            (r#"{"outcome":"succeeded","disposition":"landed"}"#, "only with the outcome"),
            (r#"{"outcome":"failed","disposition":"perhaps"}"#, "unknown variant `perhaps`"),
            (r#"{"outcome":"succeeded","cost":{"tokens":-1}}"#, "-1"),
        ] {
            let message = parse(text).unwrap_err();
            assert!(message.contains(expected), "{text}: {message}");
        }
        let folder = tempfile::tempdir().unwrap();
        assert!(read(&folder.path().join("none"), folder.path()).is_none());
        assert!(read(folder.path(), folder.path()).unwrap().is_err());
    }
}
