//! Computes the chain values of upcoming frames side by side, before the reader validates them.
//!
//! A chain value hashes the previous chain value, which the previous frame stores. So the chain
//! values of buffered frames can be computed independently of each other, with SIMD.
//!
//! Invariant: a computed value proves nothing by itself. It is the chain value that the frame at an
//! offset must have, given the previous chain value and the buffered bytes. The reader still
//! validates the frame, and clears the lookahead when it reads bytes again. Bytes that are not a
//! frame give a value that no valid frame matches.

use super::blake3_simd::INPUT_MAX;
use super::codec::covered_part;
use super::frame::{CHAIN_SIZE, FRAME_HEADER_SIZE, RecordHeader, frame_size, peek_payload_length};
use super::hash::{Chain, ChainInput, ChainKey, content_hashes};

/// The number of frames of the first lookahead. It doubles whenever all values were used, so that
/// reading a single record costs little.
const WINDOW_MIN: usize = 8;
const WINDOW_MAX: usize = 64;

/// The expected chain values of the next frames. The vectors are parallel: one entry for each frame.
#[derive(Debug)]
pub struct ChainLookahead {
    offsets: Vec<u64>,
    inputs: Vec<ChainInput>,
    chains: Vec<Chain>,
    /// Index of the next frame.
    next: usize,
    /// The number of frames of the next lookahead.
    window: usize,
}

impl Default for ChainLookahead {
    fn default() -> Self {
        let (offsets, inputs, chains) = (Vec::new(), Vec::new(), Vec::new());
        Self { offsets, inputs, chains, next: 0, window: WINDOW_MIN }
    }
}

impl ChainLookahead {
    /// The chain value that the frame at `offset` must have after the chain value `previous`, if it
    /// was computed.
    #[inline]
    pub fn take(&mut self, offset: u64, previous: &Chain) -> Option<Chain> {
        while let Some(at) = self.offsets.get(self.next).filter(|at| **at <= offset) {
            let (is_here, index) = (*at == offset, self.next);
            self.next += 1;
            if is_here && self.inputs.get(index).is_some_and(|input| input.continues(previous)) {
                return self.chains.get(index).copied();
            }
        }
        None
    }

    /// Discard all values: the bytes may have changed.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether no computed value is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.next >= self.offsets.len()
    }

    /// Compute the chain values of the frames in `bytes`, which start at `offset` after the chain value
    /// `previous`.
    pub fn fill(&mut self, bytes: &[u8], mut offset: u64, previous: &Chain, key: &ChainKey) {
        let Self { offsets, inputs, chains, next, window } = self;
        offsets.clear();
        inputs.clear();
        *next = 0;
        let (mut previous, mut rest) = (*previous, bytes);
        let mut payloads = Vec::with_capacity(*window);
        while payloads.len() < *window
            && let Some((head, payload, chain, size)) = peek(rest)
        {
            payloads.push(payload);
            offsets.push(offset);
            inputs.push(ChainInput::new(&previous, &head.logical(), &[0; 32]));
            previous = chain;
            rest = rest.get(size..).unwrap_or_default();
            offset = offset.saturating_add(u64::try_from(size).unwrap_or(u64::MAX));
        }
        for (input, hash) in inputs.iter_mut().zip(content_hashes(&payloads)) {
            input.set_payload_hash(&hash);
        }
        *chains = key.link_all(inputs);
        *window = WINDOW_MAX.min(2 * *window);
    }
}

/// The header, covered part of the payload, chain value and size of an unvalidated frame at the start of the bytes.
/// `None` for a long frame, which is hashed only when it is read.
fn peek(bytes: &[u8]) -> Option<(RecordHeader, &[u8], Chain, usize)> {
    let length = peek_payload_length(bytes).filter(|length| *length <= INPUT_MAX)?;
    let size = frame_size(length);
    let frame = bytes.get(..size)?;
    let header = RecordHeader::read(frame.first_chunk()?)?;
    let payload = frame.get(FRAME_HEADER_SIZE..FRAME_HEADER_SIZE + length)?;
    let chain = frame.last_chunk::<CHAIN_SIZE>()?;
    Some((header, covered_part(header.codec, payload), Chain(*chain), size))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Codec, NewRecord, Placement, Stamp, encode_frame};

    const START: u64 = 4096;

    /// Consecutive frames, and the offset and chain value of each.
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

    /// Goal: the lookahead computes the chain value that each frame was written with, for few frames
    /// and many; a truncated frame has none.
    #[test]
    fn lookahead_computes_the_written_chain_values() {
        let key = ChainKey::new(&[9; 16]);
        // Short frames in Miri.
        let length_max = if cfg!(miri) { 100 } else { INPUT_MAX };
        for count in [1, 7, WINDOW_MAX - 1, WINDOW_MAX] {
            let (bytes, ends) = frames(&key, (0..count).map(|n| n * n * 131 % (length_max + 1)));
            let mut ahead = ChainLookahead { window: WINDOW_MAX, ..ChainLookahead::default() };
            ahead.fill(&bytes[..bytes.len() - 1], START, &Chain([7; 32]), &key);
            let mut previous = Chain([7; 32]);
            let (truncated, whole) = ends.split_last().unwrap();
            for (offset, chain) in whole {
                assert_eq!(ahead.take(*offset, &previous), Some(*chain));
                previous = *chain;
            }
            assert!(ahead.is_empty() && ahead.take(truncated.0, &previous).is_none());
        }
    }

    /// Goal: a long frame ends the lookahead.
    #[test]
    fn lookahead_stops_at_a_long_frame() {
        let key = ChainKey::new(&[9; 16]);
        let (bytes, ends) = frames(&key, [8, INPUT_MAX, INPUT_MAX + 1, 8].into_iter());
        let mut ahead = ChainLookahead::default();
        ahead.fill(&bytes, START, &Chain([7; 32]), &key);
        assert_eq!(ahead.take(ends[0].0, &Chain([7; 32])), Some(ends[0].1));
        assert_eq!(ahead.take(ends[1].0, &ends[0].1), Some(ends[1].1));
        assert!(ahead.is_empty());
    }

    /// Goal: a value does not apply at another offset or after another chain value, and frames that the
    /// reader skipped do not block later ones.
    #[test]
    fn lookahead_applies_to_one_offset_and_previous_chain() {
        let key = ChainKey::new(&[9; 16]);
        let (bytes, ends) = frames(&key, [40; 20].into_iter());
        let filled = || {
            let mut ahead = ChainLookahead::default();
            ahead.fill(&bytes, START, &Chain([7; 32]), &key);
            ahead
        };
        assert_eq!(filled().take(START, &Chain([8; 32])), None);
        assert_eq!(filled().take(ends[1].0, &Chain([7; 32])), None);
        assert_eq!(filled().take(ends[1].0 + 1, &ends[0].1), None);
        let mut ahead = filled();
        assert_eq!(ahead.take(ends[1].0, &Chain([7; 32])), None);
        assert_eq!(ahead.take(ends[4].0, &ends[3].1), Some(ends[4].1));
        assert_eq!(ahead.take(START, &Chain([7; 32])), None, "before the current offset");
        ahead.clear();
        assert_eq!(ahead.take(ends[5].0, &ends[4].1), None);
    }

    /// Goal: the window starts small, doubles when all values were used, and starts again after a jump.
    #[test]
    fn lookahead_window_grows_with_sequential_reads() {
        let key = ChainKey::new(&[9; 16]);
        let (bytes, ends) = frames(&key, [40; 200].into_iter());
        let (mut ahead, mut at, mut windows) = (ChainLookahead::default(), 0, Vec::new());
        while windows.len() < 5 {
            let (offset, before) = (ends[at + 1].0, ends[at].1);
            let from = usize::try_from(offset - START).unwrap();
            ahead.fill(&bytes[from..], offset, &before, &key);
            windows.push(ahead.offsets.len());
            while ahead.take(ends[at + 1].0, &ends[at].1).is_some() {
                at += 1;
            }
        }
        assert_eq!(windows, [8, 16, 32, 64, 64]);
        ahead.clear();
        ahead.fill(&bytes, START, &Chain([7; 32]), &key);
        assert_eq!(ahead.offsets.len(), 8);
    }
}
