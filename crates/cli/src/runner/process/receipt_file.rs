//! The receipt file that a worker may write (`format/hand-off.md`).

use std::path::Path;

use plan_ledger::internals::plan::quote_long_numbers;
use plan_ledger::{Json, Outcome, Receipt};

use crate::protocol::ReceiptFile;
use crate::runner::process::output::{OUTPUT_LENGTH_MAX, read_limited, read_output, unusable};

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
        let receipt = file.into_receipt()?;
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

#[cfg(test)]
mod tests {
    //! Goal: a full receipt is parsed, and anything else gives a message with the reason.

    use super::*;
    use plan_ledger::{Cost, Disposition, FailureClass};

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
