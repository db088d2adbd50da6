//! Primitives of the compact format: variable-length numbers, byte strings and lists of strings.

use serde::{Serialize, Serializer};

/// A list of strings in a compact step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Texts<'a>(&'a [u8]);

impl<'a> Texts<'a> {
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The string at an index.
    #[must_use]
    pub fn get(&self, place: usize) -> Option<&'a str> {
        self.clone().nth(place)
    }

    /// Whether the list has no strings.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the list contains a string.
    #[must_use]
    pub fn contains(&self, text: &str) -> bool {
        self.clone().any(|each| each == text)
    }

    /// Copies the list.
    #[must_use]
    pub fn owned(self) -> Vec<String> {
        self.map(str::to_owned).collect()
    }
}

impl<'a> Iterator for Texts<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let (bytes, rest) = take_bytes(self.0)?;
        self.0 = rest;
        Some(text(bytes))
    }
}

/// A list of texts.
impl Serialize for Texts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.clone())
    }
}

/// Decodes a string; only valid UTF-8 is ever encoded.
pub(crate) fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}

pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_length(out, bytes.len());
    out.extend_from_slice(bytes);
}

pub(crate) fn put_length(out: &mut Vec<u8>, length: usize) {
    put_number(out, length.try_into().unwrap_or(u64::MAX));
}

pub(crate) fn take_bytes(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = take_number(bytes)?;
    rest.split_at_checked(length.try_into().ok()?)
}

/// LEB128: seven bits per byte, low bits first; the high bit marks continuation.
pub(crate) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    loop {
        let low = u8::try_from(number & 0x7F).expect("masked to 7 bits");
        number >>= 7;
        if number == 0 {
            return out.push(low);
        }
        out.push(low | 0x80);
    }
}

/// Encoded size of a length.
pub(crate) fn length_size(length: usize) -> usize {
    number_size(length.try_into().unwrap_or(u64::MAX))
}

/// Encoded size of a number.
pub(crate) fn number_size(number: u64) -> usize {
    std::iter::successors(Some(number), |rest| Some(rest >> 7).filter(|rest| *rest > 0)).count()
}

pub(crate) fn take_number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (mut number, mut rest) = (0, bytes);
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first()?;
        (number, rest) = (number | u64::from(byte & 0x7F) << shift, after);
        if byte & 0x80 == 0 {
            return Some((number, rest));
        }
    }
    None
}
