//! Running a verification.

use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::format::Chain;
use crate::log::folder::LedgerPaths;
use crate::log::reader::LogReader;
use crate::log::record::Ack;
use crate::log::recovery::{TailVerdict, may_be_written, opening_verdict};
use crate::storage::Storage;

use super::expect::ExpectationResult;
use super::finding::{FindingClass, VerifyFinding};
use super::options::{FINDINGS_MAX, VerifyContext, VerifyCounts, VerifyOptions};
use super::range::{RangeResult, VerifyRange, total_length};
use super::{expect, head, pieces, range, tail};

/// Whether a verification is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completion {
    /// All of the log was verified.
    Complete,
    /// It was asked to stop: the result covers a part of the log.
    Stopped,
}

/// The result of a verification.
#[derive(Debug)]
pub struct Verification {
    /// All findings, in the order of the log.
    pub findings: Vec<VerifyFinding>,
    /// Number of findings that were not kept.
    pub omitted: u64,
    /// The amount of data that was verified.
    pub counts: VerifyCounts,
    /// The last durable record that was read.
    pub last: Option<Ack>,
    /// The verdict of an opening for writing now, or the error with which it would be refused.
    pub opening: Result<TailVerdict>,
    /// Whether the expected chain value was found.
    pub expectation: Option<ExpectationResult>,
    /// Whether all of the log was verified.
    pub completion: Completion,
}

impl Verification {
    /// Number of kept findings of a class.
    #[must_use]
    pub fn count(&self, class: FindingClass) -> usize {
        self.findings.iter().filter(|finding| finding.class == class).count()
    }

    /// Whether anything is damaged, or cannot be distinguished from damage.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        self.count(FindingClass::Damage) > 0
            || self.count(FindingClass::DerivedDamage) > 0
            || self.omitted > 0
            || self.opening.as_ref().is_err_and(Error::is_corrupt)
    }

    /// Add findings, for example those of the caller's own checks.
    pub fn add_findings(&mut self, findings: impl IntoIterator<Item = VerifyFinding>) {
        for finding in findings {
            if self.findings.len() < FINDINGS_MAX {
                self.findings.push(finding);
            } else {
                self.omitted += 1;
            }
        }
    }
}

/// Verify the log in a folder.
///
/// # Errors
/// `NotALedger`, and `Io` if not even names and headers can be read. Damage is not an error.
pub fn verify(
    storage: &Arc<dyn Storage>,
    dir: &Path,
    options: VerifyOptions<'_>,
) -> Result<Verification> {
    let mut reader = LogReader::open(storage, dir)?;
    reader.chain_check = options.chain_check;
    let ranges = range::split(&reader);
    let shared = VerifyContext::new(&reader, total_length(&ranges), options);
    let mut result = pieces::walk(&shared, &ranges);
    if let Some(error) = result.iter_mut().flatten().find_map(|range| range.gone.take()) {
        return Err(error);
    }
    let is_live = may_be_written(&**storage, &LedgerPaths::new(dir), reader.head_slots())?;
    let opening = match opening_verdict(&**storage, dir) {
        Err(error) if error.kind() == ErrorKind::Io => return Err(error),
        opening => opening,
    };
    let mut verification = Verification {
        findings: Vec::new(),
        omitted: 0,
        counts: VerifyCounts::default(),
        last: None,
        opening,
        expectation: None,
        completion: if shared.progress.is_stopped() {
            Completion::Stopped
        } else {
            Completion::Complete
        },
    };
    verification.add_findings(head::findings(&**storage, dir, &reader)?);
    let mut found = expect::FoundRecord::default();
    let mut previous: Option<&RangeResult> = None;
    for (range, result) in ranges.iter().zip(&result) {
        let Some(result) = result else { continue };
        verification.counts.add(result.counts);
        verification.last = result.last.or(verification.last);
        found.add(result.found);
        // This needs no second read: the start of a range never changes, and the time at the end of
        // the previous one only grows.
        verification.add_findings(
            previous.and_then(|previous| range::check_boundary(&reader, previous, result)),
        );
        let mut findings = result.findings.clone();
        verification.omitted += result.omitted;
        if is_live && findings.iter().any(|finding| finding.class == FindingClass::Damage) {
            let reread_findings = reread(storage, dir, options, range)?;
            findings.retain(|finding| {
                finding.class != FindingClass::Damage || reread_findings.contains(finding)
            });
        }
        verification.add_findings(findings);
        previous = Some(result);
    }
    if verification.completion == Completion::Complete {
        let last = result.last().and_then(Option::as_ref);
        verification.add_findings(tail::finding(&reader, last)?);
    }
    verification.add_findings(head::unknown_files(&reader));
    verification.expectation = options.expected.and_then(|expected| {
        let chain = reader.chain_before().unwrap_or(Chain::GENESIS);
        let origin = Ack { seq: reader.first_seq().saturating_sub(1), chain };
        let outcome = expected.compare(found, origin, verification.last);
        // Nothing is known about records that were not reached.
        let is_undecided = verification.completion == Completion::Stopped
            && matches!(outcome, ExpectationResult::Missing { .. });
        (!is_undecided).then_some(outcome)
    });
    Ok(verification)
}

/// The findings of a second read of a range that a writer may have changed during the first.
fn reread(
    storage: &Arc<dyn Storage>,
    dir: &Path,
    options: VerifyOptions<'_>,
    range: &VerifyRange,
) -> Result<Vec<VerifyFinding>> {
    let mut reader = LogReader::open(storage, dir)?;
    reader.chain_check = options.chain_check;
    // The range was already counted for the progress. Reading one range is short, so a stop request
    // is ignored here.
    let options = VerifyOptions { progress: VerifyOptions::DEFAULT.progress, ..options };
    let whole = VerifyContext::new(&reader, range.length, options);
    let RangeResult { findings, gone, .. } = range::walk(&whole, range);
    gone.map_or(Ok(findings), Err)
}

/// The last durable record. Keep it elsewhere to check a later verification against it.
///
/// # Errors
/// `NotALedger`; `Ambiguous` if HEAD is missing or damaged; `Corrupt` if the record that it names
/// is; `Io`.
pub fn root(storage: &Arc<dyn Storage>, dir: &Path) -> Result<Ack> {
    let reader = LogReader::open(storage, dir)?;
    let Some(head) = reader.head().filter(|_| reader.head_names_present_segment()) else {
        let what = "HEAD is missing, damaged or names an absent segment, so the last durable \
                    record is unknown; run `ledger verify`";
        return Err(Error::new(ErrorKind::Ambiguous, what).at_path(&dir.join("HEAD")));
    };
    let mut last = Ack { seq: 0, chain: Chain::GENESIS };
    for record in reader.records(head.durable_seq.max(1)) {
        let record = record?;
        last = Ack { seq: record.seq, chain: record.chain };
    }
    let is_there =
        last.seq >= head.durable_seq && (last.seq > head.durable_seq || last.chain == head.chain);
    if !is_there {
        let what = "HEAD names another record than the one in the log";
        return Err(Error::new(ErrorKind::Corrupt, what)
            .at_path(&dir.join("HEAD"))
            .at_seq(head.durable_seq));
    }
    Ok(last)
}
