//! Receipts of workers, built from the receipt file (if the worker wrote one), the exit status, the
//! streams and the runner's notes.

use std::io;
use std::process::ExitStatus;

use jiff::tz::TimeZone;
use rustix::io::Errno;

use plan_ledger::plan::Idempotence;
use plan_ledger::{Disposition, FailureClass, Outcome, Receipt};

use crate::runner::process::exit_record::{CommandEnd, ExitRecord};
use crate::runner::process::limits::{EndedBy, LAST_OUTPUT_LENGTH_MAX};
use crate::runner::process::output::{
    EXIT_TRY_AGAIN, LOG_TAIL_LENGTH_MAX, Worked, WorkerOutput, failed, last_line, read_output,
    result_of, tail,
};
use crate::runner::process::receipt_file;
use crate::runner::process::scratch::Scratch;
use crate::runner::waits::limit::{LastOutput, Limit, LimitEnd, limit_in, message_in};
use crate::runner::waits::mark::{explain, mark, mark_said, unmark};
use crate::runner::waits::wall_now;

/// The words that programs print when a write finds no room, in lower case.
const ERRORS_OF_FULL_DISK: [&str; 3] = ["no space left on device", "disk quota exceeded", "enospc"];

/// How a worker ended, and why.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WorkerEnd {
    pub(crate) status: ExitStatus,
    /// The reason why the runner ended it.
    pub(crate) ended_by: Option<EndedBy>,
    /// Whether the disk of its output was full: it may have failed for that reason.
    pub(crate) is_disk_full: bool,
}

/// The result of a worker that exited or that the runner ended.
pub(crate) fn result(
    scratch: &Scratch,
    stem: &str,
    WorkerEnd { status, ended_by, is_disk_full }: WorkerEnd,
    idempotence: Idempotence,
) -> Worked {
    let mut worked =
        found(scratch, stem, WorkerEnd { status, ended_by, is_disk_full }, idempotence);
    find_limit(&mut worked.receipt.outcome, (scratch, stem), status.code(), idempotence);
    worked
}

/// Finds the usage limit that a failed attempt met. If the worker reports its failure itself, its report counts. For a
/// step that must not be repeated, a person decides, as after any failure, and the message states the limit.
fn find_limit(
    outcome: &mut Outcome,
    (scratch, stem): (&Scratch, &str),
    code: Option<i32>,
    idempotence: Idempotence,
) {
    let is_asked = idempotence == Idempotence::No;
    if !is_asked {
        unmark(outcome);
    }
    let Outcome::Failed { class, message, .. } = &*outcome else { return };
    if !matches!(class, FailureClass::Transient | FailureClass::Unknown) {
        return;
    }
    if outcome.retry_after().is_some_and(|wait| wait > 0) {
        if !is_asked {
            mark_said(outcome);
        }
        return;
    }
    let paths = ["out", "err"].map(|suffix| scratch.path(stem, suffix));
    let now = wall_now();
    let written = paths.iter().filter_map(|path| path.metadata().ok()?.modified().ok()).max();
    let printed = written
        .and_then(|time| jiff::Timestamp::try_from(time).ok())
        .or_else(|| jiff::Timestamp::from_microsecond(i64::try_from(now).ok()?).ok());
    let Some(printed) = printed.map(|time| time.to_zoned(TimeZone::system())) else { return };
    let limit = if scratch.path(stem, "receipt").exists() {
        limit_in(message, &printed)
    } else {
        let [out, err] = paths.map(|path| tail(&path, LAST_OUTPUT_LENGTH_MAX));
        LastOutput { code, out: &out, err: &err, printed: &printed }.limit()
    };
    // Without a time, the delay of the exit status or of the plan holds.
    let says_more = |limit: &Limit| code != Some(EXIT_TRY_AGAIN) || limit.ends != LimitEnd::Later;
    if let Some(limit) = limit.filter(says_more) {
        if is_asked {
            explain(outcome, &limit);
        } else {
            mark(outcome, &limit, now);
        }
    }
}

/// The result of a worker, as it left it.
fn found(
    scratch: &Scratch,
    stem: &str,
    WorkerEnd { status, ended_by, is_disk_full }: WorkerEnd,
    idempotence: Idempotence,
) -> Worked {
    let log_tail = tail(&scratch.path(stem, "err"), LOG_TAIL_LENGTH_MAX);
    if let Some(by) = ended_by {
        let receipt = without_receipt_file(by.class(), by.message(), log_tail, idempotence);
        return with_output(receipt, printed(scratch, stem));
    }
    match receipt_in_file(scratch, stem, &log_tail) {
        Some(Ok(worked)) => worked,
        // A killed worker may have been writing the file.
        Some(Err(message)) if status.code().is_some() => {
            // An agent may write the text correctly the next time.
            let class = FailureClass::Transient;
            let receipt = without_receipt_file(class, message, log_tail, idempotence);
            with_output(receipt, printed(scratch, stem))
        }
        _ => {
            let said = || {
                let out = tail(&scratch.path(stem, "out"), LAST_OUTPUT_LENGTH_MAX);
                last_line(&message_in(&out).unwrap_or(out))
            };
            let is_disk_full = (is_disk_full || is_error_of_full_disk(&log_tail))
                && !plan_ledger::mutant!(FullDiskSaysNothingHappened);
            let mut worked = result_of(status, printed(scratch, stem), log_tail, said);
            let exited_with_failure = status.code().is_some_and(|code| code != 0);
            if let Outcome::Failed { class, message, .. } = &mut worked.receipt.outcome {
                // A worker that exits with a failure thereby states that it had no effect. A signal,
                // output that cannot be stored, or a disk that is full, does not imply that.
                if !exited_with_failure || is_disk_full {
                    worked.receipt.disposition = unknown(idempotence);
                }
                // With space, the same command may succeed.
                if exited_with_failure && is_disk_full && *class == FailureClass::Unknown {
                    *class = FailureClass::Transient;
                    if !is_error_of_full_disk(message) {
                        message.push_str("; its disk was full");
                    }
                }
            }
            worked
        }
    }
}

/// Whether an error message states that a write found no room. The disk may have room again when its worker
/// ends.
fn is_error_of_full_disk(text: &str) -> bool {
    let text = text.to_lowercase();
    ERRORS_OF_FULL_DISK.iter().any(|words| text.contains(words))
}

/// The result in the receipt file of a worker, if the file is complete.
pub(crate) fn complete_receipt(scratch: &Scratch, stem: &str) -> Option<Worked> {
    let log_tail = tail(&scratch.path(stem, "err"), LOG_TAIL_LENGTH_MAX);
    receipt_in_file(scratch, stem, &log_tail)?.ok()
}

/// The result of a worker of an earlier process, if it had ended by itself, with that record, if its time
/// was up, or if it had written its receipt.
pub(crate) fn left(
    scratch: &Scratch,
    stem: &str,
    record: Option<&ExitRecord>,
    idempotence: Idempotence,
) -> Option<Worked> {
    plan_ledger::mutant!(LeftReceiptIgnored => return None);
    let ended = record.and_then(|record| match (record.end, record.timed_out) {
        (CommandEnd::Ended(status), Some(seconds)) if status.code().is_none() => {
            Some((record, status, Some(EndedBy::Timeout(seconds))))
        }
        _ => Some((record, record.reported()?, None)),
    });
    let mut worked = match ended {
        Some((record, status, ended_by)) => {
            let is_disk_full = record.is_disk_full;
            let ending = WorkerEnd { status, ended_by, is_disk_full };
            result(scratch, stem, ending, idempotence)
        }
        // The worker was killed; only a receipt shows its work.
        None => {
            let mut worked = complete_receipt(scratch, stem)?;
            find_limit(&mut worked.receipt.outcome, (scratch, stem), None, idempotence);
            worked
        }
    };
    worked.receipt.duration = record.map_or(0, |record| record.duration);
    Some(worked)
}

fn receipt_in_file(
    scratch: &Scratch,
    stem: &str,
    log_tail: &str,
) -> Option<Result<Worked, String>> {
    let found = receipt_file::read(&scratch.path(stem, "receipt"), || printed(scratch, stem))?;
    Some(found.map(|Worked { receipt, notes }| {
        let log_tail = log_tail.into();
        Worked { receipt: Receipt { log_tail, ..receipt }, notes }
    }))
}

fn printed(scratch: &Scratch, stem: &str) -> Result<WorkerOutput, String> {
    read_output(&scratch.path(stem, "out"), &scratch.kept_output(stem))
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
    Receipt { outcome, log_tail: log_tail.into(), disposition, ..Receipt::default() }
}

/// A receipt with the output of the worker, which may explain the failure.
fn with_output(receipt: Receipt, printed: Result<WorkerOutput, String>) -> Worked {
    match printed {
        Ok(output) => output.add_to(receipt),
        Err(_) => receipt.into(),
    }
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
