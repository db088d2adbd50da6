//! What opening a log for writing would say about its end, without the lock, a sync or a write.
//!
//! Left out on purpose: damage before the newest segment's end, which a walk names.

use std::path::Path;

use crate::error::{Error, Result};
use crate::storage::{Access, Storage};

use super::evidence::examine;
use super::head_file::read_head;
use super::layout::Layout;
use super::open::refuse;
use super::reader::Segments;
use super::recovery::{Bit, Verdict, classify};
use super::scan::{Scan, Source};

/// The verdict with which the log would be opened now.
///
/// # Errors
/// Why it would be refused, as opening it says it, naming the place; and `Io`.
pub fn judge(storage: &dyn Storage, dir: &Path) -> Result<Verdict> {
    let layout = Layout::new(dir);
    let mut before = read_head(storage, &layout)?;
    let mut left = ATTEMPTS;
    loop {
        let outcome = look(storage, &layout, &before);
        let after = read_head(storage, &layout)?;
        left -= 1;
        // What a writer changes while it is being read may look like damage. HEAD tells.
        if outcome.is_ok() || after == before || left == 0 {
            return outcome;
        }
        before = after;
    }
}

const ATTEMPTS: u32 = 8;

fn look(storage: &dyn Storage, layout: &Layout, view: &crate::format::HeadView) -> Result<Verdict> {
    let segments = Segments::list(storage, layout)?;
    let newest = segments.linked(layout)?;
    let header = &newest.header;
    let path = layout.segment(header.name());
    let file = storage
        .open(&path, Access::Read)
        .map_err(|error| Error::io("open the segment", &path, error))?;
    let mut scan = Scan::new(Source::windowed(file), header, header.prealloc_len);
    let mut tail = examine(&mut scan, header, view)
        .map_err(|error| Error::io("read the segment", &path, error))?;
    if newest.length != header.prealloc_len {
        tail.evidence = tail.evidence.with(Bit::LinkBad);
    }
    let row = classify(tail.evidence);
    refuse(layout, newest, &tail, row)?;
    Ok(row.verdict)
}
