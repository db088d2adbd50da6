//! Errors that several parts of the log report in the same words.

use std::io;
use std::path::Path;

use crate::error::{Error, ErrorKind};

pub(crate) fn not_a_ledger(dir: &Path, why: &str) -> Error {
    Error::new(
        ErrorKind::NotALedger,
        format!("not a ledger: {why}; name a folder created by `ledger init` or `ledger run`"),
    )
    .at_path(dir)
}

pub(crate) fn fenced(why: &str) -> Error {
    Error::new(ErrorKind::Fenced, format!("lock lost: {why}; open the ledger again to continue"))
}

/// Damage in a place where a record was expected.
pub(crate) fn damaged(path: &Path, offset: u64, seq: u64, what: &str) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        format!("{what}; nothing was changed; `ledger inspect` shows what can be read"),
    )
    .at_path(path)
    .at_offset(offset)
    .at_seq(seq)
}

/// Whether the file or folder does not exist.
pub(crate) fn is_missing(error: &Error) -> bool {
    let source = std::error::Error::source(error).and_then(|each| each.downcast_ref::<io::Error>());
    source.is_some_and(|each| each.kind() == io::ErrorKind::NotFound)
}
