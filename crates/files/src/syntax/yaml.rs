//! Strict YAML 1.2, parsed by its library into a tree.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_saphyr::options::DuplicateKeyPolicy;
use serde_saphyr::{
    DefaultMessageFormatter, Error as YamlError, Location, MessageFormatter, Options, Spanned,
};

use super::messages::plain_message;
use super::tree::{Field, Kind, Node, Place, Plain, name_twice};
use crate::diagnostic::{ReadError, ReadResult, plan_error};

/// The nesting limit. JSON readers stop at 128, and a plan is stored as JSON.
const DEPTH_MAX: usize = 64;

/// The limit on parser events. An event takes at least one byte, so the file size is the real
/// bound.
const EVENTS_MAX: usize = 64 * 1024 * 1024;

/// How many events aliases may repeat.
const ALIAS_EVENTS_MAX: usize = 100_000;

/// The stack of the thread that parses a text. A deeply nested text needs more than the caller's thread may have.
const STACK_BYTES: usize = 32 * 1024 * 1024;

/// The tree of a YAML text.
pub(crate) fn yaml_tree(text: &str) -> ReadResult<Node> {
    std::thread::scope(|scope| {
        let reader = std::thread::Builder::new().stack_size(STACK_BYTES);
        let reader = reader.spawn_scoped(scope, || parse(text)).ok();
        let read = reader.and_then(|reader| reader.join().ok());
        let failed = || plan_error("the system cannot start a thread to read YAML").into();
        read.unwrap_or_else(|| Err(failed()))
    })
}

fn parse(text: &str) -> ReadResult<Node> {
    match serde_saphyr::from_str_with_options::<Spanned<Raw>>(text, options()) {
        Ok(raw) => node(raw, text),
        Err(error) => Err(match error.without_snippet() {
            YamlError::DuplicateMappingKey { key: Some(key), location } => {
                name_twice(key, place(*location), first_place(text, key, *location))
            }
            error => yaml_error(error),
        }),
    }
}

/// The first place of a name that an object has twice.
fn first_place(text: &str, name: &str, second: Location) -> Option<Place> {
    let mut options = options();
    options.duplicate_keys = DuplicateKeyPolicy::FirstWins;
    let raw = serde_saphyr::from_str_with_options::<Spanned<Raw>>(text, options).ok()?;
    let (mut found, mut rest) = (Vec::new(), vec![&raw]);
    while let Some(raw) = rest.pop() {
        match &raw.value {
            Raw::Text(_) | Raw::Plain(_) => {}
            Raw::List(items) => rest.extend(items),
            Raw::Map(fields) => {
                found.extend(fields.iter().map(|(key, _)| key).filter(|key| key.value == name));
                rest.extend(fields.iter().map(|(_, value)| value));
            }
        }
    }
    let places = found.iter().map(|key| place(key.referenced));
    let before = |each: &Place| (each.line, each.column) < (second.line(), second.column());
    // The last one before it in the same column; in brackets, the last one.
    places
        .filter(before)
        .max_by_key(|each| (each.column == second.column(), each.line, each.column))
}

fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: EVENTS_MAX,
            max_nodes: EVENTS_MAX,
            max_depth: DEPTH_MAX,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: ALIAS_EVENTS_MAX,
        },
        // YAML 1.2: only `true` and `false` are booleans; `no` and `on` stay text.
        strict_booleans: true,
        emit_comments: false,
        with_snippet: false,
    }
}

fn place(location: Location) -> Place {
    Place { line: location.line(), column: location.column() }
}

/// A value as the library gives it.
enum Raw {
    Text(String),
    Plain(Value),
    List(Vec<Spanned<Raw>>),
    Map(Vec<(Spanned<String>, Spanned<Raw>)>),
}

fn node(raw: Spanned<Raw>, text: &str) -> ReadResult<Node> {
    let Spanned { value, referenced, defined } = raw;
    let kind = match value {
        Raw::Text(text) => Kind::Text(text),
        Raw::List(items) => {
            Kind::List(items.into_iter().map(|item| node(item, text)).collect::<ReadResult<_>>()?)
        }
        Raw::Map(fields) => {
            let field = |(name, value): (Spanned<String>, Spanned<Raw>)| {
                let place = place(name.referenced);
                Ok(Field { name: name.value, place, value: node(value, text)? })
            };
            let fields = fields.into_iter().map(field).collect::<ReadResult<_>>()?;
            return Node::map(place(referenced), fields);
        }
        Raw::Plain(value) => {
            let source = source(defined, text).unwrap_or_default().to_owned();
            Kind::Plain(Plain { value, source, may_be_text: true })
        }
    };
    Ok(Node { place: place(referenced), kind })
}

/// The text of a scalar in the file.
fn source(at: Location, text: &str) -> Option<&str> {
    let start = usize::try_from(at.span().byte_offset()?).ok()?;
    let length = usize::try_from(at.span().byte_len()?).ok()?;
    text.get(start..start.checked_add(length)?).map(str::trim)
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, is_set: bool) -> Result<Raw, E> {
        Ok(Raw::Plain(is_set.into()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Raw, E> {
        Ok(Raw::Plain(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Raw, E> {
        Ok(Raw::Plain(number.into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Raw, E> {
        Ok(Raw::Plain(number.into()))
    }

    fn visit_str<E>(self, text: &str) -> Result<Raw, E> {
        Ok(Raw::Text(text.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw::Plain(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Raw, E> {
        Ok(Raw::Plain(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Raw, D::Error> {
        Raw::deserialize(deserializer)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<Raw, D::Error> {
        IgnoredAny::deserialize(inner).map(|_| Raw::Plain(Value::Null))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Raw, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Raw::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Raw, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Raw::Map(fields))
    }
}

fn yaml_error(error: &YamlError) -> ReadError {
    let message = error.render_with_formatter(&PlainMessages);
    let Some(place) = error.location() else {
        return plan_error(message).into();
    };
    let (line, column) = (place.line(), place.column());
    let suffix = format!(" at line {line}, column {column}");
    ReadError::at(line, column, &message.replacen(&suffix, "", 1))
}

/// Replaces the messages of the YAML library by messages for the author of a plan.
struct PlainMessages;

impl MessageFormatter for PlainMessages {
    fn format_message<'a>(&self, error: &'a YamlError) -> Cow<'a, str> {
        match error {
            YamlError::Eof { .. } => "the file ends where a value is expected".into(),
            YamlError::NullIntoString { .. } => "the value is empty, expected text".into(),
            YamlError::MultipleDocuments { .. } => {
                "the file has more than one YAML document, expected one plan; split the file".into()
            }
            YamlError::NonFiniteFloat { .. } => {
                "the number is not finite or too large; write it as text".into()
            }
            YamlError::DuplicateMappingKey { key: None, .. } => {
                "a field occurs twice; remove one".into()
            }
            YamlError::UnsupportedTag { .. }
            | YamlError::TaggedScalarCannotDeserializeIntoString { .. }
            | YamlError::InvalidBinaryBase64 { .. }
            | YamlError::BinaryNotUtf8 { .. }
            | YamlError::BytesNotSupportedMissingBinaryTag { .. } => {
                "YAML tags (`!name`) are not read; remove the tag".into()
            }
            YamlError::MergeValueNotMapOrSeqOfMaps { .. } => {
                "`<<` takes an object or a list of objects".into()
            }
            YamlError::MergeKeyNotAllowed { .. } => {
                "`<<` is not read; write the fields themselves".into()
            }
            YamlError::UnknownAnchor { .. } => {
                "the alias has no anchor; define it with `&`, or write the name in quotes".into()
            }
            YamlError::Budget { .. }
            | YamlError::AliasReplayCounterOverflow { .. }
            | YamlError::AliasReplayLimitExceeded { .. }
            | YamlError::AliasExpansionLimitExceeded { .. }
            | YamlError::AliasReplayStackDepthExceeded { .. } => format!(
                "the file is nested too deeply, or its aliases repeat too much: at most \
                 {DEPTH_MAX} levels and {ALIAS_EVENTS_MAX} repeated values"
            )
            .into(),
            _ => plain_message(&DefaultMessageFormatter.format_message(error)).into(),
        }
    }
}
