//! What opening a log for writing would find at its end, and what it would say about it, without
//! the lock, a sync or a write.
//!
//! Left out on purpose: damage before the newest segment's end, which a walk names.

use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::format::{FrameFault, HeadState, HeadView};
use crate::storage::{Access, Storage};

use super::beginning::expect_writable;
use super::evidence::{examine, with_head, with_length};
use super::head_file::read_head;
use super::layout::Layout;
use super::note::DiscardedRange;
use super::open::refuse;
use super::reader::expect_ledger;
use super::recovery::{Bit, Evidence, Row, Verdict, classify};
use super::scan::{Scan, Source};
use super::segments::Segments;

/// What the end of a log is, and why.
#[derive(Debug)]
pub struct Diagnosis {
    /// The newest segment's end; `None` if a header or a link does not hold, so that nothing was
    /// looked at.
    pub end: Option<End>,
    /// Everything that was observed.
    pub evidence: Evidence,
    /// The row of the recovery table that it selects.
    pub row: &'static Row,
    /// The verdict with which the log would be opened now, or why it would be refused.
    pub outcome: Result<Verdict>,
}

/// The end of the newest segment.
#[derive(Debug)]
pub struct End {
    /// The segment's file.
    pub path: PathBuf,
    /// Its ordinal.
    pub ordinal: u64,
    /// X: the first place without a valid frame, in bytes.
    pub offset: u64,
    /// n: the record that is due there.
    pub seq: u64,
    /// Why there is no frame.
    pub fault: FrameFault,
    /// Where what is proved to be durable ends, in bytes.
    pub durable: u64,
    /// Where the last complete batch ends, in bytes.
    pub whole: u64,
    /// What stands between there and the last byte that is not zero.
    pub discarded: Vec<DiscardedRange>,
}

/// The verdict with which the log would be opened now.
///
/// # Errors
/// Why it would be refused, as opening it says it, naming the place; and `Io`.
pub fn judge(storage: &dyn Storage, dir: &Path) -> Result<Verdict> {
    diagnose(storage, dir)?.outcome
}

/// What opening the log now would find at its end.
///
/// # Errors
/// `NotALedger`; `Rejected` for an archive, which nobody opens; `Io`.
pub fn diagnose(storage: &dyn Storage, dir: &Path) -> Result<Diagnosis> {
    let layout = Layout::new(dir);
    expect_writable(expect_ledger(storage, &layout)?, dir)?;
    let mut before: Option<(HeadView, String)> = None;
    let (mut repeated, mut left) = (0, LOOKS_MAX);
    loop {
        let view = read_head(storage, &layout)?;
        let diagnosis = look(storage, &layout, &view)?;
        let Err(refusal) = &diagnosis.outcome else { return Ok(diagnosis) };
        // What a writer writes while it is being read may look like damage. Damage stays.
        let is_written = is_written(storage, &layout, &view)?;
        let seen = (view, refusal.to_string());
        repeated = if before.as_ref() == Some(&seen) { repeated + 1 } else { 0 };
        left -= 1;
        if !is_written || repeated == REPEATED || left == 0 {
            return Ok(diagnosis);
        }
        before = Some(seen);
    }
}

/// Whether a writer may be at work, or has been since that was in HEAD.
pub(super) fn is_written(storage: &dyn Storage, layout: &Layout, seen: &HeadView) -> Result<bool> {
    let is_open = seen.newest().is_some_and(|(_, head)| head.state == HeadState::Open);
    Ok(is_open || read_head(storage, layout)? != *seen)
}

/// How often a refusal must be met again, unchanged, where a writer may be at work.
const REPEATED: u32 = 2;
const LOOKS_MAX: u32 = 32;

fn look(storage: &dyn Storage, layout: &Layout, view: &HeadView) -> Result<Diagnosis> {
    let segments = Segments::list(storage, layout, None)?;
    let newest = match segments.linked() {
        Ok(newest) => newest,
        Err(error) if error.kind() == ErrorKind::Io => return Err(error),
        Err(error) => return Ok(unlinked(error)),
    };
    let header = &newest.header;
    let path = layout.segment(header.name());
    let open = || storage.open(&path, Access::Read);
    let open = || open().map_err(|error| Error::io("open the segment", &path, error));
    let (file, again) = (open()?, open()?);
    let mut scan = Scan::new(Source::windowed(again), header, header.prealloc_len);
    let mut tail = examine(&mut scan, header, view)
        .map_err(|error| Error::io("read the segment", &path, error))?;
    tail.evidence = with_length(tail.evidence, newest, &*file)
        .map_err(|error| Error::io("read the footer", &path, error))?;
    tail.evidence = with_head(tail.evidence, &segments, view);
    let row = classify(tail.evidence);
    let outcome = refuse(layout, newest, &tail, row).map(|()| row.verdict);
    let end = End {
        path,
        ordinal: header.ordinal,
        offset: tail.end.offset,
        seq: tail.end.next_seq,
        fault: tail.fault,
        durable: tail.durable_end.offset,
        whole: tail.whole_end.offset,
        discarded: tail.discarded,
    };
    Ok(Diagnosis { end: Some(end), evidence: tail.evidence, row, outcome })
}

/// A header or a link between headers does not hold.
fn unlinked(error: Error) -> Diagnosis {
    let is_newer = error.kind() == ErrorKind::Unsupported;
    let evidence = Evidence::of([(Bit::Version, is_newer), (Bit::LinkBad, !is_newer)]);
    Diagnosis { end: None, evidence, row: classify(evidence), outcome: Err(error) }
}
