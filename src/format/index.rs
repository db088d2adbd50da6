//! The index of a sealed segment: sparse seek entries, and posting lists of record offsets by kind
//! and by stream.
//!
//! Invariants: the CRC in the footer covers every byte. Lengths and counts are compared with the
//! limits and with each other before any entry is read. A decoded index is sorted and points into
//! the data; whether it matches the data is known only after reading the frames.

use std::fmt;

use super::bytes::{Uid, all_zero, array, put, to_u64, u32_at, u64_at};
use super::footer::{Footer, INDEX_HEADER_SIZE, INDEX_LENGTH_MAX, INDEX_RECORDS_MAX};
use super::frame::FRAME_ALIGNMENT;
use super::hash::crc32;
use super::segment::SEGMENT_HEADER_SIZE;

/// The minimum distance between the records of two seek entries, in bytes.
pub const SEEK_STEP: u64 = 16 * 1024;

const MAGIC: [u8; 8] = *b"PLINDEX\n";
const SEEK_SIZE: usize = 16;
const LIST_SIZE: usize = 16;
const POSTING_SIZE: usize = 4;

mod at {
    pub(super) const MAGIC: usize = 0;
    pub(super) const SEEK_COUNT: usize = 8;
    pub(super) const KIND_COUNT: usize = 12;
    pub(super) const STREAM_COUNT: usize = 16;
    pub(super) const POSTING_COUNT: usize = 20;
    pub(super) const RESERVED: usize = 24;
}

/// A record and the offset of its frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeekEntry {
    /// Sequence number.
    pub seq: u64,
    /// Offset in the file.
    pub offset: u64,
}

/// Why bytes are not a usable index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexFault {
    /// There are fewer bytes than the index has.
    Truncated,
    /// The storage cannot read some of its bytes.
    Unreadable,
    /// The checksum is wrong.
    Checksum,
    /// Intact, but it breaks a rule of the format.
    Malformed(&'static str),
}

impl fmt::Display for IndexFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("the file is too short for its index"),
            Self::Unreadable => f.write_str("the storage cannot read the index"),
            Self::Checksum => f.write_str("index checksum mismatch"),
            Self::Malformed(what) => write!(f, "intact index that breaks the format: {what}"),
        }
    }
}

/// Builds an index, record by record.
#[derive(Debug, Clone, Default)]
pub struct IndexBuilder {
    seeks: Vec<SeekEntry>,
    kinds: Vec<(u16, u32)>,
    streams: Vec<(u64, u32)>,
    is_over_limit: bool,
}

impl IndexBuilder {
    /// Add the next record.
    pub fn push(&mut self, seq: u64, offset: u64, kind: u16, stream: Option<u64>) {
        let posting = u32::try_from(offset / to_u64(FRAME_ALIGNMENT)).ok();
        // Do not buffer records over the limit.
        let has_room = to_u64(self.kinds.len()) < INDEX_RECORDS_MAX;
        let Some(posting) = posting.filter(|_| has_room) else {
            self.is_over_limit = true;
            return;
        };
        if self.seeks.last().is_none_or(|last| offset - last.offset >= SEEK_STEP) {
            self.seeks.push(SeekEntry { seq, offset });
        }
        self.kinds.push((kind, posting));
        self.streams.extend(stream.map(|stream| (stream, posting)));
    }

    /// Encode the index, which starts at `data_end`; `None` if it is over a limit.
    #[must_use]
    pub fn finish(mut self, data_end: u64) -> Option<Vec<u8>> {
        if self.is_over_limit {
            return None;
        }
        // The sort is stable: the postings of each list stay in order.
        self.kinds.sort_by_key(|(kind, _)| *kind);
        self.streams.sort_by_key(|(stream, _)| *stream);
        let kinds = self.kinds.chunk_by(|a, b| a.0 == b.0);
        let kinds: Vec<_> = kinds.map(|list| (list.first(), list.len())).collect();
        let streams = self.streams.chunk_by(|a, b| a.0 == b.0);
        let streams: Vec<_> = streams.map(|list| (list.first(), list.len())).collect();
        let keys = kinds
            .iter()
            .filter_map(|(first, count)| Some((u64::from(first.as_ref()?.0), *count)))
            .chain(streams.iter().filter_map(|(first, count)| Some((first.as_ref()?.0, *count))));
        let counts = IndexCounts {
            seeks: self.seeks.len(),
            kinds: kinds.len(),
            streams: streams.len(),
            postings: self.kinds.len() + self.streams.len(),
        };
        let length =
            counts.length(data_end).filter(|length| to_u64(*length) <= INDEX_LENGTH_MAX)?;
        let mut bytes = counts.header()?;
        bytes.reserve_exact(length - bytes.len());
        for seek in &self.seeks {
            bytes.extend_from_slice(&seek.seq.to_le_bytes());
            bytes.extend_from_slice(&seek.offset.to_le_bytes());
        }
        let mut first = 0_u32;
        for (key, count) in keys {
            let count = u32::try_from(count).ok()?;
            bytes.extend_from_slice(&key.to_le_bytes());
            bytes.extend_from_slice(&first.to_le_bytes());
            bytes.extend_from_slice(&count.to_le_bytes());
            first = first.checked_add(count)?;
        }
        let streams = self.streams.iter().map(|(_, posting)| posting);
        for posting in self.kinds.iter().map(|(_, posting)| posting).chain(streams) {
            bytes.extend_from_slice(&posting.to_le_bytes());
        }
        bytes.resize(length, 0);
        Some(bytes)
    }
}

/// The CRC of an index at `offset` of a segment.
#[must_use]
pub fn index_crc(segment: Uid, offset: u64, bytes: &[u8]) -> u32 {
    crc32(Footer::seed(segment, offset), &[bytes])
}

/// The incremental CRC of an index.
#[derive(Debug, Clone, Copy)]
pub struct IndexCrc(u32);

impl IndexCrc {
    /// Start the CRC of the index at `offset` of a segment.
    #[must_use]
    pub fn new(segment: Uid, offset: u64) -> Self {
        Self(Footer::seed(segment, offset))
    }

    /// Add the next piece.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0 = crc32(self.0, &[bytes]);
    }

    /// Whether the CRC of all pieces is the one in the footer.
    #[must_use]
    pub fn matches(self, footer: &Footer) -> bool {
        self.0 == footer.index_crc
    }
}

/// The number of entries of each type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct IndexCounts {
    seeks: usize,
    kinds: usize,
    streams: usize,
    postings: usize,
}

impl IndexCounts {
    fn header(&self) -> Option<Vec<u8>> {
        let mut bytes = vec![0; INDEX_HEADER_SIZE];
        put(&mut bytes, at::MAGIC, &MAGIC);
        for (offset, count) in [
            (at::SEEK_COUNT, self.seeks),
            (at::KIND_COUNT, self.kinds),
            (at::STREAM_COUNT, self.streams),
            (at::POSTING_COUNT, self.postings),
        ] {
            put(&mut bytes, offset, &u32::try_from(count).ok()?.to_le_bytes());
        }
        Some(bytes)
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let count = |offset| usize::try_from(u32_at(bytes, offset)).ok();
        (array(bytes, at::MAGIC) == Some(MAGIC)).then_some(())?;
        Some(Self {
            seeks: count(at::SEEK_COUNT)?,
            kinds: count(at::KIND_COUNT)?,
            streams: count(at::STREAM_COUNT)?,
            postings: count(at::POSTING_COUNT)?,
        })
    }

    /// Offset of the first list.
    fn lists_at(&self) -> Option<usize> {
        self.seeks.checked_mul(SEEK_SIZE)?.checked_add(INDEX_HEADER_SIZE)
    }

    fn postings_at(&self) -> Option<usize> {
        let lists = self.kinds.checked_add(self.streams)?.checked_mul(LIST_SIZE)?;
        self.lists_at()?.checked_add(lists)
    }

    fn end(&self) -> Option<usize> {
        self.postings_at()?.checked_add(self.postings.checked_mul(POSTING_SIZE)?)
    }

    /// Length of the index with its pad. The file must not end at a multiple of 4096.
    fn length(&self, data_end: u64) -> Option<usize> {
        let length = self.end()?.checked_next_multiple_of(FRAME_ALIGNMENT)?;
        let ends_even = data_end.checked_add(to_u64(length))?.is_multiple_of(4096);
        length.checked_add(if ends_even { FRAME_ALIGNMENT } else { 0 })
    }
}

/// The length of the index header and the seek entries, if it is possible: enough for a seek, without
/// reading the lists. The caller checks the frame that it finds. `head` is the index header.
#[must_use]
pub fn peek_seek_length(head: &[u8], footer: &Footer) -> Option<usize> {
    let length = IndexCounts::read(head)?.lists_at()?;
    (to_u64(length) <= footer.index_length).then_some(length)
}

/// Decode the seek entries at the start of an index; `None` unless they are sorted and point into the
/// data.
#[must_use]
pub fn read_seeks(bytes: &[u8], footer: &Footer) -> Option<Vec<SeekEntry>> {
    let entries = bytes.get(INDEX_HEADER_SIZE..IndexCounts::read(bytes)?.lists_at()?)?;
    let seeks = entries.chunks_exact(SEEK_SIZE).map(seek);
    let base_seq = footer.header().ok()?.base_seq;
    let (mut next, mut found) = ((base_seq, to_u64(SEGMENT_HEADER_SIZE)), Vec::new());
    for entry in seeks {
        let is_first = found.is_empty();
        let (seq, offset) = (entry.seq, entry.offset);
        let is_next =
            if is_first { (seq, offset) == next } else { seq >= next.0 && offset >= next.1 };
        let is_inside = entry.seq <= footer.last_seq && entry.offset < footer.data_end;
        if !is_next || !is_inside || !entry.offset.is_multiple_of(to_u64(FRAME_ALIGNMENT)) {
            return None;
        }
        next = (entry.seq.checked_add(1)?, entry.offset.checked_add(SEEK_STEP)?);
        found.push(entry);
    }
    (found.is_empty() == (footer.last_seq < base_seq)).then_some(found)
}

fn seek(bytes: &[u8]) -> SeekEntry {
    SeekEntry { seq: u64_at(bytes, 0), offset: u64_at(bytes, 8) }
}

/// A validated index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    bytes: Vec<u8>,
    counts: IndexCounts,
}

impl Index {
    /// Validate and decode the index that `footer` describes.
    pub fn decode(bytes: Vec<u8>, footer: &Footer) -> Result<Self, IndexFault> {
        let header = footer.header().map_err(|_| IndexFault::Malformed("footer"))?;
        if to_u64(bytes.len()) != footer.index_length || bytes.len() < INDEX_HEADER_SIZE {
            return Err(IndexFault::Truncated);
        }
        if index_crc(header.segment, footer.data_end, &bytes) != footer.index_crc {
            return Err(IndexFault::Checksum);
        }
        let counts = IndexCounts::read(&bytes).ok_or(IndexFault::Malformed("magic"))?;
        if counts.length(footer.data_end) != Some(bytes.len()) {
            return Err(IndexFault::Malformed("counts"));
        }
        let reserved = bytes.get(at::RESERVED..INDEX_HEADER_SIZE).unwrap_or_default();
        let pad = counts.end().and_then(|end| bytes.get(end..)).unwrap_or_default();
        if !all_zero(reserved) || !all_zero(pad) {
            return Err(IndexFault::Malformed("reserved bytes or pad"));
        }
        if read_seeks(&bytes, footer).is_none() {
            return Err(IndexFault::Malformed("seek entries"));
        }
        let index = Self { bytes, counts };
        index.check_lists(footer, header.base_seq)?;
        Ok(index)
    }

    /// Offsets of the records of a kind, ascending.
    pub fn of_kind(&self, kind: u16) -> impl Iterator<Item = u64> + '_ {
        self.postings(self.find(0..self.counts.kinds, u64::from(kind)))
    }

    /// Offsets of the records of a stream, ascending.
    pub fn of_stream(&self, stream: u64) -> impl Iterator<Item = u64> + '_ {
        let streams = self.counts.kinds..self.counts.kinds + self.counts.streams;
        self.postings(self.find(streams, stream))
    }

    /// The kinds of the records, ascending.
    #[cfg(feature = "store")]
    pub(crate) fn kinds(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.counts.kinds).map(|number| self.list(number).0)
    }

    /// The streams of the records, ascending.
    #[cfg(feature = "store")]
    pub(crate) fn streams(&self) -> impl Iterator<Item = u64> + '_ {
        let streams = self.counts.kinds..self.counts.kinds + self.counts.streams;
        streams.map(|number| self.list(number).0)
    }

    /// The seek entries.
    pub fn seeks(&self) -> impl Iterator<Item = SeekEntry> + '_ {
        let end = self.counts.lists_at().unwrap_or(INDEX_HEADER_SIZE);
        self.bytes.get(INDEX_HEADER_SIZE..end).unwrap_or_default().chunks_exact(SEEK_SIZE).map(seek)
    }

    /// Key, first posting and length of a list.
    fn list(&self, number: usize) -> (u64, usize, usize) {
        let offset = self.counts.lists_at().unwrap_or(0) + number * LIST_SIZE;
        let count = |at| usize::try_from(u32_at(&self.bytes, at)).unwrap_or(0);
        (u64_at(&self.bytes, offset), count(offset + 8), count(offset + 12))
    }

    /// Number of the list with a key.
    fn find(&self, lists: std::ops::Range<usize>, key: u64) -> Option<usize> {
        let (mut low, mut high) = (lists.start, lists.end);
        while low < high {
            let middle = usize::midpoint(low, high);
            if self.list(middle).0 < key { low = middle + 1 } else { high = middle }
        }
        (low < lists.end && self.list(low).0 == key).then_some(low)
    }

    fn postings(&self, list: Option<usize>) -> impl Iterator<Item = u64> + '_ {
        let (_, first, count) = list.map_or((0, 0, 0), |number| self.list(number));
        let start = self.counts.postings_at().unwrap_or(0) + first * POSTING_SIZE;
        (0..count).map(move |at| {
            u64::from(u32_at(&self.bytes, start + at * POSTING_SIZE)) * to_u64(FRAME_ALIGNMENT)
        })
    }

    /// Check that the lists are sorted and cover all postings.
    fn check_lists(&self, footer: &Footer, base_seq: u64) -> Result<(), IndexFault> {
        let counts = &self.counts;
        let (mut next, mut of_kinds) = (0, 0);
        let mut last_key = None;
        for number in 0..counts.kinds + counts.streams {
            let (key, first, count) = self.list(number);
            if number == counts.kinds {
                (of_kinds, last_key) = (next, None);
            }
            let is_kind = number >= counts.kinds || u16::try_from(key).is_ok();
            if first != next || count == 0 || last_key >= Some(key) || !is_kind {
                return Err(IndexFault::Malformed("lists"));
            }
            if first.saturating_add(count) > counts.postings {
                return Err(IndexFault::Malformed("lists"));
            }
            (next, last_key) = (first + count, Some(key));
            let mut least = to_u64(SEGMENT_HEADER_SIZE);
            for offset in self.postings(Some(number)) {
                if !(least..footer.data_end).contains(&offset) {
                    return Err(IndexFault::Malformed("postings"));
                }
                least = offset + 1;
            }
        }
        if counts.streams == 0 {
            of_kinds = next;
        }
        let records = footer.last_seq.saturating_add(1).saturating_sub(base_seq);
        let is_each_once = to_u64(of_kinds) == records
            && to_u64(next - of_kinds) <= records
            && next == counts.postings
            && (footer.stream_rule > 0 || counts.streams == 0);
        if is_each_once { Ok(()) } else { Err(IndexFault::Malformed("counts of records")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::bytes::in_miri;
    use crate::format::{HeaderReplica, SegmentHeader};

    const SEGMENT: Uid = [3; 16];

    fn header() -> SegmentHeader {
        let (base_seq, prev_last_seq) = (1, 0);
        SegmentHeader { segment: SEGMENT, base_seq, prev_last_seq, ..SegmentHeader::sample() }
    }

    /// Offset, kind and stream of a record.
    type IndexedRecord = (u64, u16, Option<u64>);

    /// Records of those sizes, and their footer and index.
    fn built(sizes: &[u64]) -> (Vec<IndexedRecord>, Footer, Vec<u8>) {
        let (mut builder, mut offset, mut records) = (IndexBuilder::default(), 4096, Vec::new());
        for (seq, size) in (1..).zip(sizes) {
            let kind = u16::try_from(seq % 3 + 1).unwrap();
            let stream = (seq % 4 > 0).then_some((seq % 5) << 40);
            builder.push(seq, offset, kind, stream);
            records.push((offset, kind, stream));
            offset += size;
        }
        let bytes = builder.finish(offset).unwrap();
        let footer = Footer {
            replica: HeaderReplica::of(&header().encode()).unwrap(),
            last_seq: to_u64(sizes.len()),
            data_end: offset,
            index_length: to_u64(bytes.len()),
            index_crc: index_crc(SEGMENT, offset, &bytes),
            stream_rule: 1,
            time_first: 0,
            time_last: 0,
            chain_last: header().prev_chain,
            data_hash: [0; 32],
        };
        (records, footer, bytes)
    }

    /// Goal: an index finds exactly the records of each kind and stream, and has a seek entry near
    /// every record, for any number and size of records. Its file never ends at a page boundary.
    #[test]
    fn index_finds_records_by_kind_stream_and_seq() {
        for count in [0_u64, 1, 2, 7, if cfg!(miri) { 40 } else { 300 }] {
            for size in [128, 4096, 20_032] {
                let sizes: Vec<u64> =
                    (0..count).map(|seq| if seq % 9 == 0 { 128 } else { size }).collect();
                let (records, footer, bytes) = built(&sizes);
                assert!(!footer.file_length().is_multiple_of(4096));
                let footer = Footer::decode(&footer.encode(&header()), footer.offset()).unwrap();
                let index = Index::decode(bytes, &footer).unwrap();
                for kind in 0..6 {
                    let of = records.iter().filter(|each| each.1 == kind).map(|each| each.0);
                    assert!(index.of_kind(kind).eq(of), "kind {kind} of {count} of {size}");
                }
                for stream in (0..7).map(|stream| stream << 40) {
                    let of = records.iter().filter(|each| each.2 == Some(stream));
                    assert!(index.of_stream(stream).eq(of.map(|each| each.0)), "{stream}");
                }
                let seeks: Vec<_> = index.seeks().collect();
                for seek in &seeks {
                    let at = usize::try_from(seek.seq - 1).unwrap();
                    assert_eq!(records[at].0, seek.offset);
                }
                let steps = seeks.windows(2).map(|pair| pair[1].offset - pair[0].offset);
                assert!(steps.clone().all(|step| (SEEK_STEP..SEEK_STEP + size).contains(&step)));
            }
        }
    }

    /// Goal: every flipped bit is detected.
    #[test]
    fn every_flipped_bit_of_an_index_is_detected() {
        let (_, footer, bytes) = built(&[20_032; 9]);
        for bit in (0..bytes.len() * 8).step_by(in_miri(7)) {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Index::decode(damaged, &footer), Err(IndexFault::Checksum), "bit {bit}");
        }
    }

    /// Goal: each fault has its own message.
    #[test]
    fn index_faults_have_distinct_messages() {
        let (_, footer, bytes) = built(&[128; 3]);
        let mut flipped = bytes.clone();
        flipped[20] ^= 1;
        let mut other = bytes.clone();
        other[0] ^= 1;
        let resummed =
            Footer { index_crc: index_crc(SEGMENT, footer.data_end, &other), ..footer.clone() };
        let cases = [
            (bytes[..64].to_vec(), &footer, "too short"),
            (flipped, &footer, "checksum"),
            (other, &resummed, "magic"),
        ];
        for (bytes, footer, words) in cases {
            let fault = Index::decode(bytes, footer).unwrap_err();
            assert!(fault.to_string().contains(words), "{fault:?}: {fault}");
        }
    }

    /// Goal: an intact index that breaks a rule is rejected, whatever its numbers are.
    /// Method: set every byte to 0, to 255 and to one more, and recompute the CRC: an index that is
    /// still accepted is sorted and points into the data.
    #[test]
    fn inconsistent_indexes_are_rejected() {
        let (_, mut footer, bytes) = built(&[20_032; 9]);
        let mut refused = 0;
        for at in (0..bytes.len()).step_by(in_miri(7)) {
            for value in [0, 255, bytes[at].wrapping_add(1)] {
                let mut odd = bytes.clone();
                odd[at] = value;
                footer.index_crc = index_crc(SEGMENT, footer.data_end, &odd);
                match Index::decode(odd, &footer) {
                    Err(_) => refused += 1,
                    Ok(index) => {
                        let all = (0..9).flat_map(|kind| index.of_kind(kind).collect::<Vec<_>>());
                        assert!(all.into_iter().all(|offset| offset < footer.data_end));
                    }
                }
            }
        }
        assert!(refused > bytes.len() / in_miri(7), "{refused}");
    }

    /// Goal: an index over a limit is not built.
    #[test]
    fn index_over_a_limit_is_not_built() {
        let mut builder = IndexBuilder::default();
        builder.push(1, 1 << 38, 1, None);
        assert_eq!(builder.finish((1 << 38) + 128), None);
        let mut builder = IndexBuilder::default();
        // Miri would take minutes for so many records.
        if cfg!(miri) {
            return;
        }
        for seq in 1..=INDEX_RECORDS_MAX + 1 {
            builder.push(seq, 4096 + seq * 128, 1, Some(1));
        }
        assert_eq!(builder.finish(1 << 30), None);
    }
}
