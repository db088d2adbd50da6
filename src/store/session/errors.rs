//! Errors of a session: a process that was replaced, and objects with a fault.

use crate::error::{Error, ErrorKind};
use crate::store::name::SEGMENTS;
use crate::store::slot::SlotFault;

/// Another process holds the log.
pub(super) fn fenced(first_seq: u64) -> Error {
    let message = "another process took over the log in the store";
    Error::new(ErrorKind::Fenced, message)
        .with_hint("open the ledger again to continue")
        .at_seq(first_seq)
}

/// The store is bound to a ledger but has none of its records.
pub(in crate::store) fn no_record() -> Error {
    let message = "the store has a ledger, but no record of it";
    Error::new(ErrorKind::OutOfRange, message).with_hint(
        "if its first server is still starting, wait for it; otherwise the store lost its objects: bring them back from a \
         copy of the store, or fill it from the folder of the last owner; if the ledger never had a record, use another prefix",
    )
}

/// The error of an object with a fault. It names the record once: that of the frame, or else `seq`.
pub(super) fn fault_error(name: &str, fault: &SlotFault, seq: Option<u64>) -> Error {
    let kind = if fault.is_version() { ErrorKind::Unsupported } else { ErrorKind::Corrupt };
    let is_segment = name.starts_with(SEGMENTS);
    let (message, seq) = match fault {
        SlotFault::Frame(seq, fault) => (fault.describe().to_owned(), Some(*seq)),
        SlotFault::Ledger => {
            let what = if is_segment { "segment object" } else { "slot" };
            (format!("the {what} does not belong to the ledger in LEDGER.json"), seq)
        }
        SlotFault::Place(what) if is_segment => {
            (format!("the segment object does not fit: {what}"), seq)
        }
        SlotFault::Link(what) if is_segment => {
            (format!("the segment object does not continue the log: {what}"), seq)
        }
        fault => (fault.to_string(), seq),
    };
    let error = Error::new(kind, message).at_path(name.as_ref());
    match seq {
        Some(seq) => error.at_seq(seq),
        None => error,
    }
}
