//! A dry run of opening a log for writing: the verdict about its end, and the error if opening
//! would fail. It takes no lock, syncs nothing and writes nothing.
//!
//! It reads only the newest segment; a walk reports damage before it.

use std::path::{Path, PathBuf};

use crate::error::{Advice, Error, ErrorKind, Result};
use crate::format::{FrameFault, HeadSlots, HeadState};
use crate::log::folder::{LedgerPaths, check_folder, check_writable, read_head};
use crate::log::notes::DiscardedRange;
use crate::log::segment::{Segment, Segments};
use crate::storage::Storage;

use super::evidence::{Tail, examine};
use super::table::{Evidence, EvidenceBit, RecoveryRow, TailVerdict};

/// The end of a log, and the verdict about it.
#[derive(Debug)]
pub struct Diagnosis {
    /// The end of the newest segment; `None` if a header or link is invalid, so that no records
    /// were read.
    pub end: Option<TailSummary>,
    /// All observations.
    pub evidence: Evidence,
    /// The matching row of the recovery table.
    pub row: &'static RecoveryRow,
    /// The verdict of an opening, or the error with which the log would refuse to open.
    pub outcome: Result<TailVerdict>,
}

/// The end of the newest segment.
#[derive(Debug)]
pub struct TailSummary {
    /// The segment's file.
    pub path: PathBuf,
    /// Its ordinal.
    pub ordinal: u64,
    /// Offset of the first invalid frame.
    pub offset: u64,
    /// The record expected there.
    pub seq: u64,
    /// The reason why there is no valid frame.
    pub fault: FrameFault,
    /// Offset of the durable end.
    pub durable: u64,
    /// Offset of the end of the last complete batch.
    pub batch_end: u64,
    /// The bytes from there to the last byte that is not zero.
    pub discarded: Vec<DiscardedRange>,
}

/// The verdict that an opening would reach now.
///
/// # Errors
/// The error of such an opening, naming the place; `Io`.
pub fn opening_verdict(storage: &dyn Storage, dir: &Path) -> Result<TailVerdict> {
    Diagnosis::of(storage, dir)?.outcome
}

impl Diagnosis {
    /// The state of the end of the log, as opening it now would find it.
    ///
    /// # Errors
    /// `NotALedger`; `Rejected` for an archive, which cannot be opened for writing; `Io`.
    pub fn of(storage: &dyn Storage, dir: &Path) -> Result<Self> {
        let paths = LedgerPaths::new(dir);
        check_writable(check_folder(storage, &paths)?, dir)?;
        let mut before: Option<(HeadSlots, String)> = None;
        let (mut repeated, mut attempts_left) = (0, ATTEMPTS_MAX);
        loop {
            let head_slots = read_head(storage, &paths)?;
            let diagnosis = examine_once(storage, &paths, &head_slots)?;
            let Err(refusal) = &diagnosis.outcome else { return Ok(diagnosis) };
            // A concurrent write may look like damage. Real damage is still there on a second look.
            let may_be_written = may_be_written(storage, &paths, &head_slots)?;
            let seen = (head_slots, refusal.to_string());
            repeated = if before.as_ref() == Some(&seen) { repeated + 1 } else { 0 };
            attempts_left -= 1;
            if !may_be_written || repeated == REPEATS_REQUIRED || attempts_left == 0 {
                return Ok(diagnosis);
            }
            before = Some(seen);
        }
    }
}

/// Whether a writer may be active, or was active after HEAD was read.
pub(crate) fn may_be_written(
    storage: &dyn Storage,
    paths: &LedgerPaths,
    seen: &HeadSlots,
) -> Result<bool> {
    let is_open = seen.newest().is_some_and(|(_, head)| head.state == HeadState::Open);
    Ok(is_open || read_head(storage, paths)? != *seen)
}

/// How often a refusal must be repeated unchanged while a writer may be active.
const REPEATS_REQUIRED: u32 = 2;
const ATTEMPTS_MAX: u32 = 32;

fn examine_once(
    storage: &dyn Storage,
    paths: &LedgerPaths,
    head_slots: &HeadSlots,
) -> Result<Diagnosis> {
    let segments = Segments::list(storage, paths, None)?;
    let newest = match segments.newest_if_linked() {
        Ok(newest) => newest,
        Err(error) if error.kind() == ErrorKind::Io => return Err(error),
        Err(error) => return Ok(unlinked(error)),
    };
    let header = &newest.header;
    let tail = examine(storage, paths, &segments, newest, head_slots, |_| Ok(()))?;
    let row = tail.evidence.row();
    let outcome = refuse(paths, newest, &tail, row).map(|()| row.verdict);
    let end = TailSummary {
        path: paths.segment(header.name()),
        ordinal: header.ordinal,
        offset: tail.end.offset,
        seq: tail.end.next_seq,
        fault: tail.fault,
        durable: tail.durable_end.offset,
        batch_end: tail.batch_end.offset,
        discarded: tail.discarded,
    };
    Ok(Diagnosis { end: Some(end), evidence: tail.evidence, row, outcome })
}

/// A header or a link between headers is invalid.
fn unlinked(error: Error) -> Diagnosis {
    let is_newer = error.kind() == ErrorKind::Unsupported;
    let evidence = Evidence::of([
        (EvidenceBit::Version, is_newer),
        (EvidenceBit::StructureInvalid, !is_newer),
    ]);
    Diagnosis { end: None, evidence, row: evidence.row(), outcome: Err(error) }
}

/// The error for a verdict that forbids writing, naming the place.
pub(crate) fn refuse(
    paths: &LedgerPaths,
    newest: &Segment,
    tail: &Tail,
    row: &RecoveryRow,
) -> Result<()> {
    let (kind, what) = match row.verdict {
        TailVerdict::Clean | TailVerdict::Unacknowledged | TailVerdict::Torn => return Ok(()),
        TailVerdict::Corrupt if tail.evidence.has(EvidenceBit::StructureInvalid) => (
            ErrorKind::Corrupt,
            "the header of the file is invalid, or is not the one that the log created",
        ),
        TailVerdict::Corrupt => (ErrorKind::Corrupt, "acknowledged bytes are damaged"),
        TailVerdict::AcknowledgedTailMissing => {
            (ErrorKind::Corrupt, "acknowledged records are missing")
        }
        TailVerdict::Tampered => {
            (ErrorKind::Tampered, "intact bytes differ from those that were acknowledged")
        }
        TailVerdict::Ambiguous if tail.evidence.has(EvidenceBit::HeadInvalid) => {
            return Err(Error::new(
                ErrorKind::Ambiguous,
                "both slots of HEAD are missing or damaged, so it is unknown what was acknowledged",
            )
            .with_advice(Advice::ReadIntact)
            .at_path(&paths.head()));
        }
        TailVerdict::Ambiguous if tail.evidence.has(EvidenceBit::SlotInvalid) => {
            return Err(Error::new(
                ErrorKind::Ambiguous,
                "one slot of HEAD is damaged, so it is unknown what was acknowledged last",
            )
            .with_advice(Advice::ReadIntact)
            .at_path(&paths.head()));
        }
        TailVerdict::Ambiguous => {
            (ErrorKind::Ambiguous, "it is unknown whether damaged bytes were acknowledged")
        }
        TailVerdict::Version => (ErrorKind::Unsupported, "a newer program wrote this"),
    };
    let is_long = newest.length == newest.header.prealloc_len;
    let fault = if is_long || tail.evidence.has(EvidenceBit::SegmentMissing) {
        let sealed = "the newest segment is sealed, so its successor is missing";
        if is_long { tail.fault.describe() } else { sealed }.to_owned()
    } else {
        format!("expected a file of {} bytes, found {}", newest.header.prealloc_len, newest.length)
    };
    Err(Error::new(kind, format!("{what}: {fault}"))
        .with_advice(Advice::ReadIntact)
        .at_path(&paths.segment(newest.header.name()))
        .at_offset(tail.end.offset)
        .at_seq(tail.end.next_seq))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::options::{LogOptions, UidSource};
    use crate::log::recovery::RECOVERY_TABLE;
    use crate::log::segment::{FramePosition, first_header};

    fn kind_of(verdict: TailVerdict) -> Option<ErrorKind> {
        match verdict {
            TailVerdict::Clean | TailVerdict::Unacknowledged | TailVerdict::Torn => None,
            TailVerdict::Corrupt | TailVerdict::AcknowledgedTailMissing => Some(ErrorKind::Corrupt),
            TailVerdict::Tampered => Some(ErrorKind::Tampered),
            TailVerdict::Ambiguous => Some(ErrorKind::Ambiguous),
            TailVerdict::Version => Some(ErrorKind::Unsupported),
        }
    }

    /// Every row that forbids writing becomes an error of its class that names the place, also the
    /// row that is never reached because headers are checked first.
    #[test]
    fn every_refusing_row_has_its_error_kind() {
        let storage: std::sync::Arc<dyn Storage> = std::sync::Arc::new(crate::sim::SimDisk::new());
        let uids = UidSource::new(|| [7; 16]);
        let header = first_header(&LogOptions::new(storage, uids), 5);
        let paths = LedgerPaths::new(Path::new("/ledger"));
        let end = FramePosition::start(&header);
        let newest = Segment { length: header.prealloc_len, header, fault: None };
        for row in &RECOVERY_TABLE {
            let tail = Tail {
                end,
                batch_end: end,
                durable_end: end,
                time: 0,
                fault: crate::format::FrameFault::BodyCrc,
                retention: None,
                resume_points: Vec::new(),
                evidence: row.requires(),
                discarded: Vec::new(),
            };
            let refused = refuse(&paths, &newest, &tail, row).map_err(|error| {
                let is_head = [EvidenceBit::HeadInvalid, EvidenceBit::SlotInvalid];
                let is_head = is_head.into_iter().any(|bit| tail.evidence.has(bit));
                let place = if is_head { "HEAD" } else { ".seg" };
                assert!(error.to_string().contains(place), "row {}: {error}", row.label);
                error.kind()
            });
            assert_eq!(refused.err(), kind_of(row.verdict), "row {}", row.label);
        }
    }
}
