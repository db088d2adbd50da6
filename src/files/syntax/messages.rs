//! Messages of the JSON and YAML libraries in plain English, with the nearest known name.
//!
//! The libraries report type names and parser states. An author needs to know what was found,
//! what was expected, and what to do.

use crate::plan::closest_name;

/// Rewrites a message of a library.
pub(crate) fn plain_message(message: &str) -> String {
    if let Some(text) = SYNTAX_MESSAGES.iter().find(|(known, _)| *known == message) {
        return text.1.to_owned();
    }
    if let Some(rest) = message.strip_prefix("duplicate field ") {
        return format!("duplicate field {rest}; remove one");
    }
    let Some((start, expected)) = message.split_once(", expected ") else {
        return message.to_owned();
    };
    let invalid = ["invalid type: ", "invalid value: "];
    if let Some(found) = invalid.iter().find_map(|prefix| start.strip_prefix(prefix)) {
        let hint = if expected == "a string" { "; write it in quotes" } else { "" };
        return format!(
            "found {}, expected {}{hint}",
            found_value(found),
            expected_value(expected)
        );
    }
    if start.starts_with("unknown ") {
        let name = quoted(start).next().unwrap_or_default();
        let hint = did_you_mean(name, quoted(expected));
        let start = start.replacen("unknown variant", "unknown value", 1);
        return format!("{start}, expected {expected}{hint}");
    }
    message.to_owned()
}

/// Messages of the JSON library about syntax, and their replacements.
const SYNTAX_MESSAGES: &[(&str, &str)] = &[
    ("EOF while parsing a list", "the file ends inside a list; close it with `]`"),
    ("EOF while parsing an object", "the file ends inside an object; close it with `}`"),
    ("EOF while parsing a string", "the file ends inside a text; close it with a double quote"),
    ("EOF while parsing a value", "the file ends where a value is expected"),
    ("expected ident", "expected true, false or null"),
    ("expected value", "expected a value: an object, a list, a number, or text in double quotes"),
    ("invalid escape", "unknown escape in a text; write a backslash as `\\\\`"),
    ("key must be a string", "expected the name of a field in double quotes"),
    ("trailing comma", "expected another value after the comma; remove the comma"),
    ("trailing characters", "expected the end of the file; remove the text from here on"),
    ("recursion limit exceeded", "the file is nested too deeply: at most 127 levels"),
    (
        "control character (\\u0000-\\u001F) found while parsing a string",
        "a line break or control character in a text; write a line break as `\\n`",
    ),
];

/// A value that a library found.
fn found_value(found: &str) -> String {
    let (kind, value) = found.split_once(' ').unwrap_or((found, ""));
    match kind {
        "integer" => format!("the number {value}"),
        "floating" => format!("the number {}", value.trim_start_matches("point ")),
        "string" => format!("the text {value}"),
        "boolean" => value.to_owned(),
        "map" => "an object".to_owned(),
        "sequence" => "a list".to_owned(),
        "unit" | "null" => "nothing".to_owned(),
        _ => found.to_owned(),
    }
}

/// What a library expected.
fn expected_value(expected: &str) -> String {
    if let Some(range) = number_range(expected) {
        return range.to_owned();
    }
    match expected {
        "a string" => "text",
        "a sequence" => "a list",
        "a map" => "an object",
        "a boolean" => "true or false",
        "string or map" => "text or an object",
        _ if expected.starts_with("struct ") => "an object",
        _ => expected,
    }
    .to_owned()
}

/// The numbers that a type can hold.
pub(super) fn number_range(name: &str) -> Option<&'static str> {
    match name {
        "u8" | "u16" | "u32" | "u64" | "usize" => Some("a whole number, 0 or more"),
        "i8" | "i16" | "i32" | "i64" | "isize" => Some("a whole number"),
        "f32" | "f64" | "floating point" => Some("a number"),
        "bool" | "boolean" => Some("true or false"),
        _ => None,
    }
}

/// The texts between pairs of backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// A hint with the known name nearest to an unknown one, or nothing.
pub(super) fn did_you_mean<'a>(written: &str, known: impl Iterator<Item = &'a str>) -> String {
    closest_name(written, known)
        .map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn library_messages_become_plain() {
        for (message, expected) in [
            (
                "invalid type: integer `1`, expected a string",
                "found the number `1`, expected text; write it in quotes",
            ),
            (
                "invalid value: integer `-1`, expected u32",
                "found the number `-1`, expected a whole number, 0 or more",
            ),
            (
                "invalid type: sequence, expected struct RetryPolicy",
                "found a list, expected an object",
            ),
            (
                "unknown variant `with-key`, expected one of `yes`, `no`, `with_key`",
                "unknown value `with-key`, expected one of `yes`, `no`, `with_key`; did you mean \
                 `with_key`?",
            ),
            ("missing field `id`", "missing field `id`"),
            ("trailing comma", "expected another value after the comma; remove the comma"),
        ] {
            assert_eq!(plain_message(message), expected);
        }
    }
}
