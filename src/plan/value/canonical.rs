//! Canonical JSON (RFC 8785) of a value, written in one pass: members are sorted by the UTF-16 code
//! units of their names, and nothing is written that the standard leaves open.
//!
//! The text grows in one buffer. At the end of an object its members are moved only if they are not
//! in order yet, so a list of a million texts costs one copy of its bytes. Numbers that are not small
//! and whole are left to `serde_json_canonicalizer`, the reference that the tests compare with.

use std::cmp::Ordering;
use std::io;
use std::io::Write as _;
use std::ops::Range;

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::{CharEscape, CompactFormatter, Formatter};

/// The largest integer below which all integers are exact as a double, and so have their own
/// digits.
const EXACT_MAX: u64 = 1 << 53;

/// The canonical text of a value that serializes to JSON with string keys.
#[must_use]
pub fn canonical<T: Serialize>(value: &T) -> String {
    let mut buffer = Buffer::default();
    let mut serializer = Serializer::with_formatter(io::sink(), Canonical(&mut buffer));
    // Only a map with keys that are not strings, or with a duplicate key, can fail. Neither a
    // `serde_json::Value` nor a type of a plan has such a map.
    let is_written = value.serialize(&mut serializer).is_ok();
    String::from_utf8(buffer.text).ok().filter(|_| is_written).unwrap_or_else(|| "null".to_owned())
}

/// The length of a value's JSON in bytes, without making it: that of its canonical text, unless it has
/// numbers that are not small and whole.
pub(crate) fn json_length<T: Serialize>(value: &T) -> usize {
    let mut length = Length(0);
    // It fails only for values that have no canonical text either.
    let _ = serde_json::to_writer(&mut length, value);
    length.0
}

/// Counts the bytes that are written to it.
struct Length(usize);

impl io::Write for Length {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.saturating_add(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The text so far, and the members of the objects that are not closed.
#[derive(Default)]
struct Buffer {
    text: Vec<u8>,
    /// Members of all open objects, the innermost last.
    members: Vec<Member>,
    /// For each open object, where its first member is in `members`.
    objects: Vec<usize>,
    /// Reused by objects whose members are moved.
    scratch: Vec<u8>,
}

/// A member of an object in the text.
struct Member {
    /// Its name, with quotes.
    name: Range<usize>,
    /// End of the value.
    end: usize,
    /// The first bytes of the name as a number that is ordered like the names, if the name is ASCII
    /// without escapes.
    beginning: Option<u64>,
}

/// Writes to the buffer instead of the writer, because finished objects are changed.
struct Canonical<'a>(&'a mut Buffer);

impl Buffer {
    fn name(&self, member: &Member) -> &[u8] {
        self.text.get(member.name.clone()).unwrap_or_default()
    }

    /// The order of two members. The beginnings decide nearly always.
    fn compare(&self, one: &Member, other: &Member) -> Ordering {
        match (one.beginning, other.beginning) {
            (Some(first), Some(second)) if first != second => first.cmp(&second),
            _ => compare_names(self.name(one), self.name(other)),
        }
    }

    /// Sorts the members of the innermost object, which begin at `first`. Fails for a name that
    /// occurs twice.
    fn close_object(&mut self, first: usize) -> io::Result<()> {
        let members = self.members.get(first..).unwrap_or_default();
        let is_sorted =
            members.is_sorted_by(|one, other| self.compare(one, other) == Ordering::Less);
        if !is_sorted {
            self.sort_object(first)?;
        }
        self.members.truncate(first);
        Ok(())
    }

    fn sort_object(&mut self, first: usize) -> io::Result<()> {
        let mut members = self.members.split_off(first);
        let begin = members.first().map_or(self.text.len(), |member| member.name.start);
        members.sort_by(|one, other| self.compare(one, other));
        let is_twice = |pair: &[Member]| match pair {
            [one, other] => self.compare(one, other) == Ordering::Equal,
            _ => false,
        };
        if members.windows(2).any(is_twice) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a name occurs twice"));
        }
        let mut sorted = std::mem::take(&mut self.scratch);
        sorted.clear();
        for member in &members {
            if !sorted.is_empty() {
                sorted.push(b',');
            }
            sorted.extend_from_slice(
                self.text.get(member.name.start..member.end).unwrap_or_default(),
            );
        }
        self.text.truncate(begin);
        self.text.extend_from_slice(&sorted);
        self.scratch = sorted;
        Ok(())
    }
}

/// The first bytes of a quoted name as a number, if the name is ASCII without escapes.
fn beginning(name: &[u8]) -> Option<u64> {
    let inner = name.get(1..name.len().saturating_sub(1))?;
    if !inner.is_ascii() || inner.contains(&b'\\') {
        return None;
    }
    let mut bytes = [0; 8];
    bytes.iter_mut().zip(inner).for_each(|(to, from)| *to = *from);
    Some(u64::from_le_bytes(bytes).swap_bytes())
}

/// The order of two quoted names: by the UTF-16 code units of the names that they encode.
fn compare_names(one: &[u8], other: &[u8]) -> Ordering {
    if beginning(one).is_some() && beginning(other).is_some() {
        // Without the closing quotes, which are not part of the names.
        let inner = |name: &[u8]| name.len().saturating_sub(1);
        return one.get(..inner(one)).cmp(&other.get(..inner(other)));
    }
    let decoded = |name: &[u8]| serde_json::from_slice::<String>(name).unwrap_or_default();
    decoded(one).encode_utf16().cmp(decoded(other).encode_utf16())
}

impl Canonical<'_> {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.text.write_all(bytes)
    }

    fn unsigned(&mut self, number: u64) -> io::Result<()> {
        if number <= EXACT_MAX {
            return CompactFormatter.write_u64(&mut self.0.text, number);
        }
        self.double(&number)
    }

    fn signed(&mut self, number: i64) -> io::Result<()> {
        if number.unsigned_abs() <= EXACT_MAX {
            return CompactFormatter.write_i64(&mut self.0.text, number);
        }
        self.double(&number)
    }

    fn double<N: Serialize>(&mut self, number: &N) -> io::Result<()> {
        let text = serde_json_canonicalizer::to_vec(number).map_err(io::Error::from)?;
        self.put(&text)
    }
}

impl Formatter for Canonical<'_> {
    fn write_null<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.put(b"null")
    }

    fn write_bool<W: ?Sized + io::Write>(&mut self, _: &mut W, value: bool) -> io::Result<()> {
        self.put(if value { b"true" } else { b"false" })
    }

    fn write_i8<W: ?Sized + io::Write>(&mut self, _: &mut W, value: i8) -> io::Result<()> {
        self.signed(value.into())
    }

    fn write_i16<W: ?Sized + io::Write>(&mut self, _: &mut W, value: i16) -> io::Result<()> {
        self.signed(value.into())
    }

    fn write_i32<W: ?Sized + io::Write>(&mut self, _: &mut W, value: i32) -> io::Result<()> {
        self.signed(value.into())
    }

    fn write_i64<W: ?Sized + io::Write>(&mut self, _: &mut W, value: i64) -> io::Result<()> {
        self.signed(value)
    }

    fn write_i128<W: ?Sized + io::Write>(&mut self, _: &mut W, value: i128) -> io::Result<()> {
        self.double(&value)
    }

    fn write_u8<W: ?Sized + io::Write>(&mut self, _: &mut W, value: u8) -> io::Result<()> {
        self.unsigned(value.into())
    }

    fn write_u16<W: ?Sized + io::Write>(&mut self, _: &mut W, value: u16) -> io::Result<()> {
        self.unsigned(value.into())
    }

    fn write_u32<W: ?Sized + io::Write>(&mut self, _: &mut W, value: u32) -> io::Result<()> {
        self.unsigned(value.into())
    }

    fn write_u64<W: ?Sized + io::Write>(&mut self, _: &mut W, value: u64) -> io::Result<()> {
        self.unsigned(value)
    }

    fn write_u128<W: ?Sized + io::Write>(&mut self, _: &mut W, value: u128) -> io::Result<()> {
        self.double(&value)
    }

    fn write_f32<W: ?Sized + io::Write>(&mut self, _: &mut W, value: f32) -> io::Result<()> {
        self.double(&value)
    }

    fn write_f64<W: ?Sized + io::Write>(&mut self, _: &mut W, value: f64) -> io::Result<()> {
        self.double(&value)
    }

    fn begin_string<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.put(b"\"")
    }

    fn end_string<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.put(b"\"")
    }

    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        _: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        self.put(fragment.as_bytes())
    }

    fn write_char_escape<W: ?Sized + io::Write>(
        &mut self,
        _: &mut W,
        escape: CharEscape,
    ) -> io::Result<()> {
        match escape {
            CharEscape::Solidus => self.put(b"/"),
            other => CompactFormatter.write_char_escape(&mut self.0.text, other),
        }
    }

    fn begin_array<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.put(b"[")
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.put(b"]")
    }

    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        _: &mut W,
        first: bool,
    ) -> io::Result<()> {
        if first { Ok(()) } else { self.put(b",") }
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.0.objects.push(self.0.members.len());
        self.put(b"{")
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        let first = self.0.objects.pop().unwrap_or_default();
        self.0.close_object(first)?;
        self.put(b"}")
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        _: &mut W,
        first: bool,
    ) -> io::Result<()> {
        if !first {
            self.put(b",")?;
        }
        let at = self.0.text.len();
        self.0.members.push(Member { name: at..at, end: at, beginning: None });
        Ok(())
    }

    fn end_object_key<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        let at = self.0.text.len();
        if let Some(member) = self.0.members.last_mut() {
            member.name.end = at;
            let name = self.0.text.get(member.name.clone()).unwrap_or_default();
            member.beginning = beginning(name);
        }
        Ok(())
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.put(b":")
    }

    fn end_object_value<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        let at = self.0.text.len();
        if let Some(member) = self.0.members.last_mut() {
            member.end = at;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn length_is_that_of_the_canonical_text() {
        let value = json!({"b": ["\u{e9}\n\\", {}, null, true], "a": {"c": -7, "\"": [1, 0]}});
        assert_eq!(json_length(&value), canonical(&value).len());
    }

    fn expected<T: Serialize>(value: &T) -> String {
        serde_json_canonicalizer::to_string(value).unwrap()
    }

    /// Names and texts with everything that is escaped, or sorted differently in UTF-8 and UTF-16.
    fn text() -> impl Strategy<Value = String> {
        prop_oneof![
            "[a-c]{0,3}",
            "[\u{0}-\u{7f}]{0,4}",
            "[\\\\\"/\u{e9}\u{ffff}\u{e000}\u{1f600}\u{10ffff}]{0,3}",
        ]
    }

    fn number() -> impl Strategy<Value = Value> {
        prop_oneof![
            any::<u64>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (0..64_u32).prop_map(|shift| Value::from(1_u64 << shift)),
            (0..63_u32).prop_map(|shift| Value::from(-1_i64 << shift)),
            any::<f64>().prop_map(Value::from),
            (-400..400_i32).prop_map(|power| Value::from(10_f64.powi(power))),
        ]
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            number(),
            text().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 64, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::vec((text(), inner), 0..6)
                    .prop_map(|members| { Value::Object(members.into_iter().collect()) }),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn any_value_has_the_text_of_the_reference(value in value()) {
            prop_assert_eq!(canonical(&value), expected(&value));
        }
    }

    #[test]
    fn numbers_of_every_width_have_the_text_of_the_reference() {
        let exact = (EXACT_MAX - 1, EXACT_MAX, EXACT_MAX + 1, u64::MAX, i64::MIN, i64::MAX);
        assert_eq!(canonical(&exact), expected(&exact));
        let narrow = (u8::MAX, i8::MIN, u16::MAX, i16::MIN, u32::MAX, i32::MIN);
        assert_eq!(canonical(&narrow), expected(&narrow));
        let wide = (u128::from(u64::MAX) * 3, i128::from(i64::MIN) * 3, 0.1_f32, -0.0_f64);
        assert_eq!(canonical(&wide), expected(&wide));
    }

    #[test]
    fn members_are_sorted_inside_lists_and_objects() {
        let value = json!({"b": [{"d": 1, "c": {"z": [], "a": {}}}], "a": {}});
        assert_eq!(canonical(&value), r#"{"a":{},"b":[{"c":{"a":{},"z":[]},"d":1}]}"#);
    }

    /// A shorter name comes first, although a quote follows it in the text.
    #[test]
    fn a_name_comes_before_the_names_that_it_begins() {
        let names = BTreeMap::from([("a", 1), ("a!", 2), ("a ", 3), ("aa", 4), ("", 5)]);
        assert_eq!(canonical(&names), r#"{"":5,"a":1,"a ":3,"a!":2,"aa":4}"#);
    }

    #[test]
    fn a_name_that_occurs_twice_has_no_text() {
        struct Twice;
        impl Serialize for Twice {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_map([("a", 1), ("b", 2), ("a", 3)])
            }
        }
        assert!(serde_json_canonicalizer::to_string(&Twice).is_err());
        assert_eq!(canonical(&Twice), "null");
    }
}
