//! One segment file as found on disk: its name, and its header if that is readable.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::format::{HeaderFault, SEGMENT_HEADER_SIZE, SegmentHeader, SegmentName};
use crate::log::folder::LedgerPaths;
use crate::storage::{Access, Storage, StorageFile, read_sectors};

use super::footer::read_replica;

/// A segment with a readable header.
#[derive(Debug, Clone)]
pub(crate) struct Segment {
    pub(crate) header: SegmentHeader,
    pub(crate) length: u64,
    /// The fault of the header at the start of the file, if this header is from the footer.
    pub(crate) fault: Option<HeaderFault>,
}

/// A file that is named like a segment.
pub(crate) type SegmentEntry = (SegmentName, PathBuf, std::result::Result<Segment, HeaderFault>);

/// The segment in a file, if its header matches the file name.
pub(crate) fn valid_segment((name, _, read): &SegmentEntry) -> Option<&Segment> {
    read.as_ref().ok().filter(|segment| segment.header.name() == *name)
}

/// Open a segment's file for writing.
pub(crate) fn open_segment(
    storage: &dyn Storage,
    paths: &LedgerPaths,
    header: &SegmentHeader,
) -> Result<(PathBuf, Box<dyn StorageFile>)> {
    let path = paths.segment(header.name());
    let file = storage.open(&path, Access::ReadWrite);
    let file = file.map_err(|error| Error::io("open the segment", &path, error))?;
    Ok((path, file))
}

pub(crate) fn read_header(
    storage: &dyn Storage,
    path: &Path,
) -> Result<std::result::Result<Segment, HeaderFault>> {
    let io = |what, error| Error::io(what, path, error);
    let file = storage.open(path, Access::Read).map_err(|error| io("open the segment", error))?;
    let length = file.length().map_err(|error| io("get the length of the segment", error))?;
    let mut bytes = vec![0; SEGMENT_HEADER_SIZE];
    let read = read_sectors(&*file, &mut bytes, 0).map_err(|error| io("read the header", error))?;
    bytes.truncate(read.count);
    let decoded = if read.unreadable.is_empty() {
        SegmentHeader::decode(&bytes)
    } else {
        Err(HeaderFault::Unreadable)
    };
    let fault = match decoded {
        Ok(header) => return Ok(Ok(Segment { header, length, fault: None })),
        Err(fault) if fault.is_version() => return Ok(Err(fault)),
        Err(fault) => fault,
    };
    let replica = read_replica(&*file, length).map_err(|error| io("read the footer", error))?;
    Ok(match replica {
        Some(header) => Ok(Segment { header, length, fault: Some(fault) }),
        None => Err(fault),
    })
}
