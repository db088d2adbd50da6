//! What a worker's process left behind, as a receipt: its exit status and its files.

use std::path::PathBuf;
use std::process::ExitStatus;

use crate::plan::{FailureClass, Receipt};

use super::output::{LOG_TAIL_LENGTH_MAX, failed, receipt_of, tail};
use super::receipt_file;

/// The files of a worker's process.
#[derive(Debug)]
pub(super) struct Left {
    pub(super) output: PathBuf,
    pub(super) errors: PathBuf,
    pub(super) receipt: PathBuf,
}

impl Left {
    /// The receipt of a process that ended so; `timed_out` after so many seconds, if it was.
    pub(super) fn receipt(&self, status: ExitStatus, timed_out: Option<u32>) -> Receipt {
        let log_tail = tail(&self.errors, LOG_TAIL_LENGTH_MAX);
        if let Some(seconds) = timed_out {
            let message = format!("timed out after {seconds} s");
            let outcome = failed(FailureClass::Transient, message);
            return Receipt { outcome, log_tail, ..Receipt::default() };
        }
        match receipt_file::read(&self.receipt, &self.output) {
            Some(Ok(receipt)) => Receipt { log_tail, ..receipt },
            // A worker that was killed may have been half-way through writing it.
            Some(Err(message)) if status.code().is_some() => {
                let outcome = failed(FailureClass::Deterministic, message);
                Receipt { outcome, log_tail, ..Receipt::default() }
            }
            _ => receipt_of(status, &self.output, log_tail),
        }
    }
}
