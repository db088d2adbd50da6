//! An independent reader of frames, written from `format/log.md` alone and as simple as possible: no CRC
//! table, no views into the bytes, one rule after the other. The library must agree with it.
//!
//! It ignores the NZ flag and the range of `inflight`, which the library does not check either.

/// A record, as both readers report it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlowRecord {
    /// Sequence number.
    pub seq: u64,
    /// Microseconds.
    pub time: u64,
    pub kind: u16,
    /// The number of later records of the batch.
    pub batch_left: u16,
    pub payload: Vec<u8>,
    /// Chain value.
    pub chain: [u8; 32],
}

/// The reason why there is no further record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlowEnd {
    /// Zeros instead of a frame.
    Zeros,
    /// An invalid frame.
    NotHeld,
    /// A valid frame that breaks a rule.
    Broken,
}

/// The parameters of a segment.
#[derive(Debug, Clone, Copy)]
pub struct SlowStart {
    /// Uid of the segment.
    pub segment: [u8; 16],
    /// Ordinal of the segment.
    pub ordinal: u64,
    /// The uid from which the chain key derives.
    pub genesis: [u8; 16],
    /// Sequence number of the first record.
    pub seq: u64,
    /// Chain value before the first record.
    pub chain: [u8; 32],
}

/// The IEEE CRC-32, one bit at a time.
#[must_use]
pub fn crc(start: u32, bytes: &[u8]) -> u32 {
    let mut crc = !start;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 };
        }
    }
    !crc
}

/// The initial CRC of a frame at an offset.
#[must_use]
pub fn seed(segment: [u8; 16], offset: u64) -> u32 {
    crc(crc(0, &segment), &offset.to_le_bytes())
}

fn number(bytes: &[u8], at: usize, size: usize) -> u64 {
    (0..size).rev().fold(0, |number, place| number << 8 | u64::from(bytes[at + place]))
}

#[must_use]
pub fn frame_length(payload: usize) -> usize {
    let mut length = 48 + payload + 32;
    while length % 64 != 0 {
        length += 1;
    }
    length
}

/// The records at the start of `bytes`, which are at offset 4096, and why there is no further one.
#[must_use]
pub fn read(bytes: &[u8], start: SlowStart) -> (Vec<SlowRecord>, usize, SlowEnd) {
    let key = blake3::derive_key("plan-ledger v1 record", &start.genesis);
    let (mut records, mut at) = (Vec::new(), 0);
    let (mut seq, mut chain) = (start.seq, start.chain);
    loop {
        match frame(&bytes[at..], 4096 + at as u64, (seq, chain), &start, &key) {
            Ok(record) => {
                at += frame_length(record.payload.len());
                (seq, chain) = (seq + 1, record.chain);
                records.push(record);
            }
            Err(end) => return (records, at, end),
        }
    }
}

fn frame(
    bytes: &[u8],
    offset: u64,
    (seq, chain): (u64, [u8; 32]),
    start: &SlowStart,
    key: &[u8; 32],
) -> Result<SlowRecord, SlowEnd> {
    if bytes.len() < 48 {
        return Err(SlowEnd::NotHeld);
    }
    if &bytes[..4] != b"PLF1" {
        // The bytes end inside the frame: the header alone decides.
        let line = bytes.get(..64).unwrap_or(&bytes[..48]);
        let is_zero = line.iter().all(|byte| *byte == 0);
        return Err(if is_zero { SlowEnd::Zeros } else { SlowEnd::NotHeld });
    }
    let seed = seed(start.segment, offset);
    if number(bytes, 44, 4) != u64::from(crc(seed, &bytes[..44])) {
        return Err(SlowEnd::NotHeld);
    }
    let length = usize::try_from(number(bytes, 4, 4)).expect("32 bits");
    if length > 16_777_216 {
        return Err(SlowEnd::Broken);
    }
    let end = frame_length(length);
    if bytes.len() < end || number(bytes, 40, 4) != u64::from(crc(seed, &bytes[48..end])) {
        return Err(SlowEnd::NotHeld);
    }
    // The frame is valid: now check every rule.
    let (payload, stored) = (bytes[48..48 + length].to_vec(), &bytes[end - 32..end]);
    let is_padded = bytes[48 + length..end - 32].iter().all(|byte| *byte == 0);
    let (codec, flags) = (bytes[34], bytes[35]);
    let is_here = number(bytes, 24, 4) == start.ordinal & 0xFFFF_FFFF;
    if !is_padded || !(1..=4).contains(&codec) || flags > 1 || !is_here {
        return Err(SlowEnd::Broken);
    }
    let mut hashed = chain.to_vec();
    for (field, size) in [(4, 4), (8, 8), (16, 8), (32, 2), (34, 1), (36, 2), (38, 2)] {
        hashed.extend_from_slice(&bytes[field..field + size]);
    }
    let Some(covered) = covered(codec, &payload) else { return Err(SlowEnd::Broken) };
    hashed.extend_from_slice(blake3::hash(covered).as_bytes());
    let link = *blake3::keyed_hash(key, &hashed).as_bytes();
    if number(bytes, 8, 8) != seq || link != stored {
        return Err(SlowEnd::Broken);
    }
    let (kind, left) = (number(bytes, 32, 2), number(bytes, 36, 2));
    Ok(SlowRecord {
        seq,
        time: number(bytes, 16, 8),
        kind: u16::try_from(kind).expect("16 bits"),
        batch_left: u16::try_from(left).expect("16 bits"),
        payload,
        chain: link,
    })
}

/// The part of a payload that the chain covers; `None` if it is not as its codec says.
fn covered(codec: u8, payload: &[u8]) -> Option<&[u8]> {
    if codec != 4 {
        return Some(payload);
    }
    let end = payload.len().checked_sub(4)?;
    let values_at = end.checked_sub(length(payload, end)?)?;
    let count_at = values_at.checked_sub(4)?;
    let count = length(payload, count_at)?;
    let digests_at = count_at.checked_sub(count.checked_mul(32)?)?;
    let mut at = values_at;
    for index in 0..count {
        let digest = &payload[digests_at + 32 * index..][..32];
        let begin = at.checked_add(20).filter(|begin| *begin <= end)?;
        let next = begin.checked_add(length(payload, at)?).filter(|next| *next <= end)?;
        let (salt, bytes) = (&payload[at + 4..begin], &payload[begin..next]);
        let is_zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
        let is_valid = if is_zero(salt) {
            is_zero(bytes)
        } else {
            blake3::hash(&[salt, bytes].concat()).as_bytes() == digest
        };
        if !is_valid {
            return None;
        }
        at = next;
    }
    (at == end).then(|| &payload[..values_at])
}

fn length(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(number(bytes, at, 4)).ok()
}

/// A payload of codec 4 with one value for each part: erased if its salt is zero.
#[must_use]
pub fn detached(mut body: Vec<u8>, values: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let mut tail = Vec::new();
    for (salt, bytes) in values {
        let salt = [*salt; 16];
        body.extend_from_slice(blake3::hash(&[&salt, bytes.as_slice()].concat()).as_bytes());
        tail.extend_from_slice(&u32::try_from(bytes.len()).expect("short").to_le_bytes());
        tail.extend_from_slice(&salt);
        tail.extend(bytes.iter().map(|byte| if salt == [0; 16] { 0 } else { *byte }));
    }
    body.extend_from_slice(&u32::try_from(values.len()).expect("few").to_le_bytes());
    let size = u32::try_from(tail.len()).expect("short").to_le_bytes();
    body.extend_from_slice(&tail);
    body.extend_from_slice(&size);
    body
}
