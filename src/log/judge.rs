//! What opening a log for writing would say about its end, without the lock, a sync or a write.
//!
//! Left out on purpose: damage before the newest segment's end, which a walk names.

use std::path::Path;

use crate::error::{Error, ErrorKind, Result};
use crate::format::{HeadState, HeadView};
use crate::storage::{Access, Storage};

use super::beginning::expect_writable;
use super::evidence::{examine, with_length};
use super::head_file::read_head;
use super::layout::Layout;
use super::open::refuse;
use super::reader::expect_ledger;
use super::recovery::{Verdict, classify};
use super::scan::{Scan, Source};
use super::segments::Segments;

/// The verdict with which the log would be opened now.
///
/// # Errors
/// Why it would be refused, as opening it says it, naming the place; and `Io`.
pub fn judge(storage: &dyn Storage, dir: &Path) -> Result<Verdict> {
    let layout = Layout::new(dir);
    expect_writable(expect_ledger(storage, &layout)?, dir)?;
    let mut before: Option<(HeadView, String)> = None;
    let (mut repeated, mut left) = (0, LOOKS_MAX);
    loop {
        let view = read_head(storage, &layout)?;
        let refusal = match look(storage, &layout, &view) {
            Err(error) if error.kind() != ErrorKind::Io => error,
            outcome => return outcome,
        };
        // What a writer writes while it is being read may look like damage. Damage stays.
        let is_written = is_written(storage, &layout, &view)?;
        let seen = (view, refusal.to_string());
        repeated = if before.as_ref() == Some(&seen) { repeated + 1 } else { 0 };
        left -= 1;
        if !is_written || repeated == REPEATED || left == 0 {
            return Err(refusal);
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

fn look(storage: &dyn Storage, layout: &Layout, view: &HeadView) -> Result<Verdict> {
    let segments = Segments::list(storage, layout, None)?;
    let newest = segments.linked()?;
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
    let row = classify(tail.evidence);
    refuse(layout, newest, &tail, row)?;
    Ok(row.verdict)
}
