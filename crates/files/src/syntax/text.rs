//! The text of a file: bounded in size, and UTF-8.

use std::borrow::Cow;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::diagnostic::plan_error;
use plan_ledger::{Error, Result};

/// The largest plan file that is read, in bytes.
pub const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Reads a file. `kind` names the file in messages, for example "plan file".
pub(crate) fn read_text(path: &Path, kind: &str) -> Result<String> {
    let action = format!("read the {kind}, check its path");
    let file = File::open(path).map_err(|source| Error::io(&action, path, source))?;
    read_text_from(file, path, kind)
}

/// Reads an open stream. Messages use `path` as its name.
pub(crate) fn read_text_from(from: impl Read, path: &Path, kind: &str) -> Result<String> {
    let action = format!("read the {kind}, check its path");
    let mut bytes = Vec::new();
    // One byte over the limit shows that the file is too large, whatever size its metadata claims.
    let mut file = from.take(FILE_BYTES_MAX.saturating_add(1));
    let count = file.read_to_end(&mut bytes).map_err(|source| Error::io(&action, path, source))?;
    if u64::try_from(count).map_or(true, |count| count > FILE_BYTES_MAX) {
        let message = format!("the {kind} has over {FILE_BYTES_MAX} bytes; split it");
        return Err(plan_error(message).at_path(path));
    }
    decode(bytes).map_err(|error| error.at_path(path))
}

fn decode(bytes: Vec<u8>) -> Result<String> {
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        let message = "the file is UTF-16, expected UTF-8; save it as UTF-8";
        return Err(plan_error(message).at_offset(0));
    }
    String::from_utf8(bytes).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        let byte = error.as_bytes().get(offset).copied().unwrap_or_default();
        let message = format!("byte 0x{byte:02x} is not UTF-8 text; save the file as UTF-8");
        plan_error(message).at_offset(u64::try_from(offset).unwrap_or(u64::MAX))
    })
}

pub(crate) fn without_byte_order_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// The text without a byte order mark and with line feeds at the ends of lines.
pub(crate) fn normalized_text(text: &str) -> Cow<'_, str> {
    let text = without_byte_order_mark(text);
    if text.contains('\r') {
        return text.replace("\r\n", "\n").replace('\r', "\n").into();
    }
    text.into()
}

/// Whether a text has nothing but comments and document markers.
pub(crate) fn is_blank(text: &str) -> bool {
    text.lines()
        .map(str::trim)
        .all(|line| line.is_empty() || line.starts_with('#') || line == "---" || line == "...")
}
