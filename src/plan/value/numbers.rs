//! Finds whole numbers in JSON text that a parser would round.
//!
//! Identifiers and amounts can have more digits than a double holds. A whole number keeps its
//! digits if it fits into 64 bits, or if a double represents it exactly as written; all others are
//! found here.

use std::borrow::Cow;
use std::ops::Range;

use super::canonical::canonical;

/// The first whole number of a JSON text that would lose digits.
#[must_use]
#[doc(hidden)]
pub fn find_long_number(text: &str) -> Option<&str> {
    let place = next_long(text, 0)?;
    text.get(place)
}

/// The JSON text with such numbers turned into strings.
#[doc(hidden)]
#[must_use]
pub fn quote_long_numbers(text: &str) -> Cow<'_, str> {
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

/// The next such number outside of strings, from an offset on.
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
    fn numbers_that_would_be_rounded_are_found() {
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
            assert_eq!((find_long_number(kept), quote_long_numbers(kept)), (None, kept.into()));
        }
        let text = r#"[18446744073709551616, "a\\", {"b": -9223372036854775809}, 7]"#;
        assert_eq!(find_long_number(text), Some("18446744073709551616"));
        let quoted = r#"["18446744073709551616", "a\\", {"b": "-9223372036854775809"}, 7]"#;
        assert_eq!(quote_long_numbers(text), quoted);
    }
}
