//! Default receipts: the exit status, standard output and the end of standard error of a process.

use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::str::Utf8Error;

use serde_json::Value;

use plan_ledger::plan::{RETRY_AFTER, quote_long_numbers};
use plan_ledger::{Artifact, Disposition, FailureClass, Json, Outcome, Receipt};

use crate::protocol::hand_off::files::open_regular;
use crate::runner::own_folder::create_own_folder;

/// The output limit of a receipt in bytes. A longer output is cut.
pub(crate) const OUTPUT_LENGTH_MAX: u64 = 8 << 20;

/// The number of bytes of a longer output that a receipt has.
pub(crate) const CUT_LENGTH: u64 = 64 << 10;

/// The number of bytes of a worker's standard error that a receipt keeps.
pub(crate) const LOG_TAIL_LENGTH_MAX: u64 = 4 << 10;

/// The length limit of a quoted line in a message, in characters.
const LINE_LENGTH_MAX: usize = 300;

/// The exit status for "try again later" (`EX_TEMPFAIL`).
pub(crate) const EXIT_TRY_AGAIN: i32 = 75;

/// The exit statuses of a shell that cannot execute, or cannot find, the command.
const EXIT_NOT_EXECUTABLE: [i32; 2] = [126, 127];

/// The result of a worker: its receipt, and the runner's notes about it.
#[derive(Debug, Default)]
pub(crate) struct Worked {
    pub(crate) receipt: Receipt,
    pub(crate) notes: Vec<String>,
}

impl From<Receipt> for Worked {
    fn from(receipt: Receipt) -> Self {
        Self { receipt, notes: Vec::new() }
    }
}

/// The output of a worker.
#[derive(Debug, Default)]
pub(crate) struct WorkerOutput {
    pub(crate) value: Json,
    /// The file with the whole output, and the length of the output, if the value is only its
    /// beginning.
    kept: Option<(Artifact, u64)>,
}

impl From<Json> for WorkerOutput {
    fn from(value: Json) -> Self {
        Self { value, kept: None }
    }
}

impl WorkerOutput {
    /// The receipt with this output.
    pub(crate) fn add_to(self, receipt: Receipt) -> Worked {
        let Self { value, kept } = self;
        let mut worked = Worked::from(Receipt { output: value.into(), ..receipt });
        if let Some((artifact, length)) = kept {
            worked.notes.push(format!(
                "its output has {length} bytes: the receipt has the first {CUT_LENGTH}, and {} has \
                 all of it",
                artifact.path
            ));
            worked.receipt.artifacts.push(artifact);
        }
        worked
    }
}

/// The result of a worker that wrote no receipt file. If it printed nothing on standard error, the end of its standard
/// output explains a failure.
pub(crate) fn result_of(
    status: ExitStatus,
    output: Result<WorkerOutput, String>,
    log_tail: String,
    said: impl FnOnce() -> Option<String>,
) -> Worked {
    let outcome = match (status.code(), status.signal()) {
        (Some(0), _) => {
            return match output {
                Ok(output) => output.add_to(with_log(log_tail)),
                Err(message) => {
                    let outcome = failed(FailureClass::Deterministic, message);
                    Receipt { outcome, ..with_log(log_tail) }.into()
                }
            };
        }
        (Some(code), _) => failed_with(code, &log_tail, said),
        (None, Some(signal)) => {
            failed(FailureClass::Transient, format!("killed by signal {signal}"))
        }
        (None, None) => failed(FailureClass::Unknown, format!("ended: {status}")),
    };
    // The output of a failed worker may explain the failure.
    let receipt = Receipt { outcome, ..with_log(log_tail) };
    output.unwrap_or_default().add_to(receipt)
}

fn with_log(log_tail: String) -> Receipt {
    Receipt { log_tail: log_tail.into(), ..Receipt::default() }
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

/// The time to wait that a worker prints on standard error when it exits with [`EXIT_TRY_AGAIN`]: the
/// last line `retry-after: SECONDS`.
fn printed_retry_after(code: i32, log_tail: &str) -> Option<u64> {
    let seconds = |line: &str| {
        let (name, seconds) = line.split_once(':')?;
        let is_named = name.trim().eq_ignore_ascii_case("retry-after");
        whole_seconds(seconds.trim()).filter(|_| is_named)
    };
    log_tail.lines().rev().find_map(seconds).filter(|_| code == EXIT_TRY_AGAIN)
}

/// A number of seconds; a part of one counts as a whole one.
fn whole_seconds(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let whole: u64 = whole.parse().ok().filter(|_| part.bytes().all(|it| it.is_ascii_digit()))?;
    Some(whole.saturating_add(u64::from(part.bytes().any(|digit| digit != b'0'))))
}

fn failed_with(code: i32, log_tail: &str, said: impl FnOnce() -> Option<String>) -> Outcome {
    let class = match code {
        EXIT_TRY_AGAIN => FailureClass::Transient,
        code if EXIT_NOT_EXECUTABLE.contains(&code) => FailureClass::Deterministic,
        _ => FailureClass::Unknown,
    };
    let mut message = format!("exit status {code}");
    if let Some(line) = last_line(log_tail).or_else(said) {
        message.push_str(": ");
        message.push_str(&line);
    }
    let mut payload = serde_json::Map::new();
    if let Some(seconds) = printed_retry_after(code, log_tail) {
        payload.insert(RETRY_AFTER.to_owned(), seconds.into());
    }
    let payload = if payload.is_empty() { Json::default() } else { Value::Object(payload).into() };
    Outcome::Failed { class, message, payload }
}

/// The output of a worker in a file: JSON if it parses, otherwise text; an empty file is null. An
/// output that is too long for a receipt is cut, and the file is kept under the other path.
pub(crate) fn read_output(path: &Path, kept: &Path) -> Result<WorkerOutput, String> {
    let length = path.metadata().map_or(0, |file| file.len());
    if length > OUTPUT_LENGTH_MAX {
        let cannot = |error| format!("cannot keep its output as {}: {error}", kept.display());
        return cut(path, kept, length).map_err(cannot);
    }
    let bytes = read_limited(path, OUTPUT_LENGTH_MAX)?;
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim_end_matches(['\n', '\r']);
    if text.is_empty() {
        return Ok(WorkerOutput::default());
    }
    // A long number must not make finished work invalid, so its digits are kept as text.
    let value = serde_json::from_str(&quote_long_numbers(text));
    let value = Json::new(&value.unwrap_or_else(|_| Value::String(text.to_owned())));
    Ok(value.into())
}

/// Keep a file under another path, and return its beginning.
fn cut(path: &Path, kept: &Path, length: u64) -> io::Result<WorkerOutput> {
    let mut bytes = Vec::new();
    open_regular(path)?.take(CUT_LENGTH).read_to_end(&mut bytes)?;
    if let Some(folder) = kept.parent() {
        create_own_folder(folder).map_err(io::Error::other)?;
    }
    // A link needs no room, and a runner that is killed here does it again.
    match fs::hard_link(path, kept) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(_) => _ = fs::copy(path, kept)?,
        Ok(()) => {}
    }
    let is_within = |error: &Utf8Error| error.error_len().is_some();
    let end = match str::from_utf8(&bytes) {
        // The last character is incomplete.
        Err(error) if !is_within(&error) => error.valid_up_to(),
        _ => bytes.len(),
    };
    let text = String::from_utf8_lossy(bytes.get(..end).unwrap_or_default());
    let value = Json::new(&Value::String(text.into_owned()));
    let path = kept.to_string_lossy().into_owned();
    // The hash is computed with those of the other artifacts.
    Ok(WorkerOutput { value, kept: Some((Artifact { path, hash: String::new() }, length)) })
}

/// The content of a file, if it is not longer than the limit.
pub(crate) fn read_limited(path: &Path, limit: u64) -> Result<Vec<u8>, String> {
    let cannot = |error: io::Error| format!("cannot read {}: {error}", path.display());
    let file = open_regular(path).map_err(cannot)?;
    let mut bytes = Vec::new();
    // Read one byte more than allowed: the file may still grow, so its length is not reliable.
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(cannot)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > limit {
        return Err(format!("{} is longer than {limit} bytes", path.display()));
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
        let read = |bytes: &[u8]| {
            let file = file(bytes);
            read_output(file.path(), Path::new("unused")).unwrap().value.to_string()
        };
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
        assert!(read_limited(file.path(), 4).unwrap_err().contains("longer than 4 bytes"));
    }

    #[test]
    fn output_over_the_limit_is_cut_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let (path, kept) = (folder.path().join("7.out"), folder.path().join("outputs/7.out"));
        // The limit of the cut is within a character.
        let text = "x\u{20ac}".repeat(3 << 20);
        fs::write(&path, &text).unwrap();
        for _ in 0..2 {
            let worked = read_output(&path, &kept).unwrap().add_to(Receipt::default());
            let value = worked.receipt.output.inline().unwrap().value();
            let value = value.as_str().unwrap();
            assert!(text.starts_with(value) && value.len() == 65_536, "{}", value.len());
            assert_eq!(worked.receipt.artifacts[0].path, kept.to_string_lossy());
            assert!(worked.notes[0].contains("has 12582912 bytes"), "{:?}", worked.notes);
        }
        fs::remove_file(&path).unwrap();
        assert_eq!(fs::read(&kept).unwrap(), text.as_bytes());
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
