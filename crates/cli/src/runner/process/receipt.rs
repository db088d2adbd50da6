//! Receipts of workers, built from the receipt file (if the worker wrote one), the exit status, the
//! streams and the runner's notes.

use std::io;
use std::process::ExitStatus;

use rustix::io::Errno;

use plan_ledger::internals::plan::Idempotence;
use plan_ledger::{Disposition, FailureClass, Outcome, Receipt};

use crate::runner::process::job::EndedBy;
use crate::runner::process::output::{LOG_TAIL_LENGTH_MAX, failed, receipt_of, tail};
use crate::runner::process::receipt_file;
use crate::runner::process::scratch::Scratch;

/// The receipt of a worker that exited or that the runner ended.
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
        // A killed worker may have been writing the file.
        Some(Err(message)) if status.code().is_some() => {
            without_receipt_file(FailureClass::Deterministic, message, log_tail, idempotence)
        }
        _ => {
            let receipt = receipt_of(status, &output, log_tail);
            // A worker that exits with a failure thereby states that it had no effect. A signal, or
            // output that cannot be stored, does not imply that.
            let exited_with_failure = status.code().is_some_and(|code| code != 0);
            match receipt.outcome {
                Outcome::Failed { .. } if !exited_with_failure => {
                    Receipt { disposition: unknown(idempotence), ..receipt }
                }
                _ => receipt,
            }
        }
    }
}

/// The receipt of a worker that ran and left no usable receipt file.
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

/// The outcome of an attempt with unknown effects. An idempotent step can simply be repeated.
pub(crate) fn unknown(idempotence: Idempotence) -> Option<Disposition> {
    (idempotence == Idempotence::No).then_some(Disposition::Unknown)
}

/// The end of the worker's standard error, with the runner's notes.
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

/// A shortage of processes, open files or memory is transient; any other refusal is permanent.
fn class_of(refusal: &io::Error) -> FailureClass {
    let passes = [Errno::AGAIN, Errno::NOMEM, Errno::MFILE, Errno::NFILE];
    let is_passing = Errno::from_io_error(refusal).is_some_and(|errno| passes.contains(&errno));
    if is_passing { FailureClass::Transient } else { FailureClass::Deterministic }
}

#[cfg(test)]
mod tests {
    //! Goal: transient start failures are retried.

    use super::*;

    /// Regression: a machine was short of processes or open files when a worker was started, and
    /// the step failed permanently.
    #[test]
    fn temporary_resource_shortage_is_transient() {
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
