//! The fields of a frame as byte ranges, for `inspect`.
//!
//! Nothing is validated. Invariant: the fields cover every byte exactly once, whatever the bytes are;
//! an impossible payload length is limited to the bytes that exist.

use super::bytes::{u16_at, u32_at, u64_at};
use super::frame::{CHAIN_SIZE, FRAME_HEADER_SIZE, at, peek_payload_length};

/// A field of a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameField {
    /// Its name in `format/log.md`.
    pub name: &'static str,
    /// Offset of its first byte in the frame.
    pub start: usize,
    /// Offset past its last byte.
    pub end: usize,
    /// Its value, if it is a number.
    pub number: Option<u64>,
}

/// The type of a header field.
#[derive(Debug, Clone, Copy)]
enum Width {
    Bytes,
    One,
    Two,
    Four,
    Eight,
}

/// The header fields in order; each ends where the next one starts.
const HEADER: [(&str, usize, Width); 13] = [
    ("magic", at::MAGIC, Width::Bytes),
    ("payload_length", at::PAYLOAD_LENGTH, Width::Four),
    ("seq", at::SEQ, Width::Eight),
    ("time", at::TIME, Width::Eight),
    ("ordinal", at::ORDINAL, Width::Four),
    ("inflight", at::INFLIGHT, Width::Four),
    ("kind", at::KIND, Width::Two),
    ("codec", at::CODEC, Width::One),
    ("flags", at::FLAGS, Width::One),
    ("batch_left", at::BATCH_LEFT, Width::Two),
    ("schema", at::SCHEMA, Width::Two),
    ("body_crc", at::BODY_CRC, Width::Four),
    ("header_crc", at::HEADER_CRC, Width::Four),
];

/// Split the bytes of one frame into fields.
#[must_use]
pub fn frame_fields(bytes: &[u8]) -> Vec<FrameField> {
    let Some(head) = bytes.get(..FRAME_HEADER_SIZE) else {
        return field("bytes", 0, bytes.len()).into_iter().collect();
    };
    let ends = HEADER.iter().skip(1).map(|(_, start, _)| *start).chain([FRAME_HEADER_SIZE]);
    let header = HEADER.iter().zip(ends).map(|((name, start, width), end)| {
        let number = match width {
            Width::Bytes => None,
            Width::One => head.get(*start).map(|byte| u64::from(*byte)),
            Width::Two => Some(u64::from(u16_at(head, *start))),
            Width::Four => Some(u64::from(u32_at(head, *start))),
            Width::Eight => Some(u64_at(head, *start)),
        };
        FrameField { name, start: *start, end, number }
    });
    let chain = bytes.len().saturating_sub(CHAIN_SIZE).max(FRAME_HEADER_SIZE);
    let claimed = peek_payload_length(bytes).unwrap_or(0);
    let payload = FRAME_HEADER_SIZE.saturating_add(claimed).min(chain);
    let body = [
        field("payload", FRAME_HEADER_SIZE, payload),
        field("pad", payload, chain),
        field("chain", chain, bytes.len()),
    ];
    header.chain(body.into_iter().flatten()).collect()
}

fn field(name: &'static str, start: usize, end: usize) -> Option<FrameField> {
    (start < end).then_some(FrameField { name, start, end, number: None })
}

#[cfg(test)]
mod tests {
    //! Goal: every byte belongs to exactly one field, in valid frames and in any other bytes.

    use super::*;
    use crate::format::bytes::in_miri;
    use crate::format::{Chain, ChainKey, Codec, NewRecord, Placement, Stamp, encode_frame};

    fn assert_covers(bytes: &[u8]) {
        let mut at = 0;
        for field in frame_fields(bytes) {
            assert_eq!(field.start, at, "{field:?}");
            at = field.end;
        }
        assert_eq!(at, bytes.len());
    }

    #[test]
    fn every_byte_belongs_to_one_field() {
        let payload = b"some payload".to_vec();
        let record = NewRecord { kind: 7, codec: Codec::Raw, schema: 3, payload };
        let stamp = Stamp { seq: 9, time: 11, ordinal: 2, inflight: 1, batch_left: 4 };
        let placement = Placement { segment: [5; 16], offset: 4096 };
        let key = ChainKey::new(&[6; 16]);
        let mut frame = Vec::new();
        let chain = encode_frame(&mut frame, &record, stamp, placement, &key, &Chain::GENESIS);
        assert_covers(&frame);
        let fields = frame_fields(&frame);
        let number = |name| fields.iter().find(|field| field.name == name).unwrap().number;
        assert_eq!(
            ["payload_length", "seq", "time", "ordinal", "inflight", "kind"].map(number),
            [12, 9, 11, 2, 1, 7].map(Some)
        );
        assert_eq!(["schema", "batch_left"].map(number), [3, 4].map(Some));
        let last = fields.last().unwrap();
        assert_eq!((last.name, &frame[last.start..last.end]), ("chain", &chain.0[..]));
    }

    #[test]
    fn any_bytes_are_covered() {
        for length in (0..300).step_by(in_miri(7)) {
            assert_covers(&vec![0; length]);
            assert_covers(&vec![0xFF; length]);
            let mut long = vec![0xFF; length];
            for (to, from) in long.iter_mut().zip(b"PLF1\x70\0\0\0") {
                *to = *from;
            }
            assert_covers(&long);
        }
    }
}
