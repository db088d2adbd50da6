//! Options of a verification, and the state that its threads share.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;

use crate::error::Error;
use crate::log::reader::LogReader;
use crate::log::record::LoggedRecord;
use crate::log::segment::ChainCheck;

use super::expect::ExpectedChain;
use super::parallel::{ProgressCounter, ProgressWatch};

/// Number of findings that are kept; further ones are only counted.
pub const FINDINGS_MAX: usize = 65_536;

/// The caller's check of each intact record, called from any thread. It returns a description of
/// the fault, if there is one.
pub type RecordCheck<'a> = &'a (dyn Fn(&LoggedRecord<&[u8]>) -> Option<Error> + Sync);

/// Options of a verification.
#[derive(Clone, Copy)]
pub struct VerifyOptions<'a> {
    /// Whether the chain is recomputed.
    pub chain_check: ChainCheck,
    /// Number of threads.
    pub jobs: NonZeroUsize,
    /// A chain value that must be in the log.
    pub expected: Option<ExpectedChain>,
    /// Called with the progress.
    pub progress: ProgressWatch<'a>,
    /// The caller's check of each record.
    pub check_record: RecordCheck<'a>,
}

impl VerifyOptions<'_> {
    /// One thread, the chain recomputed, no callbacks.
    pub const DEFAULT: VerifyOptions<'static> = VerifyOptions {
        chain_check: ChainCheck::Recompute,
        jobs: NonZeroUsize::MIN,
        expected: None,
        progress: &|_, _| ControlFlow::Continue(()),
        check_record: &|_| None,
    };
}

/// The amount of data that was verified.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VerifyCounts {
    /// Files that are named like segments.
    pub segments: u64,
    /// Intact records, including those after the durable end.
    pub records: u64,
    /// Intact records after the durable end.
    pub unacknowledged: u64,
    /// Total size of the frames of all intact records.
    pub frame_bytes: u64,
}

impl VerifyCounts {
    pub(crate) fn add(&mut self, other: Self) {
        self.segments += other.segments;
        self.records += other.records;
        self.unacknowledged += other.unacknowledged;
        self.frame_bytes += other.frame_bytes;
    }
}

/// The state that the threads of a verification share.
pub(crate) struct VerifyContext<'a> {
    pub(crate) reader: &'a LogReader,
    pub(crate) options: VerifyOptions<'a>,
    pub(crate) progress: ProgressCounter<'a>,
}

impl<'a> VerifyContext<'a> {
    pub(crate) fn new(reader: &'a LogReader, length: u64, options: VerifyOptions<'a>) -> Self {
        Self { reader, options, progress: ProgressCounter::new(options.progress, length) }
    }
}
