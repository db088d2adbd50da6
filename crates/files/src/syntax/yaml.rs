//! Strict YAML 1.2. Text that looks like a number stays as it was written.

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde_saphyr::{DefaultMessageFormatter, Error as YamlError, MessageFormatter, Options};

use super::messages::{
    FORM_EXPECTED, did_you_mean, example_of, form_of, meant_field, number_range, plain_message,
    unknown_value, with_form, without_list,
};
use crate::diagnostic::{ReadError, ReadResult, plan_error};

/// The nesting limit. JSON readers stop at 128, and a plan is stored as JSON.
const DEPTH_MAX: usize = 64;

/// The limit on parser events. An event takes at least one byte, so the file size is the real
/// bound.
const EVENTS_MAX: usize = 64 * 1024 * 1024;

/// How many events aliases may repeat.
const ALIAS_EVENTS_MAX: usize = 100_000;

/// The message about a value that must have fields.
const FIELDS_EXPECTED: &str = "expected fields, as in `title: Text`";

/// Parses a value of a known type.
pub(crate) fn parse_yaml<T: DeserializeOwned>(text: &str) -> ReadResult<T> {
    serde_saphyr::from_str_with_options(text, options())
        .map_err(|error| with_example(yaml_error(&error), text))
}

/// The error about a value that must have fields, with an example for its field.
fn with_example(error: ReadError, text: &str) -> ReadError {
    let ReadError::Syntax { line: Some(line), column: Some(column), error: inner } = &error else {
        return error;
    };
    let (row, length) = (line.saturating_sub(1), column.saturating_sub(1));
    if inner.message().ends_with(FORM_EXPECTED) {
        let field = field_with_form(text, row, length);
        return match field {
            Some(field) => ReadError::at(*line, *column, &with_form(FORM_EXPECTED, field)),
            None => error,
        };
    }
    if !inner.message().ends_with(FIELDS_EXPECTED) {
        return error;
    }
    let row = usize::try_from(row).ok().and_then(|row| text.lines().nth(row)).unwrap_or_default();
    let before: String = row.chars().take(usize::try_from(length).unwrap_or(0)).collect();
    // The first item of a list in brackets is a value of the field, too; a name may be in quotes.
    let before = before.trim_end().trim_end_matches('[').trim_end().trim_end_matches(':');
    let before = before.trim_end_matches(['"', '\'']);
    let field = before.rsplit(|c: char| !c.is_alphanumeric() && c != '_').next();
    if let Some(example) = field.and_then(example_of) {
        return ReadError::at(*line, *column, &format!("expected an object, such as {example}"));
    }
    let outer = field.and_then(|word| field_of_choice(text, *line, before.strip_suffix(word)?));
    match outer {
        Some(outer) => ReadError::at(*line, *column, &with_form(FORM_EXPECTED, outer)),
        None => error,
    }
}

/// The field that takes one of several words or objects, if the object that begins with a word is its value.
/// `before` is the text of the line before that word.
fn field_of_choice<'a>(text: &'a str, line: u64, before: &'a str) -> Option<&'a str> {
    let indent = before.len();
    let field = match before.trim_end().strip_suffix('{') {
        Some(before) => before.trim_end().strip_suffix(':')?,
        None if before.trim().is_empty() => {
            let above: Vec<&str> = text.lines().take(usize::try_from(line).ok()?).collect();
            let is_around = |line: &&&str| {
                let own = line.len().saturating_sub(line.trim_start().len());
                own < indent && !line.trim().is_empty()
            };
            let around = above.iter().rev().skip(1).find(is_around)?;
            around.trim_end().strip_suffix(':')?
        }
        None => return None,
    };
    let field = field.rsplit(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    form_of(field).map(|_| field)
}

/// The field around a place that takes one of several words or objects: on its line, or on one above that is
/// indented less.
fn field_with_form(text: &str, row: u64, length: u64) -> Option<&str> {
    let (row, length) = (usize::try_from(row).ok()?, usize::try_from(length).ok()?);
    let lines: Vec<&str> = text.lines().take(row.saturating_add(1)).collect();
    let (last, above) = lines.split_last()?;
    let end = last.char_indices().nth(length).map_or(last.len(), |(at, _)| at);
    let mut indent = usize::MAX;
    for line in std::iter::once(last.get(..end)?).chain(above.iter().rev().copied()) {
        let own = line.len().saturating_sub(line.trim_start_matches([' ', '-']).len());
        let is_around = own < indent && !line.trim().is_empty();
        let before = line.match_indices(':').filter_map(|(at, _)| line.get(..at));
        // A name may be in quotes.
        let mut names = before.filter_map(|before| {
            let before = before.trim_end_matches(['"', '\'']);
            before.rsplit(|c: char| !c.is_alphanumeric() && c != '_').next()
        });
        if let Some(field) = names.rfind(|name| is_around && form_of(name).is_some()) {
            return Some(field);
        }
        if is_around {
            indent = own;
        }
    }
    None
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

fn yaml_error(error: &YamlError) -> ReadError {
    let error = error.without_snippet();
    let mut short = None;
    let hint = match error {
        YamlError::SerdeUnknownField { field, expected, .. } => {
            let start = format!("unknown field `{field}`");
            short = without_list(&start, field, &expected.iter().copied());
            meant_field(field, &expected.iter().copied())
        }
        YamlError::SerdeUnknownVariant { variant, expected, .. } => {
            let start = format!("unknown variant `{variant}`");
            short = unknown_value(&start, &expected.iter().copied());
            did_you_mean(variant, expected.iter().copied())
        }
        _ => String::new(),
    };
    let message = error.render_with_formatter(&PlainMessages);
    if let (Some(short), Some(place)) = (&short, error.location()) {
        return ReadError::at(place.line(), place.column(), short);
    }
    let Some(place) = error.location() else {
        return plan_error(format!("{message}{hint}")).into();
    };
    let (line, column) = (place.line(), place.column());
    let suffix = format!(" at line {line}, column {column}");
    let message = message.replacen(&suffix, "", 1);
    ReadError::at(line, column, &format!("{message}{hint}"))
}

/// Replaces the messages of the YAML library by messages for the author of a plan.
struct PlainMessages;

impl MessageFormatter for PlainMessages {
    fn format_message<'a>(&self, error: &'a YamlError) -> Cow<'a, str> {
        match error {
            YamlError::Unexpected { expected, .. } => match *expected {
                "sequence start" => "expected a list",
                "mapping start" | "empty mapping start" => FIELDS_EXPECTED,
                "mapping end" | "empty mapping end" => "expected no other field here",
                "string scalar" => "expected text",
                "scalar" => "expected a single value",
                _ => "expected another value",
            }
            .into(),
            YamlError::Eof { .. } => "the file ends where a value is expected".into(),
            YamlError::NullIntoString { .. } => "the value is empty, expected text".into(),
            YamlError::MultipleDocuments { .. } => {
                "the file has more than one YAML document, expected one plan; split the file".into()
            }
            YamlError::InvalidScalar { ty, .. } => match number_range(ty) {
                Some(range) => format!("expected {range}").into(),
                None => format!("expected {ty}").into(),
            },
            YamlError::InvalidBooleanStrict { .. } => "expected true or false".into(),
            YamlError::NonFiniteFloat { .. } => {
                "the number is not finite or too large; write it as text".into()
            }
            YamlError::DuplicateMappingKey { key: Some(key), .. } => {
                format!("duplicate field `{key}`; remove one").into()
            }
            YamlError::DuplicateMappingKey { key: None, .. } => {
                "a field occurs twice; remove one".into()
            }
            YamlError::ExpectedStringKeyForExternallyTaggedEnum { .. }
            | YamlError::ExternallyTaggedEnumExpectedScalarOrMapping { .. }
            | YamlError::UnexpectedValueForUnitEnumVariant { .. }
            | YamlError::ExpectedMappingEndAfterEnumVariantValue { .. }
            | YamlError::UnexpectedValueForUnit { .. }
            | YamlError::ExpectedEmptyMappingForUnitStruct { .. } => FORM_EXPECTED.into(),
            YamlError::UnsupportedTag { .. }
            | YamlError::TaggedEnumMismatch { .. }
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
