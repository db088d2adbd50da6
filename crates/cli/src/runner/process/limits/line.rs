//! The part of a line that is compared: times, durations and identifiers differ each time that the
//! same line is printed.
//!
//! A *word* is a run of ASCII letters, digits and `-`, `:`, `.`, `,`, `_`. All words that begin with a date or a time
//! of day, or that are a duration (`2.3s`, `120ms`) or a UUID, count as equal. In an event of an agent, a line that
//! begins with `{"type":`, so do all words with a digit: numbers of tokens, and identifiers of messages.
//! Other numbers count: a counter is progress.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// The begin of an event of an agent that prints JSON.
const EVENT: &[u8] = b"{\"type\":";

/// The units of durations.
const UNITS: [&[u8]; 5] = [b"s", b"ms", b"us", b"ns", b"min"];

/// The shape of a UUID.
const UUID: &[u8] = b"########-####-####-####-############";

/// A hash of the part of a line that counts; `None` for a blank line.
pub(super) fn line_hash(line: &[u8]) -> Option<u64> {
    let line = line.trim_ascii();
    if line.is_empty() {
        return None;
    }
    let is_event = line.starts_with(EVENT);
    let mut hasher = DefaultHasher::new();
    let mut rest = line;
    while let Some(first) = rest.first() {
        let length = rest.iter().take_while(|byte| is_of_word(**byte)).count();
        let (word, after) = rest.split_at(length.max(1));
        if is_of_word(*first) && is_ignored(word, is_event) {
            0_u8.hash(&mut hasher);
        } else {
            hasher.write(word);
        }
        rest = after;
    }
    Some(hasher.finish())
}

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-:.,_".contains(&byte)
}

fn is_ignored(word: &[u8], is_event: bool) -> bool {
    if !word.iter().any(u8::is_ascii_digit) {
        return false;
    }
    let begins = |shape: &[u8]| has_shape(word, shape);
    is_event
        || begins(b"0000-00-00")
        || begins(b"00:00:00")
        || begins(b"0:00:00")
        || (word.len() == UUID.len() && begins(UUID))
        || is_duration(word)
}

/// Whether a word begins with a shape: in the shape, `0` is any digit and `#` any hexadecimal
/// digit.
fn has_shape(word: &[u8], shape: &[u8]) -> bool {
    let fits = |(byte, of): (&u8, &u8)| match of {
        b'0' => byte.is_ascii_digit(),
        b'#' => byte.is_ascii_hexdigit(),
        other => byte == other,
    };
    word.len() >= shape.len() && word.iter().zip(shape).all(fits)
}

fn is_duration(word: &[u8]) -> bool {
    let word = word.strip_suffix(b",").or_else(|| word.strip_suffix(b".")).unwrap_or(word);
    let digits = word.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
    let (number, unit) = word.split_at(digits);
    number.first().is_some_and(u8::is_ascii_digit) && UNITS.contains(&unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn are_equal(one: &str, other: &str) -> bool {
        line_hash(one.as_bytes()) == line_hash(other.as_bytes())
    }

    #[test]
    fn times_durations_and_identifiers_do_not_count() {
        for (one, other) in [
            ("2026-11-29 09:28:24,123 ERROR no route", "2026-11-30 10:01:00,001 ERROR no route"),
            ("[9:28:24] again", "[19:05:00.5] again"),
            ("2026-11-29T09:28:24.5Z again", "2026-11-29T09:29:24.75Z again"),
            ("failed in 2.31s, 3 passed", "failed in 12s, 3 passed"),
            ("took 120ms.", "took 7ms."),
            (
                "session 5f1b1d3e-8c1e-4d57-9c5b-1f0a4f6f2e11",
                "session 00000000-8c1e-4d57-9c5b-1f0a4f6f2e11",
            ),
            (
                r#"{"type":"item.completed","item":{"id":"item_7","command":"make"},"tokens":1200}"#,
                r#"{"type":"item.completed","item":{"id":"item_9","command":"make"},"tokens":1311}"#,
            ),
        ] {
            assert!(are_equal(one, other), "{one} / {other}");
        }
        assert_eq!(line_hash(b"  \r"), None);
    }

    #[test]
    fn counters_and_words_count() {
        for (one, other) in [
            ("row 1 of 300", "row 2 of 300"),
            ("copied 1000001", "copied 1000002"),
            ("test case_0001 ... ok", "test case_0002 ... ok"),
            (r#"{"row": 1}"#, r#"{"row": 2}"#),
            ("12:30 to go", "12:29 to go"),
            (
                r#"{"type":"item.completed","item":{"command":"make"}}"#,
                r#"{"type":"item.completed","item":{"command":"ls"}}"#,
            ),
        ] {
            assert!(!are_equal(one, other), "{one} / {other}");
        }
    }
}
