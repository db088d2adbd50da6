//! What a worker comes to: its receipt, from the file that it may have written, its exit status and its
//! streams, and what the runner has to add.

use std::io;
use std::process::ExitStatus;

use rustix::io::Errno;

use plan_ledger::plan::{Disposition, FailureClass, Idempotence, Outcome, Receipt};

use crate::runner::process::job::EndedBy;
use crate::runner::process::output::{LOG_TAIL_LENGTH_MAX, failed, receipt_of, tail};
use crate::runner::process::receipt_file;
use crate::runner::process::scratch::Scratch;

/// The receipt of a worker that has ended by itself, or was ended by the runner.
pub(crate) fn receipt(
    scratch: &Scratch,
    stem: &str,
    (status, ended_by): (ExitStatus, Option<EndedBy>),
    idempotence: Idempotence,
) -> Receipt {
    let output = scratch.path(stem, "out");
    let log_tail = tail(&scratch.path(stem, "err"), LOG_TAIL_LENGTH_MAX);
    if let Some(by) = ended_by {
        return without_receipt_file(by.class(), by.message(), log_tail, idempotence);
    }
    match receipt_file::read(&scratch.path(stem, "receipt"), &output) {
        Some(Ok(receipt)) => Receipt { log_tail, ..receipt },
        // A worker that was killed may have been half-way through writing it.
        Some(Err(message)) if status.code().is_some() => {
            without_receipt_file(FailureClass::Deterministic, message, log_tail, idempotence)
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
fn without_receipt_file(
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
pub(crate) fn unknown(idempotence: Idempotence) -> Option<Disposition> {
    (idempotence == Idempotence::No).then_some(Disposition::InDoubt)
}

/// The end of what a worker wrote, and what the runner has to add.
pub(crate) fn with_notes(mut log_tail: String, notes: &[String]) -> String {
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
pub(crate) fn failed_receipt(class: FailureClass, message: String) -> Receipt {
    let outcome: Outcome = failed(class, message);
    Receipt { outcome, ..Receipt::default() }
}

/// The receipt of a worker that the operating system did not start.
pub(crate) fn not_started(refusal: &io::Error) -> Receipt {
    failed_receipt(class_of(refusal), format!("cannot start: {refusal}"))
}

/// Too many processes or open files, or too little memory, pass; a command that cannot be started stays
/// so.
fn class_of(refusal: &io::Error) -> FailureClass {
    let passes = [Errno::AGAIN, Errno::NOMEM, Errno::MFILE, Errno::NFILE];
    let is_passing = Errno::from_io_error(refusal).is_some_and(|errno| passes.contains(&errno));
    if is_passing { FailureClass::Transient } else { FailureClass::Deterministic }
}

#[cfg(test)]
mod tests {
    //! Goal: what may pass is tried again.

    use super::*;

    /// Story: a machine had no process, or no open file, to spare when a worker was to be started. That was
    /// the end of its step, as if the command could never be started.
    #[test]
    fn a_machine_that_has_no_room_right_now_is_tried_again() {
        let class = |errno: Errno| match not_started(&errno.into()).outcome {
            Outcome::Failed { class, .. } => class,
            other => panic!("{other:?}"),
        };
        for passes in [Errno::AGAIN, Errno::NOMEM, Errno::MFILE, Errno::NFILE] {
            assert_eq!(class(passes), FailureClass::Transient, "{passes}");
        }
        for stays in [Errno::TOOBIG, Errno::NOENT, Errno::ACCESS] {
            assert_eq!(class(stays), FailureClass::Deterministic, "{stays}");
        }
    }
}
