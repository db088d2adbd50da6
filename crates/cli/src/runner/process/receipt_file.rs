//! The receipt file that a worker may write (`format/hand-off.md`).

use std::path::Path;

use plan_ledger::plan::quote_long_numbers;
use plan_ledger::{Json, Outcome};

use crate::protocol::ReceiptFile;
use crate::runner::process::output::{
    OUTPUT_LENGTH_MAX, Worked, WorkerOutput, read_limited, unusable,
};

/// The result in the file; `None` without a file. If the file has no output, the standard output of
/// the worker is used.
pub(crate) fn read(
    path: &Path,
    printed: impl FnOnce() -> Result<WorkerOutput, String>,
) -> Option<Result<Worked, String>> {
    // A dangling link counts as a receipt file: the worker meant to write one.
    path.symlink_metadata().ok()?;
    let read = || {
        let bytes = read_limited(path, OUTPUT_LENGTH_MAX)?;
        let text = str::from_utf8(&bytes).map_err(|error| error.to_string())?;
        let file: ReceiptFile =
            serde_json::from_str(&quote_long_numbers(text)).map_err(|error| error.to_string())?;
        let own = file.output.as_ref().map(Json::new);
        let receipt = file.into_receipt()?;
        Ok(match own.map_or_else(printed, |value| Ok(WorkerOutput::from(value))) {
            Ok(output) => output.add_to(receipt),
            Err(message) if receipt.outcome == Outcome::Succeeded => {
                unusable(message, &receipt).into()
            }
            // A failed attempt needs no output.
            Err(_) => receipt.into(),
        })
    };
    Some(
        read().map_err(|error: String| {
            format!("the file in LEDGER_RECEIPT is not a receipt: {error}")
        }),
    )
}

#[cfg(test)]
mod tests {
    //! Goal: a complete receipt is parsed, and any other text gives a message with the reason.

    use super::*;
    use crate::runner::process::output::read_output;
    use plan_ledger::{Cost, Disposition, FailureClass, Receipt};

    fn parse(text: &str) -> Result<Receipt, String> {
        let folder = tempfile::tempdir().unwrap();
        let (path, output) = (folder.path().join("receipt"), folder.path().join("out"));
        std::fs::write(&path, text).unwrap();
        std::fs::write(&output, "printed\n").unwrap();
        let worked = read(&path, || read_output(&output, &folder.path().join("kept")));
        worked.unwrap().map(|worked| worked.receipt)
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
    fn standard_output_is_used_when_the_receipt_has_no_output() {
        assert_eq!(
            parse(r#"{"outcome":"succeeded"}"#).unwrap().output.inline().unwrap().as_str(),
            "\"printed\""
        );
    }

    /// Regression: the output of a worker could not be used, and its file reported a cost and a
    /// transient failure. The attempt was recorded as a deterministic failure, and its cost was
    /// lost.
    #[test]
    fn cost_is_kept_when_the_output_cannot_be_used() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("receipt");
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
            let unreadable = || Err("the output cannot be kept".to_owned());
            let receipt = read(&path, unreadable).unwrap().unwrap().receipt;
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
        let printed = || Ok(WorkerOutput::default());
        assert!(read(&folder.path().join("none"), printed).is_none());
        assert!(read(folder.path(), printed).unwrap().is_err());
    }
}
