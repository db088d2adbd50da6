//! Sealing: an index and a footer behind the data of a segment that a rotation closed.
//!
//! Invariants:
//! - A segment is sealed only when its successor is durable and HEAD was synced since, and only if
//!   every frame of it holds and leads to the successor: damage is never covered up.
//! - Nothing before the logical end is written to, and what is written follows from the data
//!   alone: after a crash at any point it is done again and gives the same bytes.
//! - The file gets the length that says *sealed* only after all of it was synced.
//!
//! Left out on purpose: segments before a fence, which stay as they are for ever.

use std::io;
use std::path::Path;

use crate::error::{Error, Result};
use crate::format::{
    Chain, ContentHasher, Footer, HEADER_REPLICA_SIZE, HeaderReplica, IndexBuilder, Reason,
    SegmentHeader, index_crc, is_sealed_length,
};
use crate::storage::{Access, Storage, StorageFile};

use super::build::length;
use super::layout::Layout;
use super::options::StreamOf;
use super::scan::{Links, Position, Scan, Source};
use super::segment_walk::logged;
use super::segments::{Segments, good};

/// Seal the segment of `header`, if `next` has taken its place by a rotation and it is not sealed
/// yet. The caller has made `next` durable, and has synced HEAD since.
///
/// Nothing depends on it: if it fails, the log is as good as before, and the next opening does it
/// again. A damaged segment, and one over the limits, is left as it is. `links` says whether the
/// links of the chain are computed again: who wrote the segment, and walked over what was in it when
/// the log was opened, knows them.
///
/// # Errors
/// `Io` and `DiskFull`.
pub(super) fn seal(
    storage: &dyn Storage,
    layout: &Layout,
    stream_of: StreamOf,
    (header, next): (&SegmentHeader, &SegmentHeader),
    links: Links,
) -> Result<()> {
    let path = layout.segment(header.name());
    let io = |what, error| Error::io(what, &path, error);
    if next.reason != Reason::Rotate {
        return Ok(());
    }
    let file = storage
        .open(&path, Access::ReadWrite)
        .map_err(|error| io("open the segment to seal it", error))?;
    let found = file.length().map_err(|error| io("measure the segment", error))?;
    if is_sealed_length(found, header.prealloc_len) {
        return Ok(());
    }
    let content = gather(storage, &path, stream_of, (header, next), links)
        .map_err(|error| io("read the segment to seal it", error))?;
    let Some(content) = content else { return Ok(()) };
    write(&*file, &content, header).map_err(|error| io("seal the segment", error))
}

/// Seal all segments that a crash, or a failure, left unsealed. HEAD was synced by this opening.
pub(super) fn seal_rotated(
    storage: &dyn Storage,
    layout: &Layout,
    stream_of: StreamOf,
    segments: &Segments,
) -> Result<()> {
    let all = segments.list.iter().filter_map(good);
    for (segment, next) in all.clone().zip(all.skip(1)) {
        if !is_sealed_length(segment.length, segment.header.prealloc_len) {
            let pair = (&segment.header, &next.header);
            seal(storage, layout, stream_of, pair, Links::Computed)?;
        }
    }
    Ok(())
}

/// What is written behind the data.
struct Content {
    /// Index and footer.
    bytes: Vec<u8>,
    footer: Footer,
}

/// Read all of a segment, and make what follows from it. `None` if not all of it holds, or it is
/// over a limit.
fn gather(
    storage: &dyn Storage,
    path: &Path,
    stream_of: StreamOf,
    (header, next): (&SegmentHeader, &SegmentHeader),
    links: Links,
) -> io::Result<Option<Content>> {
    let file = storage.open(path, Access::Read)?;
    let mut first = [0; HEADER_REPLICA_SIZE];
    let count = file.read_at(&mut first, 0)?;
    let replica = first.get(..count).and_then(HeaderReplica::of);
    let Some(replica) = replica.filter(|replica| replica.header().as_ref() == Ok(header)) else {
        return Ok(None);
    };
    let mut scan = Scan::new(Source::windowed(file), header, next.prev_data_end);
    scan.links = links;
    let mut at = Position::start(header);
    let (mut index, mut hasher) = (IndexBuilder::default(), ContentHasher::default());
    let (mut times, mut left) = (None, 0);
    while at.offset < next.prev_data_end {
        let Ok(found) = scan.next(&mut at)? else { return Ok(None) };
        let found = found.into_owned();
        let size = usize::try_from(found.size).map_err(io::Error::other)?;
        hasher.update(scan.source.at(found.offset, size)?);
        let record = logged(found, header.ordinal);
        index.push(record.seq, record.offset, record.kind, stream_of.stream(&record));
        times = Some((times.map_or(record.time, |(first, _)| first), record.time));
        left = record.batch_left;
    }
    let is_whole = at.offset == next.prev_data_end
        && Some(at.next_seq) == next.prev_last_seq.checked_add(1)
        && at.chain == Some(next.prev_chain)
        && left == 0;
    let (time_first, time_last) = times.unwrap_or_default();
    let (data_end, data_hash) = (at.offset, hasher.finish());
    let Some(mut bytes) = index.finish(data_end).filter(|_| is_whole) else { return Ok(None) };
    let footer = Footer {
        replica,
        last_seq: next.prev_last_seq,
        data_end,
        index_length: length(&bytes),
        index_crc: index_crc(header.segment, data_end, &bytes),
        stream_rule: stream_of.rule,
        time_first,
        time_last,
        chain_last: at.chain.unwrap_or(Chain::GENESIS),
        data_hash,
    };
    bytes.extend_from_slice(&footer.encode(header));
    // What a reader would refuse is not written.
    let end = bytes.get(bytes.len() - crate::format::FOOTER_SIZE..).unwrap_or_default();
    let is_good = Footer::decode(end, footer.offset()).is_ok();
    Ok(is_good.then_some(Content { bytes, footer }))
}

fn write(file: &dyn StorageFile, content: &Content, header: &SegmentHeader) -> io::Result<()> {
    let end = content.footer.file_length();
    // Lengths that are multiples of a page are those of segments that are not sealed.
    if end > header.prealloc_len {
        file.set_length(end.next_multiple_of(4096))?;
    }
    bug!(SealedBeforeSync => file.set_length(end)?);
    file.write_at(&content.bytes, content.footer.data_end)?;
    file.sync()?;
    file.set_length(end)?;
    file.sync()?;
    file.make_read_only()
}
