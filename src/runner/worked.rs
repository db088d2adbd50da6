//! What a worker comes to: its receipt, from the file that it may have written, its exit status and its
//! streams, and what the runner has to add.

use std::process::ExitStatus;

use crate::plan::{Disposition, FailureClass, Idempotence, Outcome, Receipt};

use super::job::EndedBy;
use super::output::{LOG_TAIL_LENGTH_MAX, failed, receipt_of, tail};
use super::receipt_file;
use super::scratch::Scratch;

/// The receipt of a worker that has ended by itself, or was ended by the runner.
pub(super) fn receipt(
    scratch: &Scratch,
    stem: &str,
    (status, ended_by): (ExitStatus, Option<EndedBy>),
    idempotence: Idempotence,
) -> Receipt {
    let output = scratch.path(stem, "out");
    let log_tail = tail(&scratch.path(stem, "err"), LOG_TAIL_LENGTH_MAX);
    if let Some(by) = ended_by {
        return wordless(by.class(), by.message(), log_tail, idempotence);
    }
    match receipt_file::read(&scratch.path(stem, "receipt"), &output) {
        Some(Ok(receipt)) => Receipt { log_tail, ..receipt },
        // A worker that was killed may have been half-way through writing it.
        Some(Err(message)) if status.code().is_some() => {
            wordless(FailureClass::Deterministic, message, log_tail, idempotence)
        }
        _ => {
            let receipt = receipt_of(status, &output, log_tail);
            // Another exit status is its word that it did nothing. A signal is nobody's word, nor is
            // an output of which nothing can be kept.
            let is_its_word = status.code().is_some_and(|code| code != 0);
            match receipt.outcome {
                Outcome::Failed { .. } if !is_its_word => {
                    Receipt { disposition: unknown(idempotence), ..receipt }
                }
                _ => receipt,
            }
        }
    }
}

/// The receipt of a worker that ran, and whose word nobody has.
fn wordless(
    class: FailureClass,
    message: String,
    log_tail: String,
    idempotence: Idempotence,
) -> Receipt {
    let outcome = failed(class, message);
    let disposition = unknown(idempotence);
    Receipt { outcome, log_tail, disposition, ..Receipt::default() }
}

/// What is left of an attempt of which nobody knows what it did. What may be done again needs no doubt.
pub(super) fn unknown(idempotence: Idempotence) -> Option<Disposition> {
    (idempotence == Idempotence::No).then_some(Disposition::InDoubt)
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
