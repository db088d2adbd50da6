//! Encoding a record frame, in three stages, so that each runs where it costs least.
//!
//! 1. [`HashedRecord`] holds everything that depends on the payload alone. Making it reads every
//!    byte, and needs no lock.
//! 2. [`append_frame`] adds the values that depend on the position in the log: seq, time and chain.
//! 3. [`stamp_frame`] adds the values that are known only when the write starts: `inflight`, and so
//!    both CRCs.
//!
//! The log checks the limits of batches and payloads before the first stage.

use super::bytes::{put, u32_at};
use super::codec::{Codec, Detached, covered_part, erase_detached};
use super::frame::{
    CHAIN_SIZE, FLAG_NO_ZERO_RUN, FRAME_HEADER_SIZE, FRAME_MAGIC, NewRecord, PAYLOAD_LENGTH_MAX,
    RecordHeader, SECTOR, Stamp, at, frame_size, header_crc,
};
use super::hash::{Chain, ChainKey, CrcSeed, Placement, content_hash, content_hashes};

/// A record, and the parts of its frame that depend on the payload alone.
#[derive(Debug, Clone, Copy)]
pub struct HashedRecord<'a> {
    record: &'a NewRecord,
    payload_length: u32,
    payload_hash: [u8; 32],
    flags: u8,
}

impl<'a> HashedRecord<'a> {
    /// Hash a payload, which must not exceed [`PAYLOAD_LENGTH_MAX`].
    #[must_use]
    pub fn new(record: &'a NewRecord) -> Self {
        Self::with_hash(record, content_hash(covered_part(record.codec, &record.payload)))
    }

    /// Hash several payloads at once.
    #[must_use]
    pub fn new_all(records: &[&'a NewRecord]) -> Vec<Self> {
        if let [record] = records {
            return vec![Self::new(record)];
        }
        let covered = |record: &&'a NewRecord| covered_part(record.codec, &record.payload);
        let payloads: Vec<&[u8]> = records.iter().map(covered).collect();
        let hashes = content_hashes(&payloads);
        records.iter().zip(hashes).map(|(record, hash)| Self::with_hash(record, hash)).collect()
    }

    fn with_hash(record: &'a NewRecord, payload_hash: [u8; 32]) -> Self {
        let payload = &record.payload;
        let payload_length = u32::try_from(payload.len())
            .ok()
            .filter(|length| *length <= PAYLOAD_LENGTH_MAX)
            .expect("the log rejects longer payloads before it hashes them");
        let pad = frame_size(payload.len()) - FRAME_HEADER_SIZE - payload.len() - CHAIN_SIZE;
        Self { record, payload_length, payload_hash, flags: flags_of(payload, pad) }
    }

    /// Size of the frame on disk.
    #[must_use]
    pub fn frame_size(&self) -> usize {
        frame_size(self.record.payload.len())
    }
}

/// The flags of a frame with this payload, followed by `pad` zeros.
fn flags_of(payload: &[u8], pad: usize) -> u8 {
    let zeros_at_end = payload.iter().rev().take_while(|byte| **byte == 0).count() + pad;
    if zeros_at_end >= SECTOR || has_zero_run(payload) { 0 } else { FLAG_NO_ZERO_RUN }
}

/// Erase detached values in a complete, valid frame, and stamp it again; returns how many there were.
/// Its size, its chain value and its `inflight` stay.
pub fn erase_in_frame(
    frame: &mut [u8],
    seed: &CrcSeed,
    wanted: impl Fn(&Detached<'_>) -> bool,
) -> usize {
    let is_detached = frame.get(at::CODEC) == Some(&Codec::Detached.number());
    let length = usize::try_from(u32_at(frame, at::PAYLOAD_LENGTH)).unwrap_or(usize::MAX);
    let end = FRAME_HEADER_SIZE.saturating_add(length);
    let Some(payload) = frame.get_mut(FRAME_HEADER_SIZE..end).filter(|_| is_detached) else {
        return 0;
    };
    let count = erase_detached(payload, wanted);
    if count == 0 {
        return 0;
    }
    let pad = frame_size(length) - FRAME_HEADER_SIZE - length - CHAIN_SIZE;
    let flags = flags_of(payload, pad);
    let inflight = u32_at(frame, at::INFLIGHT);
    put(frame, at::FLAGS, &[flags]);
    stamp_frame(frame, inflight, seed);
    count
}

/// Append a record's frame to `out` and return its chain value. `inflight` and both CRCs stay zero:
/// the frame is invalid until [`stamp_frame`] fills them in.
pub fn append_frame(
    out: &mut Vec<u8>,
    hashed: &HashedRecord<'_>,
    stamp: Stamp,
    key: &ChainKey,
    previous: &Chain,
) -> Chain {
    let HashedRecord { record, payload_length, payload_hash, flags } = hashed;
    let header = RecordHeader {
        stamp,
        kind: record.kind,
        codec: record.codec,
        schema: record.schema,
        payload_length: *payload_length,
    };
    let chain = key.link(previous, &header.logical(), payload_hash);

    let start = out.len();
    out.resize(start + hashed.frame_size(), 0);
    let frame = out.get_mut(start..).expect("just resized");
    put(frame, at::MAGIC, &FRAME_MAGIC);
    put(frame, at::PAYLOAD_LENGTH, &payload_length.to_le_bytes());
    put(frame, at::SEQ, &stamp.seq.to_le_bytes());
    put(frame, at::TIME, &stamp.time.to_le_bytes());
    put(frame, at::ORDINAL, &stamp.ordinal.to_le_bytes());
    put(frame, at::KIND, &record.kind.to_le_bytes());
    put(frame, at::CODEC, &[record.codec.number(), *flags]);
    put(frame, at::BATCH_LEFT, &stamp.batch_left.to_le_bytes());
    put(frame, at::SCHEMA, &record.schema.to_le_bytes());
    put(frame, FRAME_HEADER_SIZE, &record.payload);
    let chain_at = frame.len() - CHAIN_SIZE;
    put(frame, chain_at, &chain.0);
    chain
}

/// Complete a frame from [`append_frame`] for the position where it is about to be written.
pub fn stamp_frame(frame: &mut [u8], inflight: u32, seed: &CrcSeed) {
    put(frame, at::INFLIGHT, &inflight.to_le_bytes());
    let body = frame.get(FRAME_HEADER_SIZE..).expect("a frame is longer than its header");
    let body_crc = seed.crc(body);
    put(frame, at::BODY_CRC, &body_crc.to_le_bytes());
    let header_crc = header_crc(seed, frame);
    put(frame, at::HEADER_CRC, &header_crc.to_le_bytes());
}

/// Append a complete frame to `out` and return its chain value: all three stages at once.
pub fn encode_frame(
    out: &mut Vec<u8>,
    record: &NewRecord,
    stamp: Stamp,
    placement: Placement,
    key: &ChainKey,
    previous: &Chain,
) -> Chain {
    let start = out.len();
    let chain = append_frame(out, &HashedRecord::new(record), stamp, key, previous);
    stamp_frame(out.get_mut(start..).expect("just appended"), stamp.inflight, &placement.seed());
    chain
}

/// Whether the bytes contain a run of at least 512 zeros. Such a run covers at least one of every
/// 512th byte, so only the neighbourhoods of those that are zero need a closer look.
fn has_zero_run(bytes: &[u8]) -> bool {
    let is_zero = |byte: &&u8| **byte == 0;
    (SECTOR - 1..bytes.len()).step_by(SECTOR).any(|middle| {
        let (before, after) = bytes.split_at(middle);
        let after = after.iter().take_while(is_zero).take(SECTOR).count();
        after > 0 && after + before.iter().rev().take_while(is_zero).count() >= SECTOR
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Codec;
    use crate::format::bytes::in_miri;

    /// Goal: a run of 512 zeros is found at every offset, and a shorter run is not.
    #[test]
    fn zero_runs_are_found_at_every_offset() {
        for start in (0..1100).step_by(in_miri(13)) {
            let mut bytes = vec![1; 2000];
            bytes[start..start + SECTOR - 1].fill(0);
            assert!(!has_zero_run(&bytes), "511 zeros at {start}");
            bytes[start + SECTOR - 1] = 0;
            assert!(has_zero_run(&bytes), "512 zeros at {start}");
        }
    }

    /// Goal: the flag `NO_ZERO_SECTOR` covers payload and pad together, although it is computed from the payload.
    #[test]
    fn no_zero_run_flag_includes_the_pad() {
        let key = ChainKey::new(&[9; 16]);
        let stamp = Stamp { seq: 1, time: 2, ordinal: 3, inflight: 1, batch_left: 0 };
        for length in (500..1200).step_by(in_miri(61)) {
            for zeros in [0, 400, 449, 450, 460, 480, 500, 511, 512, 513].map(|n| n.min(length)) {
                let mut payload = vec![1; length];
                payload[length - zeros..].fill(0);
                let record = NewRecord { kind: 1, codec: Codec::Raw, schema: 1, payload };
                let mut frame = Vec::new();
                append_frame(&mut frame, &HashedRecord::new(&record), stamp, &key, &Chain::GENESIS);
                let padded = &frame[FRAME_HEADER_SIZE..frame.len() - CHAIN_SIZE];
                let is_set = frame[at::FLAGS] & FLAG_NO_ZERO_RUN != 0;
                assert_eq!(is_set, !has_zero_run(padded), "{zeros} zeros at the end of {length}");
            }
        }
    }
}
