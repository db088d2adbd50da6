//! Sealing: an index and a footer after the data of a segment that a rotation closed.
//!
//! Invariants:
//! - A segment is sealed only after its successor is durable and HEAD was synced since, and only if
//!   every frame is valid and leads to the successor: sealing never hides damage.
//! - Nothing before the logical end is written. Index and footer depend on the data alone: after a
//!   crash at any point, sealing again gives the same bytes.
//! - The file gets the length of a sealed segment only after everything was synced.
//! - Segments before a fence are never sealed.

use std::io;
use std::path::Path;

use crate::error::{Error, Result};
use crate::format::{
    Chain, ContentHasher, Footer, HEADER_REPLICA_SIZE, HeaderReplica, IndexBuilder, SegmentHeader,
    SegmentReason, index_crc, is_sealed_length,
};
use crate::log::bytes::len_u64;
use crate::log::folder::LedgerPaths;
use crate::log::record::StreamRule;
use crate::storage::{Access, Storage, StorageFile};

use super::entry::valid_segment;
use super::list::Segments;
use super::scan::{ChainCheck, FramePosition, Scan, SegmentBytes};

/// Seal the segment of `header` if it is not sealed and `next` is its successor by rotation. The
/// caller has made `next` durable and has synced HEAD since.
///
/// The log is valid without it: after a failure the next opening tries again. A damaged segment,
/// and one over the limits, is left alone. `chain_check` says whether the chain is recomputed; a
/// writer that scanned the segment at opening and wrote the rest may trust it.
///
/// # Errors
/// `Io` and `DiskFull`.
pub(crate) fn seal(
    storage: &dyn Storage,
    paths: &LedgerPaths,
    stream_rule: StreamRule,
    header: &SegmentHeader,
    next: &SegmentHeader,
    chain_check: ChainCheck,
) -> Result<()> {
    let path = paths.segment(header.name());
    let io = |what, error| Error::io(what, &path, error);
    if next.reason != SegmentReason::Rotate {
        return Ok(());
    }
    let file = storage
        .open(&path, Access::ReadWrite)
        .map_err(|error| io("open the segment to seal it", error))?;
    let found = file.length().map_err(|error| io("get the length of the segment", error))?;
    if is_sealed_length(found, header.prealloc_len) {
        return Ok(());
    }
    let content = derive(storage, &path, stream_rule, header, next, chain_check)
        .map_err(|error| io("read the segment to seal it", error))?;
    let Some(content) = content else { return Ok(()) };
    write(&*file, &content, header).map_err(|error| io("seal the segment", error))
}

/// Seal all segments that a crash or a failure left unsealed. Precondition: this opening has synced
/// HEAD.
pub(crate) fn seal_rotated(
    storage: &dyn Storage,
    paths: &LedgerPaths,
    stream_rule: StreamRule,
    segments: &Segments,
) -> Result<()> {
    for (header, next) in unsealed(segments) {
        seal(storage, paths, stream_rule, header, next, ChainCheck::Recompute)?;
    }
    Ok(())
}

/// The unsealed segments with a successor, each with this successor.
pub(crate) fn unsealed(
    segments: &Segments,
) -> impl Iterator<Item = (&SegmentHeader, &SegmentHeader)> {
    let all = segments.list.iter().filter_map(valid_segment);
    let pairs = all.clone().zip(all.skip(1));
    pairs
        .filter(|(segment, _)| !is_sealed_length(segment.length, segment.header.prealloc_len))
        .map(|(segment, next)| (&segment.header, &next.header))
}

/// Seal all segments of a log that was assembled from copies elsewhere and has no other reader yet.
///
/// # Errors
/// `Io`.
#[cfg(feature = "store")]
pub(crate) fn seal_all(storage: &dyn Storage, dir: &Path, stream_rule: StreamRule) -> Result<()> {
    let paths = LedgerPaths::new(dir);
    let segments = Segments::list(storage, &paths, None)?;
    seal_rotated(storage, &paths, stream_rule, &segments)
}

/// The bytes to write after the data.
struct SealContent {
    /// Index and footer.
    bytes: Vec<u8>,
    footer: Footer,
}

/// Read a whole segment and derive index and footer. `None` if a frame is invalid or a limit is
/// exceeded.
fn derive(
    storage: &dyn Storage,
    path: &Path,
    stream_rule: StreamRule,
    header: &SegmentHeader,
    next: &SegmentHeader,
    chain_check: ChainCheck,
) -> io::Result<Option<SealContent>> {
    let file = storage.open(path, Access::Read)?;
    let mut first = [0; HEADER_REPLICA_SIZE];
    let count = file.read_at(&mut first, 0)?;
    let replica = first.get(..count).and_then(HeaderReplica::of);
    let Some(replica) = replica.filter(|replica| replica.header().as_ref() == Ok(header)) else {
        return Ok(None);
    };
    let mut scan = Scan::new(SegmentBytes::windowed(file), header, next.prev_data_end);
    scan.chain_check = chain_check;
    let mut at = FramePosition::start(header);
    let (mut index, mut hasher) = (IndexBuilder::default(), ContentHasher::default());
    let (mut times, mut batch_left) = (None, 0);
    while at.offset < next.prev_data_end {
        let Ok(found) = scan.next(&mut at)? else { return Ok(None) };
        index.push(found.seq, found.offset, found.kind, stream_rule.stream(&found));
        times = Some((times.map_or(found.time, |(first, _)| first), found.time));
        batch_left = found.batch_left;
        let (offset, size) = (found.offset, usize::try_from(found.size).map_err(io::Error::other)?);
        hasher.update(scan.source.at(offset, size)?);
    }
    let is_whole = at.offset == next.prev_data_end
        && Some(at.next_seq) == next.prev_last_seq.checked_add(1)
        && at.chain == Some(next.prev_chain)
        && batch_left == 0;
    let (time_first, time_last) = times.unwrap_or_default();
    let (data_end, data_hash) = (at.offset, hasher.finish());
    let Some(mut bytes) = index.finish(data_end).filter(|_| is_whole) else { return Ok(None) };
    let footer = Footer {
        replica,
        last_seq: next.prev_last_seq,
        data_end,
        index_length: len_u64(&bytes),
        index_crc: index_crc(header.segment, data_end, &bytes),
        stream_rule: stream_rule.id,
        time_first,
        time_last,
        chain_last: at.chain.unwrap_or(Chain::GENESIS),
        data_hash,
    };
    bytes.extend_from_slice(&footer.encode(header));
    // A footer that readers would reject is not written.
    let end = bytes.get(bytes.len() - crate::format::FOOTER_SIZE..).unwrap_or_default();
    let is_good = Footer::decode(end, footer.offset()).is_ok();
    Ok(is_good.then_some(SealContent { bytes, footer }))
}

fn write(file: &dyn StorageFile, content: &SealContent, header: &SegmentHeader) -> io::Result<()> {
    let end = content.footer.file_length();
    // The file length of an unsealed segment is a multiple of the page size.
    if end > header.prealloc_len {
        file.set_length(end.next_multiple_of(4096))?;
    }
    mutant!(SealBeforeFooterSync => file.set_length(end)?);
    file.write_at(&content.bytes, content.footer.data_end)?;
    file.sync()?;
    file.set_length(end)?;
    file.sync()?;
    file.make_read_only()
}
