//! The text of a plan file: bounded in size, and UTF-8.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::finding::Refusal;
use super::{FILE_BYTES_MAX, bad_plan};
use crate::error::{Error, Result};

/// The text of a file; `what` it is meant to be.
pub(super) fn read(path: &Path, what: &str) -> Result<String> {
    let action = format!("read the {what}, check its path");
    let file = File::open(path).map_err(|source| Error::io(&action, path, source))?;
    read_from(file, path, what)
}

/// The text of what is open already; `path` stands for it in messages.
pub(super) fn read_from(from: impl Read, path: &Path, what: &str) -> Result<String> {
    let action = format!("read the {what}, check its path");
    let mut bytes = Vec::new();
    // One byte over the limit shows that there is more, whatever the file's size claims to be.
    let mut file = from.take(FILE_BYTES_MAX.saturating_add(1));
    let count = file.read_to_end(&mut bytes).map_err(|source| Error::io(&action, path, source))?;
    if u64::try_from(count).map_or(true, |count| count > FILE_BYTES_MAX) {
        let text = format!("the {what} has over {FILE_BYTES_MAX} bytes; split it");
        return Err(bad_plan(text).at_path(path));
    }
    decode(bytes).map_err(|error| error.at_path(path))
}

fn decode(bytes: Vec<u8>) -> Result<String> {
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Err(bad_plan("the file is UTF-16, expected UTF-8; save it as UTF-8").at_offset(0));
    }
    String::from_utf8(bytes).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        let byte = error.as_bytes().get(offset).copied().unwrap_or_default();
        let text = format!("byte 0x{byte:02x} is not UTF-8 text; save the file as UTF-8");
        bad_plan(text).at_offset(u64::try_from(offset).unwrap_or(u64::MAX))
    })
}

/// Whether nothing is written, comments and document marks aside.
pub(super) fn is_blank(text: &str) -> bool {
    text.lines()
        .map(str::trim)
        .all(|line| line.is_empty() || line.starts_with('#') || line == "---" || line == "...")
}

/// An error at a line and column, both counted from 1.
pub(super) fn at(line: u64, column: u64, message: &str) -> Refusal {
    let error = bad_plan(format!("line {line}, column {column}: {message}"));
    Refusal::Unreadable { line: Some(line), column: Some(column), error }
}
