//! Default receipts: the exit status, standard output and the end of standard error of a process.
use crate::protocol::hand_off::files::open_regular;

use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;

use serde_json::Value;

use plan_ledger::internals::plan::quote_long_numbers;
use plan_ledger::{Disposition, FailureClass, Json, Outcome, Receipt};

/// The output limit of a receipt in bytes.
pub(crate) const OUTPUT_LENGTH_MAX: u64 = 8 << 20;

/// The number of bytes of a worker's standard error that a receipt keeps.
pub(crate) const LOG_TAIL_LENGTH_MAX: u64 = 4 << 10;

/// The length limit of a quoted line in a message, in characters.
const LINE_LENGTH_MAX: usize = 300;

/// The exit status for "try again later" (`EX_TEMPFAIL`).
const EXIT_TRY_AGAIN: i32 = 75;

/// The exit statuses of a shell that cannot execute, or cannot find, the command.
const EXIT_NOT_EXECUTABLE: [i32; 2] = [126, 127];

/// The receipt of a worker that wrote no receipt file.
pub(crate) fn receipt_of(status: ExitStatus, output: &Path, log_tail: String) -> Receipt {
    let outcome = match (status.code(), status.signal()) {
        (Some(0), _) => return receipt_of_output(output, log_tail),
        (Some(code), _) => failed_with(code, &log_tail),
        (None, Some(signal)) => {
            failed(FailureClass::Transient, format!("killed by signal {signal}"))
        }
        (None, None) => failed(FailureClass::Unknown, format!("ended: {status}")),
    };
    // The output of a failed worker may explain the failure; it is kept if it is small enough.
    let output = read_output(output).unwrap_or_default();
    Receipt { outcome, output: output.into(), log_tail, ..Receipt::default() }
}

/// The receipt of a worker that succeeded: its standard output is its output.
fn receipt_of_output(output: &Path, log_tail: String) -> Receipt {
    match read_output(output) {
        Ok(output) => Receipt { output: output.into(), log_tail, ..Receipt::default() },
        Err(message) => {
            let outcome = failed(FailureClass::Deterministic, message);
            Receipt { outcome, log_tail, ..Receipt::default() }
        }
    }
}

/// The replacement for a receipt that cannot be stored. Its cost, duration and disposition are
/// kept.
pub(crate) fn unusable(message: String, receipt: &Receipt) -> Receipt {
    let is_done = receipt.outcome == Outcome::Succeeded;
    let disposition = receipt.disposition.or(is_done.then_some(Disposition::Landed));
    let outcome = failed(FailureClass::Deterministic, message);
    let Receipt { duration, cost, .. } = *receipt;
    Receipt { outcome, cost, duration, disposition, ..Receipt::default() }
}

/// A failure without a payload.
pub(crate) fn failed(class: FailureClass, message: String) -> Outcome {
    Outcome::Failed { class, message, payload: Json::default() }
}

fn failed_with(code: i32, log_tail: &str) -> Outcome {
    let class = match code {
        EXIT_TRY_AGAIN => FailureClass::Transient,
        code if EXIT_NOT_EXECUTABLE.contains(&code) => FailureClass::Deterministic,
        _ => FailureClass::Unknown,
    };
    let mut message = format!("exit status {code}");
    if let Some(line) = last_line(log_tail) {
        message.push_str(": ");
        message.push_str(&line);
    }
    failed(class, message)
}

/// The content of a file as a JSON value: JSON if it parses, otherwise text; an empty file is null.
pub(crate) fn read_output(path: &Path) -> Result<Json, String> {
    let bytes = read_limited(path, OUTPUT_LENGTH_MAX)?;
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim_end_matches(['\n', '\r']);
    if text.is_empty() {
        return Ok(Json::default());
    }
    // A long number must not make finished work invalid, so its digits are kept as text.
    let value = serde_json::from_str(&quote_long_numbers(text));
    Ok(Json::new(&value.unwrap_or_else(|_| Value::String(text.to_owned()))))
}

/// The content of a file, if it is not longer than the limit.
pub(crate) fn read_limited(path: &Path, limit: u64) -> Result<Vec<u8>, String> {
    let cannot = |error: io::Error| format!("cannot read {}: {error}", path.display());
    let file = open_regular(path).map_err(cannot)?;
    let mut bytes = Vec::new();
    // Read one byte more than allowed: the file may still grow, so its length is not reliable.
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(cannot)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > limit {
        return Err(format!(
            "the output is longer than {limit} bytes; write it to a file and name that as an \
             artifact in the receipt"
        ));
    }
    Ok(bytes)
}

/// The last bytes of a file as text; empty if it cannot be read.
pub(crate) fn tail(path: &Path, length: u64) -> String {
    let read = || -> io::Result<Vec<u8>> {
        let mut file = open_regular(path)?;
        let end = file.seek(SeekFrom::End(0))?;
        file.seek(SeekFrom::Start(end.saturating_sub(length)))?;
        let mut bytes = Vec::new();
        file.take(length).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().unwrap_or_default();
    // The first character may be incomplete: drop its bytes.
    let start = bytes.iter().take(3).take_while(|byte| *byte & 0xC0 == 0x80).count();
    String::from_utf8_lossy(bytes.get(start..).unwrap_or_default()).into_owned()
}

/// The last line that is not blank, shortened.
pub(crate) fn last_line(text: &str) -> Option<String> {
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
    Some(line.chars().take(LINE_LENGTH_MAX).collect())
}

#[cfg(test)]
mod tests {
    //! Goal: any bytes become an output or a clear message, and a tail starts at a character
    //! boundary.

    use super::*;

    fn file(content: &[u8]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), content).unwrap();
        file
    }

    #[test]
    fn output_is_json_or_text() {
        let read = |bytes: &[u8]| read_output(file(bytes).path()).unwrap().to_string();
        assert_eq!(read(b"{\"b\": 1, \"a\": 2}\n"), "{\"a\":2,\"b\":1}");
        assert_eq!(read(b"done\n"), "\"done\"");
        assert_eq!(read(b"{\"order\": 1234567890123456789}"), "{\"order\":1234567890123456789}");
        assert_eq!(read(b"[99999999999999999999]"), "[\"99999999999999999999\"]");
        assert_eq!(read(b"99999999999999999999 left"), "\"99999999999999999999 left\"");
        assert_eq!(read(b"\n"), "null");
        assert_eq!(read(b"\xff\xfe{"), "\"\u{fffd}\u{fffd}{\"");
        assert_eq!(read("[".repeat(100_000).as_bytes()).len(), 100_002);
    }

    #[test]
    fn output_limit_is_exact() {
        let file = file(b"12345");
        assert_eq!(read_limited(file.path(), 5).unwrap().len(), 5);
        assert!(read_limited(file.path(), 4).unwrap_err().contains("artifact"));
    }

    #[test]
    fn tail_starts_at_a_character_boundary() {
        let file = file("xx\u{20ac}yy".as_bytes());
        assert_eq!(tail(file.path(), 4), "yy");
        assert_eq!(tail(file.path(), 5), "\u{20ac}yy");
        assert_eq!(tail(file.path(), 99), "xx\u{20ac}yy");
        assert_eq!(last_line("a\nb  \n\n"), Some("b".to_owned()));
    }
}
