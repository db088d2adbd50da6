//! Index objects: the footers and indexes of consecutive sealed segments in one object, so that a reader of few records
//! needs few requests.
//!
//! Index objects are derived: a missing or invalid one only costs more requests. An entry has the footer of its
//! segment, and the keys of the lists in its index, without the postings.
//!
//! Invariant: an index object is used only if its hash, its name, the ledger, and every footer in it hold.

use crate::error::Result;
use crate::format::{
    FOOTER_SIZE, Footer, Index, SegmentHeader, all_zero, array, content_hash, put, to_u64, u16_at,
    u32_at, u64_at,
};

use crate::store::binding::LedgerIdentity;
use crate::store::name::{IndexRange, ObjectName, SEGMENTS, SegmentForm, SegmentObject};
use crate::store::objects::ListedObject;
use crate::store::segments::VerifiedSegment;
use crate::store::session::StoreSession;

const MAGIC: [u8; 8] = *b"\x89PLX\r\n\x1a\n";
const HEADER_SIZE: usize = 64;
const HASH_SIZE: usize = 32;
const ENTRY_SIZE: usize = 384;
const KEY_SIZE: usize = 8;
/// The bytes of a footer before its zeros.
const FOOTER_FIELDS: usize = 368;
/// Offset of the checksum in a footer.
const FOOTER_CRC: usize = FOOTER_SIZE - 4;
/// The most segments in an index object: a longer log has several.
const ENTRIES_MAX: usize = 256;

mod at {
    pub(super) const MAJOR: usize = 8;
    pub(super) const INCOMPAT: usize = 12;
    pub(super) const LEDGER: usize = 16;
    pub(super) const GENESIS: usize = 32;
    pub(super) const COUNT: usize = 48;
    pub(super) const RESERVED: usize = 52;
    /// In an entry.
    pub(super) const CRC: usize = 368;
    pub(super) const KINDS: usize = 372;
    pub(super) const STREAMS: usize = 376;
    pub(super) const PAD: usize = 380;
    /// In a footer.
    pub(super) const DATA_END: usize = 48;
    pub(super) const INDEX_LENGTH: usize = 64;
}

/// The footer of a sealed segment, and the keys of its index, ascending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store) struct SegmentKeys {
    footer: Footer,
    header: SegmentHeader,
    kinds: Vec<u64>,
    streams: Vec<u64>,
}

impl SegmentKeys {
    /// Those of a segment object, if its footer and its index are valid.
    pub(in crate::store) fn of(object: &SegmentObject, bytes: &[u8]) -> Option<Self> {
        let (footer, header) = sealed_footer(object, bytes, to_u64(bytes.len()))?;
        let from = usize::try_from(footer.data_end).ok()?;
        let to = usize::try_from(footer.offset()).ok()?;
        let index = Index::decode(bytes.get(from..to)?.to_vec(), &footer).ok()?;
        let (kinds, streams) = (index.kinds().collect(), index.streams().collect());
        Some(Self { footer, header, kinds, streams })
    }

    pub(in crate::store) fn footer(&self) -> &Footer {
        &self.footer
    }

    /// The header, as the footer repeats it.
    pub(in crate::store) fn header(&self) -> &SegmentHeader {
        &self.header
    }

    /// Whether the index has postings of a kind.
    pub(in crate::store) fn has_kind(&self, kind: u16) -> bool {
        self.kinds.binary_search(&u64::from(kind)).is_ok()
    }

    /// Whether the index has postings of a stream; `None` if it was made with another rule.
    pub(in crate::store) fn has_stream(&self, stream: u64, rule: u32) -> Option<bool> {
        (self.footer.stream_rule == rule).then(|| self.streams.binary_search(&stream).is_ok())
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let footer = self.footer.encode(&self.header);
        out.extend_from_slice(footer.get(..FOOTER_FIELDS).unwrap_or_default());
        out.extend_from_slice(footer.get(FOOTER_CRC..).unwrap_or_default());
        for keys in [&self.kinds, &self.streams] {
            let count = u32::try_from(keys.len()).unwrap_or(u32::MAX);
            out.extend_from_slice(&count.to_le_bytes());
        }
        out.extend_from_slice(&[0; ENTRY_SIZE - at::PAD]);
        for key in self.kinds.iter().chain(&self.streams) {
            out.extend_from_slice(&key.to_le_bytes());
        }
    }

    /// The entry at the start of some bytes, and its length.
    fn decode(bytes: &[u8]) -> Option<(Self, usize)> {
        let head = bytes.get(..ENTRY_SIZE)?;
        let mut page = vec![0; FOOTER_SIZE];
        put(&mut page, 0, head.get(..FOOTER_FIELDS)?);
        put(&mut page, FOOTER_CRC, head.get(at::CRC..at::KINDS)?);
        let offset = u64_at(&page, at::DATA_END).checked_add(u64_at(&page, at::INDEX_LENGTH))?;
        let footer = Footer::decode(&page, offset).ok()?;
        let header = footer.header().ok()?;
        let count = |at| usize::try_from(u32_at(head, at)).ok();
        let (kinds, streams) = (count(at::KINDS)?, count(at::STREAMS)?);
        let length = kinds.checked_add(streams)?.checked_mul(KEY_SIZE)?.checked_add(ENTRY_SIZE)?;
        let keys = bytes.get(ENTRY_SIZE..length)?.chunks_exact(KEY_SIZE);
        let mut kinds_and_streams: Vec<u64> = keys.map(|key| u64_at(key, 0)).collect();
        let streams = kinds_and_streams.split_off(kinds);
        let kinds = kinds_and_streams;
        let is_sorted = |keys: &[u64]| keys.is_sorted_by(|one, next| one < next);
        let is_valid = is_sorted(&kinds)
            && is_sorted(&streams)
            && all_zero(head.get(at::PAD..)?)
            && (footer.stream_rule > 0 || streams.is_empty());
        is_valid.then_some((Self { footer, header, kinds, streams }, length))
    }
}

/// Whether index and footer of a sealed segment are those of its frames. No record depends on them.
pub(in crate::store) fn has_valid_index(segment: &VerifiedSegment) -> bool {
    let object = segment.object();
    object.form == SegmentForm::Part
        || SegmentKeys::of(object, segment.bytes())
            .is_some_and(|keys| keys.footer().data_end == segment.place().end)
}

/// The footer and the header of a sealed segment object of a length, from its last bytes, if they fit its name.
pub(in crate::store) fn sealed_footer(
    object: &SegmentObject,
    last_bytes: &[u8],
    length: u64,
) -> Option<(Footer, SegmentHeader)> {
    let page = last_bytes.get(last_bytes.len().checked_sub(FOOTER_SIZE)?..)?;
    let footer = Footer::decode(page, length.checked_sub(to_u64(FOOTER_SIZE))?).ok()?;
    let header = footer.header().ok()?;
    let is_own = object.form == SegmentForm::Sealed
        && (header.base_seq, footer.last_seq, header.ordinal)
            == (object.base_seq, object.last_seq, object.ordinal)
        && footer.file_length() == length;
    is_own.then_some((footer, header))
}

/// The segments of an index object, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::store) struct IndexObject(Vec<SegmentKeys>);

impl IndexObject {
    pub(in crate::store) fn into_segments(self) -> Vec<SegmentKeys> {
        self.0
    }

    /// The same with the segment after them.
    fn with(mut self, keys: SegmentKeys) -> Self {
        self.0.push(keys);
        self
    }

    fn range(&self) -> Option<IndexRange> {
        let (first, last) = (self.0.first()?, self.0.last()?);
        Some(IndexRange {
            base_seq: first.header.base_seq,
            last_seq: last.footer.last_seq,
            ordinal: last.header.ordinal,
        })
    }

    pub(in crate::store) fn encode(&self, identity: &LedgerIdentity) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_SIZE];
        put(&mut bytes, 0, &MAGIC);
        put(&mut bytes, at::MAJOR, &1_u16.to_le_bytes());
        put(&mut bytes, at::LEDGER, &identity.ledger);
        put(&mut bytes, at::GENESIS, &identity.genesis);
        let count = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        put(&mut bytes, at::COUNT, &count.to_le_bytes());
        self.0.iter().for_each(|keys| keys.encode(&mut bytes));
        let hash = content_hash(&bytes);
        bytes.extend_from_slice(&hash);
        bytes
    }

    /// The index object with these bytes; `None` if they are not a valid one of this name and ledger.
    pub(in crate::store) fn decode(
        bytes: &[u8],
        range: &IndexRange,
        identity: &LedgerIdentity,
    ) -> Option<Self> {
        let (content, hash) = bytes.split_last_chunk::<HASH_SIZE>()?;
        let head = content.get(..HEADER_SIZE)?;
        let is_own = array(head, 0) == Some(MAGIC)
            && *hash == content_hash(content)
            && u16_at(head, at::MAJOR) == 1
            && u32_at(head, at::INCOMPAT) == 0
            && array(head, at::LEDGER) == Some(identity.ledger)
            && array(head, at::GENESIS) == Some(identity.genesis)
            && all_zero(head.get(at::RESERVED..)?);
        let count = usize::try_from(u32_at(head, at::COUNT)).ok()?;
        if !is_own || count == 0 || count > ENTRIES_MAX {
            return None;
        }
        let (mut found, mut rest) = (Self::default(), content.get(HEADER_SIZE..)?);
        while found.0.len() < count {
            let (keys, length) = SegmentKeys::decode(rest)?;
            let last = found.0.last();
            let is_next = last.is_none_or(|last| {
                last.header.ordinal < keys.header.ordinal
                    && last.footer.last_seq < keys.header.base_seq
            });
            let ids = (keys.header.ledger, keys.header.genesis);
            if !is_next || ids != (identity.ledger, identity.genesis) {
                return None;
            }
            found.0.push(keys);
            rest = rest.get(length..)?;
        }
        (rest.is_empty() && found.range().as_ref() == Some(range)).then_some(found)
    }
}

/// The index objects of a listing.
pub(in crate::store) fn index_ranges(listing: &[ListedObject]) -> Vec<IndexRange> {
    let names = listing.iter().filter_map(|listed| ObjectName::parse(&listed.name));
    names
        .filter_map(|name| if let ObjectName::Index(range) = name { Some(range) } else { None })
        .collect()
}

/// The index objects of a listing to read: each is the longest that begins at or before the first segment that
/// those before it do not have.
pub(in crate::store) fn index_ranges_to_read(
    listing: &[ListedObject],
    objects: &[SegmentObject],
) -> Vec<IndexRange> {
    let (ranges, mut chosen) = (index_ranges(listing), Vec::<IndexRange>::new());
    for object in objects.iter().filter(|object| object.form == SegmentForm::Sealed) {
        if chosen.last().is_some_and(|range| range.last_seq >= object.last_seq) {
            continue;
        }
        let has = |range: &&IndexRange| {
            range.base_seq <= object.base_seq && range.last_seq >= object.last_seq
        };
        chosen.extend(ranges.iter().filter(has).max_by_key(|range| range.last_seq));
    }
    chosen
}

/// Create the index object that ends with the segment of an object that was just created. It
/// extends the newest index object, or begins with this segment.
///
/// # Errors
/// `Io` if the store does not answer; `Corrupt` if another object has the name.
pub(in crate::store) fn extend_index(
    session: &StoreSession<'_>,
    object: &SegmentObject,
    bytes: &[u8],
) -> Result<()> {
    let Some(keys) = SegmentKeys::of(object, bytes) else { return Ok(()) };
    let mut unclear = 0;
    let ranges = index_ranges(&session.list(SEGMENTS, &mut unclear)?);
    let newest = ranges.iter().filter(|range| range.last_seq < object.base_seq);
    let mut index = IndexObject::default();
    if let Some(range) =
        newest.max_by_key(|range| (range.last_seq, range.last_seq - range.base_seq))
    {
        let name = ObjectName::Index(*range).to_string();
        let found = session.get(&name, &mut unclear)?;
        let decoded =
            found.and_then(|found| IndexObject::decode(&found.bytes, range, &session.identity));
        index = decoded.filter(|index| index.0.len() < ENTRIES_MAX).unwrap_or_default();
    }
    let index = index.with(keys);
    let Some(range) = index.range() else { return Ok(()) };
    session.create_same(&ObjectName::Index(range).to_string(), &index.encode(&session.identity))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Chain, HeaderReplica, IndexBuilder, SEGMENT_HEADER_SIZE, index_crc};
    use crate::sim::SimStore;
    use crate::store::Objects as _;

    const IDENTITY: LedgerIdentity = LedgerIdentity { ledger: [1; 16], genesis: [2; 16] };

    /// A sealed segment with two records, of kinds 3 and 4 and of one stream; its frames are not real.
    fn segment(ordinal: u64, stream: u64) -> (SegmentObject, Vec<u8>) {
        let base_seq = 1 + 2 * ordinal;
        let header = SegmentHeader {
            ledger: IDENTITY.ledger,
            segment: [u8::try_from(ordinal % 251).unwrap() + 1; 16],
            ordinal,
            base_seq,
            prev_last_seq: base_seq - 1,
            genesis: IDENTITY.genesis,
            ..SegmentHeader::sample()
        };
        let mut index = IndexBuilder::default();
        index.push(base_seq, 4096, 3, Some(stream));
        index.push(base_seq + 1, 4224, 4, Some(stream));
        let data_end = 4352;
        let index = index.finish(data_end).unwrap();
        let footer = Footer {
            replica: HeaderReplica::of(&header.encode()).unwrap(),
            last_seq: base_seq + 1,
            data_end,
            index_length: to_u64(index.len()),
            index_crc: index_crc(header.segment, data_end, &index),
            stream_rule: 1,
            time_first: 1,
            time_last: 2,
            chain_last: Chain([9; 32]),
            data_hash: [8; 32],
        };
        let mut bytes = header.encode();
        assert_eq!(bytes.len(), SEGMENT_HEADER_SIZE);
        bytes.resize(4352, 0);
        bytes.extend(index);
        bytes.extend(footer.encode(&header));
        let form = SegmentForm::Sealed;
        (SegmentObject { base_seq, last_seq: base_seq + 1, ordinal, form }, bytes)
    }

    fn ranges(store: &SimStore) -> Vec<IndexRange> {
        index_ranges(&store.list(SEGMENTS).unwrap())
    }

    /// Goal: each segment is added to the newest index object, up to the limit; a listing leads to the longest ones.
    #[test]
    fn index_objects_grow_and_begin_again_at_the_limit() {
        let store = SimStore::new();
        let session = StoreSession { objects: &store, identity: IDENTITY, retry: &|_| false };
        let count = ENTRIES_MAX + 3;
        let mut objects = Vec::new();
        for ordinal in 0..to_u64(count) {
            let (object, bytes) = segment(ordinal, 7 + ordinal % 2);
            extend_index(&session, &object, &bytes).unwrap();
            // Once more, as after a crash.
            extend_index(&session, &object, &bytes).unwrap();
            objects.push(object);
        }
        assert_eq!(ranges(&store).len(), count);
        let chosen = index_ranges_to_read(&store.list(SEGMENTS).unwrap(), &objects);
        assert_eq!(chosen.len(), 2);
        let mut found = Vec::new();
        for range in chosen {
            let bytes = store.peek(&ObjectName::Index(range).to_string()).unwrap();
            found.extend(IndexObject::decode(&bytes, &range, &IDENTITY).unwrap().into_segments());
        }
        let ordinals: Vec<u64> = found.iter().map(|keys| keys.header().ordinal).collect();
        assert_eq!(ordinals, (0..to_u64(count)).collect::<Vec<_>>());
        let (first, second) = (&found[0], &found[1]);
        assert_eq!([3, 4, 5].map(|kind| first.has_kind(kind)), [true, true, false]);
        assert_eq!([7, 8].map(|stream| second.has_stream(stream, 1)), [Some(false), Some(true)]);
        assert_eq!(second.has_stream(8, 2), None);
    }

    /// Goal: an index object with any flipped bit, of another name, or of another ledger is not used, and the next
    /// segment begins a new one.
    #[test]
    fn damaged_index_object_is_not_used() {
        let store = SimStore::new();
        let session = StoreSession { objects: &store, identity: IDENTITY, retry: &|_| false };
        let (object, bytes) = segment(0, 7);
        extend_index(&session, &object, &bytes).unwrap();
        let range = ranges(&store)[0];
        let name = ObjectName::Index(range).to_string();
        let whole = store.peek(&name).unwrap();
        assert!(IndexObject::decode(&whole, &range, &IDENTITY).is_some());
        for bit in 0..whole.len() * 8 {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(IndexObject::decode(&damaged, &range, &IDENTITY), None, "bit {bit}");
        }
        assert_eq!(IndexObject::decode(&whole[..whole.len() - 1], &range, &IDENTITY), None);
        let other = IndexRange { last_seq: 3, ..range };
        assert_eq!(IndexObject::decode(&whole, &other, &IDENTITY), None);
        let foreign = LedgerIdentity { ledger: [7; 16], ..IDENTITY };
        assert_eq!(IndexObject::decode(&whole, &range, &foreign), None);
        store.tamper(&name, Some(whole[1..].to_vec()));
        let (object, bytes) = segment(1, 7);
        extend_index(&session, &object, &bytes).unwrap();
        assert!(ranges(&store).contains(&IndexRange { base_seq: 3, last_seq: 4, ordinal: 1 }));
        // A part has no footer.
        let part = SegmentObject { form: SegmentForm::Part, ..object };
        assert_eq!(SegmentKeys::of(&part, &bytes), None);
    }
}
