//! Links of the chain, computed for many frames side by side before each is looked at.
//!
//! A link is the hash of the chain value before it, and that stands in the frame before: so the
//! links of frames that lie at hand do not wait for each other.
//!
//! Invariants: what is computed here proves nothing by itself. It is the link that a frame at an
//! offset must have if the chain value before it is the one given and its bytes are those that
//! were looked at; whoever takes it checks the frame, and looks again when bytes were read anew.
//!
//! Left out on purpose: checksums. Bytes that are no frame give a link that nobody takes.

use super::frame::CHAIN_SIZE;
use super::hash::{Linked, content_hashes};
use super::lanes::INPUT_MAX;
use super::{Chain, ChainKey, FRAME_HEADER_SIZE, RecordHeader, frame_size, peek_payload_length};

/// So many frames are looked at ahead at first, and twice as many whenever all were used: whoever
/// wants one record of many pays for few.
const AHEAD_FIRST: usize = 8;
/// No more than so many.
const AHEAD: usize = 64;

/// The links that the next frames must have: what stands at a place of each list is of one frame.
#[derive(Debug)]
pub struct LinksAhead {
    offsets: Vec<u64>,
    /// What each link is the hash of.
    linked: Vec<Linked>,
    chains: Vec<Chain>,
    /// The place of the nearest.
    next: usize,
    /// How many frames are looked at next.
    reach: usize,
}

impl Default for LinksAhead {
    fn default() -> Self {
        let (offsets, linked, chains) = (Vec::new(), Vec::new(), Vec::new());
        Self { offsets, linked, chains, next: 0, reach: AHEAD_FIRST }
    }
}

impl LinksAhead {
    /// The link that the frame at `offset` must have behind the chain value `previous`, if it was
    /// looked at.
    #[inline]
    pub fn take(&mut self, offset: u64, previous: &Chain) -> Option<Chain> {
        while let Some(at) = self.offsets.get(self.next).filter(|at| **at <= offset) {
            let (is_here, place) = (*at == offset, self.next);
            self.next += 1;
            if is_here && self.linked.get(place).is_some_and(|linked| linked.is_behind(previous)) {
                return self.chains.get(place).copied();
            }
        }
        None
    }

    /// Forget all: bytes may have changed.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// Whether nothing is known any more.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.next >= self.offsets.len()
    }

    /// Look at the frames in `bytes`, which start at `offset` behind the chain value `previous`.
    pub fn look(&mut self, bytes: &[u8], mut offset: u64, previous: &Chain, key: &ChainKey) {
        let Self { offsets, linked, chains, next, reach } = self;
        offsets.clear();
        linked.clear();
        *next = 0;
        let (mut previous, mut rest) = (*previous, bytes);
        let mut payloads = Vec::with_capacity(*reach);
        while payloads.len() < *reach
            && let Some((head, payload, chain, size)) = peek(rest)
        {
            payloads.push(payload);
            offsets.push(offset);
            linked.push(Linked::new(&previous, &head.logical(), &[0; 32]));
            previous = chain;
            rest = rest.get(size..).unwrap_or_default();
            offset = offset.saturating_add(u64::try_from(size).unwrap_or(u64::MAX));
        }
        for (linked, hash) in linked.iter_mut().zip(content_hashes(&payloads)) {
            linked.put_payload_hash(&hash);
        }
        *chains = key.links(linked);
        *reach = AHEAD.min(2 * *reach);
    }
}

/// What seems to be a whole frame at the start of the bytes: its header, its payload, the chain
/// value that it ends in, and its size. None for a long one, which is hashed by itself: it takes
/// long, and perhaps nobody reads so far.
fn peek(bytes: &[u8]) -> Option<(RecordHeader, &[u8], Chain, usize)> {
    let length = peek_payload_length(bytes).filter(|length| *length <= INPUT_MAX)?;
    let size = frame_size(length);
    let frame = bytes.get(..size)?;
    let header = RecordHeader::read(frame.first_chunk()?)?;
    let payload = frame.get(FRAME_HEADER_SIZE..FRAME_HEADER_SIZE + length)?;
    let chain = frame.last_chunk::<CHAIN_SIZE>()?;
    Some((header, payload, Chain(*chain), size))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Codec, NewRecord, Placement, Stamp, encode_frame};

    const START: u64 = 4096;

    /// Frames one behind the other, and the chain value that each ends in.
    fn frames(
        key: &ChainKey,
        lengths: impl Iterator<Item = usize>,
    ) -> (Vec<u8>, Vec<(u64, Chain)>) {
        let (mut bytes, mut ends, mut chain) = (Vec::new(), Vec::new(), Chain([7; 32]));
        for (number, length) in (1..).zip(lengths) {
            let offset = START + u64::try_from(bytes.len()).unwrap();
            let payload = (0..length).map(|n| u8::try_from(n % 253).unwrap()).collect();
            let record = NewRecord { kind: 9, codec: Codec::Raw, schema: 1, payload };
            let stamp = Stamp { seq: number, time: 5, ordinal: 1, inflight: 0, batch_left: 0 };
            let placement = Placement { segment: [3; 16], offset };
            chain = encode_frame(&mut bytes, &record, stamp, placement, key, &chain);
            ends.push((offset, chain));
        }
        (bytes, ends)
    }

    /// Goal: looked at ahead, each frame has the link that it was written with, few and many, and
    /// one that is cut off has none.
    #[test]
    fn what_is_looked_at_ahead_is_what_was_written() {
        let key = ChainKey::new(&[9; 16]);
        for count in [1, 7, AHEAD - 1, AHEAD] {
            let (bytes, ends) = frames(&key, (0..count).map(|n| n * n * 131 % (INPUT_MAX + 1)));
            let mut ahead = LinksAhead { reach: AHEAD, ..LinksAhead::default() };
            ahead.look(&bytes[..bytes.len() - 1], START, &Chain([7; 32]), &key);
            let mut previous = Chain([7; 32]);
            let (cut_off, whole) = ends.split_last().unwrap();
            for (offset, chain) in whole {
                assert_eq!(ahead.take(*offset, &previous), Some(*chain));
                previous = *chain;
            }
            assert!(ahead.is_empty() && ahead.take(cut_off.0, &previous).is_none());
        }
    }

    /// Goal: a long frame ends what is looked at.
    #[test]
    fn a_long_frame_is_left_to_who_reads_it() {
        let key = ChainKey::new(&[9; 16]);
        let (bytes, ends) = frames(&key, [8, INPUT_MAX, INPUT_MAX + 1, 8].into_iter());
        let mut ahead = LinksAhead::default();
        ahead.look(&bytes, START, &Chain([7; 32]), &key);
        assert_eq!(ahead.take(ends[0].0, &Chain([7; 32])), Some(ends[0].1));
        assert_eq!(ahead.take(ends[1].0, &ends[0].1), Some(ends[1].1));
        assert!(ahead.is_empty());
    }

    /// Goal: what was looked at counts for nothing at another place or behind another value; what
    /// was passed over does not stand in the way of what comes.
    #[test]
    fn another_place_or_another_value_before_it_is_not_what_was_looked_at() {
        let key = ChainKey::new(&[9; 16]);
        let (bytes, ends) = frames(&key, [40; 20].into_iter());
        let look = || {
            let mut ahead = LinksAhead::default();
            ahead.look(&bytes, START, &Chain([7; 32]), &key);
            ahead
        };
        assert_eq!(look().take(START, &Chain([8; 32])), None);
        assert_eq!(look().take(ends[1].0, &Chain([7; 32])), None);
        assert_eq!(look().take(ends[1].0 + 1, &ends[0].1), None);
        let mut ahead = look();
        assert_eq!(ahead.take(ends[1].0, &Chain([7; 32])), None);
        assert_eq!(ahead.take(ends[4].0, &ends[3].1), Some(ends[4].1));
        assert_eq!(ahead.take(START, &Chain([7; 32])), None, "behind where it was");
        ahead.forget();
        assert_eq!(ahead.take(ends[5].0, &ends[4].1), None);
    }

    /// Goal: few are looked at first, more when all were used, and few again behind a jump.
    #[test]
    fn whoever_goes_on_looks_further_ahead() {
        let key = ChainKey::new(&[9; 16]);
        let (bytes, ends) = frames(&key, [40; 200].into_iter());
        let (mut ahead, mut at, mut looks) = (LinksAhead::default(), 0, Vec::new());
        while looks.len() < 5 {
            let (offset, before) = (ends[at + 1].0, ends[at].1);
            let from = usize::try_from(offset - START).unwrap();
            ahead.look(&bytes[from..], offset, &before, &key);
            looks.push(ahead.offsets.len());
            while ahead.take(ends[at + 1].0, &ends[at].1).is_some() {
                at += 1;
            }
        }
        assert_eq!(looks, [8, 16, 32, 64, 64]);
        ahead.forget();
        ahead.look(&bytes, START, &Chain([7; 32]), &key);
        assert_eq!(ahead.offsets.len(), 8);
    }
}
