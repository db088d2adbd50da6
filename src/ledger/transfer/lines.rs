//! The lines of an export (`format/export.md`). This is the only module that uses `base64`.
//!
//! Invariants: a line is at most [`LINE_LENGTH_MAX`] bytes long, which limits the memory of a reader;
//! the members have a fixed order.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::format::{Chain, Codec};

/// The name of the format in the header.
pub(crate) const FORMAT: &str = "plan-ledger export";
/// The version of the format.
pub(crate) const VERSION: u32 = 1;
/// The longest line, including its end.
pub(crate) const LINE_LENGTH_MAX: u64 = 4 << 20;
/// The maximum number of bytes of a payload or a blob in one line.
pub(crate) const PIECE: usize = 1 << 20;
/// The maximum length of a decoded event; a longer or too deeply nested event is omitted.
const EVENT_LENGTH_MAX: usize = 1 << 20;
const EVENT_DEPTH_MAX: usize = 64;

/// A line. `E` is the decoded event, which is written and ignored when read.
#[derive(Debug, Serialize, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "snake_case",
    bound(deserialize = "E: Deserialize<'de> + Default")
)]
pub(crate) enum Line<E> {
    /// The first line.
    Header {
        format: String,
        version: u32,
        ledger: String,
        genesis: String,
        first_seq: u64,
        chain_before: String,
        /// Ordinal of the first segment of a pruned ledger; its anchors follow.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        first_ordinal: Option<u64>,
    },
    /// A snapshot of the state from which a pruned ledger starts.
    Anchor { seq: u64, time: u64, chain: String, state_hash: String, version: u32, length: u64 },
    Record {
        seq: u64,
        time: u64,
        kind: u16,
        codec: String,
        schema: u16,
        batch_left: u16,
        length: u64,
        payload: String,
        chain: String,
        #[serde(default)]
        event: E,
    },
    /// More bytes of the preceding anchor, record or blob.
    Data { data: String },
    /// A blob that a record references.
    Blob { hash: String, length: u64 },
    /// A referenced blob that is missing or damaged.
    BlobMissing { hash: String, length: u64 },
    /// The last line.
    End { records: u64, last_seq: u64, chain: String, blobs: u64, blobs_missing: u64 },
}

/// An event within the limits of a line.
pub(crate) fn event(event: Option<Value>) -> Value {
    let fits = |event: &Value| {
        is_flat(event, EVENT_DEPTH_MAX) && escaped(event.to_string()).len() <= EVENT_LENGTH_MAX
    };
    event.filter(fits).unwrap_or_default()
}

/// The same JSON text with escapes for characters that do not print as themselves, so that an
/// export can neither control a terminal nor hide content.
pub(crate) fn escaped(text: String) -> String {
    if text.chars().all(is_printable) {
        return text;
    }
    let mut out = String::with_capacity(text.len() + 64);
    let mut units = [0; 2];
    for c in text.chars() {
        if is_printable(c) {
            out.push(c);
        } else {
            out.extend(c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    out
}

/// Whether a character prints as itself: no control character (escape sequences begin with one), no
/// change of writing direction, no line break, nothing invisible.
#[must_use]
pub fn is_printable(c: char) -> bool {
    !(c.is_control()
        || matches!(c,
            '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'))
}

fn is_flat(value: &Value, depth: usize) -> bool {
    let Some(depth) = depth.checked_sub(1) else { return false };
    match value {
        Value::Array(items) => items.iter().all(|item| is_flat(item, depth)),
        Value::Object(members) => members.values().all(|item| is_flat(item, depth)),
        _ => true,
    }
}

pub(crate) fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

pub(crate) fn decode(text: &str) -> Result<Vec<u8>, String> {
    STANDARD.decode(text).map_err(|error| format!("base64: {error}"))
}

/// The bytes of exactly `2 * N` lower-case hexadecimal digits.
pub(crate) fn bytes<const N: usize>(text: &str) -> Result<[u8; N], String> {
    let is_hex = text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'));
    let wrong = || format!("expected {} lower-case hexadecimal digits, found {text:.80?}", 2 * N);
    if !is_hex || text.len() != 2 * N {
        return Err(wrong());
    }
    let mut bytes = [0; N];
    for (byte, place) in bytes.iter_mut().zip((0..).step_by(2)) {
        let digits = text.get(place..place + 2).ok_or_else(wrong)?;
        *byte = u8::from_str_radix(digits, 16).map_err(|_| wrong())?;
    }
    Ok(bytes)
}

pub(crate) fn chain(text: &str) -> Result<Chain, String> {
    bytes(text).map(Chain)
}

pub(crate) fn codec_word(codec: Codec) -> &'static str {
    match codec {
        Codec::Bincode => "bincode",
        Codec::Json => "json",
        Codec::Raw => "raw",
        Codec::Detached => "detached",
    }
}

pub(crate) fn codec(word: &str) -> Result<Codec, String> {
    match word {
        "bincode" => Ok(Codec::Bincode),
        "json" => Ok(Codec::Json),
        "raw" => Ok(Codec::Raw),
        "detached" => Ok(Codec::Detached),
        _ => Err(format!("codec: expected bincode, json or raw, found {word:.80?}")),
    }
}
