//! Errors that several parts of the log report in the same words.

use std::io;
use std::path::Path;

use crate::error::{Advice, Error, ErrorKind};

pub(crate) fn not_a_ledger(dir: &Path, why: &str) -> Error {
    Error::new(ErrorKind::NotALedger, why).with_advice(Advice::CreateLedger).at_path(dir)
}

/// The folder belongs to another user, so that this user can replace its files.
pub(crate) fn folder_of_another_user(dir: &Path, owner: u32) -> Error {
    let message = format!("this folder belongs to another user (number {owner})");
    Error::new(ErrorKind::Rejected, message).with_advice(Advice::WorkAsItsOwner).at_path(dir)
}

pub(crate) fn fenced(why: &str) -> Error {
    Error::new(ErrorKind::Fenced, format!("lock lost: {why}"))
        .with_hint("open the ledger again to continue")
}

/// An earlier write or sync failed: the handle accepts no more batches.
pub(crate) fn poisoned() -> Error {
    Error::new(ErrorKind::Poisoned, "an earlier write or sync failed")
        .with_hint("open the ledger again to continue")
}

/// Whether the log was built without the parts that only a ledger uses. What they wrote, it refuses.
pub const IS_ALONE: bool = !cfg!(feature = "ledger");

/// The folder was changed by a part of a ledger that a log alone does not have.
pub(crate) fn needs_ledger(what: &str) -> Error {
    let message = format!("{what}: this build has the log alone, which cannot use it");
    Error::new(ErrorKind::Unsupported, message)
        .with_hint("use a program that was built with the feature `ledger` of plan-ledger")
}

/// Damage in a place where a record was expected.
pub(crate) fn damaged(path: &Path, offset: u64, seq: u64, what: &str) -> Error {
    Error::new(ErrorKind::Corrupt, what)
        .with_advice(Advice::ReadIntact)
        .at_path(path)
        .at_offset(offset)
        .at_seq(seq)
}

/// Whether the file or folder does not exist: a prune may have removed it.
#[must_use]
pub fn is_missing(error: &Error) -> bool {
    let source = std::error::Error::source(error).and_then(|each| each.downcast_ref::<io::Error>());
    source.is_some_and(|each| each.kind() == io::ErrorKind::NotFound)
}
