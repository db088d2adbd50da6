//! Whole numbers in values, digit by digit: identifiers and amounts are often longer than a double
//! holds.
//!
//! Invariant: what fits into 64 bits keeps its digits, and so does what a double holds as it is
//! written. All other whole numbers are found here before a reader of JSON rounds them.

use std::borrow::Cow;
use std::ops::Range;

use super::json::canonical;

/// Where the first whole number of a JSON text stands that no value can hold with all its digits.
#[must_use]
#[doc(hidden)]
pub fn long_number(text: &str) -> Option<&str> {
    let place = next_long(text, 0)?;
    text.get(place)
}

/// A JSON text in which such numbers are texts of their digits.
#[doc(hidden)]
pub fn with_long_as_text(text: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let mut from = 0;
    while let Some(place) = next_long(text, from) {
        out.push_str(text.get(from..place.start).unwrap_or_default());
        out.push('"');
        out.push_str(text.get(place.clone()).unwrap_or_default());
        out.push('"');
        from = place.end;
    }
    if from == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(text.get(from..).unwrap_or_default());
    Cow::Owned(out)
}

/// The next such number from there on, which is in no string.
fn next_long(text: &str, from: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let mut at = from;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => at = end_of_string(bytes, at + 1),
            b'-' | b'0'..=b'9' => {
                let is_part =
                    |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
                let rest = bytes.get(at..).unwrap_or_default();
                let end = at + rest.iter().take_while(|byte| is_part(byte)).count();
                if text.get(at..end).is_some_and(is_long) {
                    return Some(at..end);
                }
                at = end;
            }
            _ => at += 1,
        }
    }
    None
}

fn end_of_string(bytes: &[u8], mut at: usize) -> usize {
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    at
}

fn is_long(number: &str) -> bool {
    let digits = number.strip_prefix('-').unwrap_or(number);
    digits.bytes().all(|byte| byte.is_ascii_digit())
        && number.parse::<i64>().is_err()
        && number.parse::<u64>().is_err()
        && number.parse::<f64>().is_ok_and(|double| canonical(&double) != number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_would_be_rounded_are_found_wherever_they_stand() {
        for kept in [
            "1",
            "-0",
            "18446744073709551615",
            "-9223372036854775808",
            "100000000000000000000",
            "12345678901234567890.5",
            "1e30",
            r#"{"99999999999999999999": "\"99999999999999999999\\"}"#,
        ] {
            assert_eq!((long_number(kept), with_long_as_text(kept)), (None, kept.into()));
        }
        let text = r#"[18446744073709551616, "a\\", {"b": -9223372036854775809}, 7]"#;
        assert_eq!(long_number(text), Some("18446744073709551616"));
        let quoted = r#"["18446744073709551616", "a\\", {"b": "-9223372036854775809"}, 7]"#;
        assert_eq!(with_long_as_text(text), quoted);
    }
}
