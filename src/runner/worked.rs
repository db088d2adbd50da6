//! What a worker comes to: its receipt, from the file that it may have written, its exit status and its
//! streams, and what the runner has to add.

use std::process::ExitStatus;

use crate::plan::{FailureClass, Outcome, Receipt};

use super::output::{LOG_TAIL_LENGTH_MAX, failed, receipt_of, tail};
use super::receipt_file;
use super::scratch::Scratch;

/// The receipt of a worker that has ended by itself, or after so many seconds by the runner.
pub(super) fn receipt(
    scratch: &Scratch,
    stem: &str,
    status: ExitStatus,
    timed_out: Option<u32>,
) -> Receipt {
    let output = scratch.path(stem, "out");
    let log_tail = tail(&scratch.path(stem, "err"), LOG_TAIL_LENGTH_MAX);
    if let Some(seconds) = timed_out {
        let message = format!("timed out after {seconds} s");
        let outcome = failed(FailureClass::Transient, message);
        return Receipt { outcome, log_tail, ..Receipt::default() };
    }
    match receipt_file::read(&scratch.path(stem, "receipt"), &output) {
        Some(Ok(receipt)) => Receipt { log_tail, ..receipt },
        // A worker that was killed may have been half-way through writing it.
        Some(Err(message)) if status.code().is_some() => {
            let outcome = failed(FailureClass::Deterministic, message);
            Receipt { outcome, log_tail, ..Receipt::default() }
        }
        _ => receipt_of(status, &output, log_tail),
    }
}

/// The end of what a worker wrote, and what the runner has to add.
pub(super) fn with_notes(mut log_tail: String, notes: &[String]) -> String {
    for note in notes {
        if !log_tail.is_empty() && !log_tail.ends_with('\n') {
            log_tail.push('\n');
        }
        log_tail.push_str("runner: ");
        log_tail.push_str(note);
        log_tail.push('\n');
    }
    log_tail
}

/// A receipt that the runner writes itself.
pub(super) fn failed_receipt(class: FailureClass, message: String) -> Receipt {
    let outcome: Outcome = failed(class, message);
    Receipt { outcome, ..Receipt::default() }
}

/// Too many processes or too little memory pass; a command that cannot be started stays so.
pub(super) fn class_of(refusal: &std::io::Error) -> FailureClass {
    match refusal.kind() {
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::OutOfMemory => FailureClass::Transient,
        _ => FailureClass::Deterministic,
    }
}
